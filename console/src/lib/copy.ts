import { notices, notify } from "./notices.svelte";

/** copy puts a text into the clipboard and says so; where the browser refuses that, it shows the text instead. */
export async function copy(text: string, said = `Copied ${text}`): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(said);
  } catch {
    notices.add(`The browser lets this page copy nothing. Copy it from here: ${text}`, true);
  }
}
