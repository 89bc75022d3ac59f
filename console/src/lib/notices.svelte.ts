// Short messages at the edge of the page: what was done, or why it wasn't.
import type { Problem } from "./api";

export interface Notice {
  id: number;
  text: string;
  bad: boolean;
  /** The error's code. */
  code?: string;
  requestId?: string;
}

class Notices {
  list = $state.raw<Notice[]>([]);
  #next = 1;

  add(text: string, bad = false, code?: string, requestId?: string): void {
    const id = this.#next++;
    this.list = [...this.list.slice(-3), { id, text, bad, code, requestId }];
    setTimeout(() => this.remove(id), bad ? 12_000 : 4000);
  }

  clear(): void {
    this.list = [];
  }

  remove(id: number): void {
    this.list = this.list.filter((n) => n.id !== id);
  }
}

export const notices = new Notices();

/** notify says that something was done. */
export function notify(text: string): void {
  notices.add(text);
}

/** complain says why something couldn't be done. */
export function complain(err: unknown): void {
  const p = err as Problem;
  if (p.code === "aborted") return;
  notices.add(p.advice ? `${p.detail} ${p.advice}` : String(p.message ?? err), true, p.code, p.requestId);
}

/** copy puts a text into the clipboard and says so; where the browser refuses that, it shows the text instead. */
export async function copy(text: string, said = `Copied ${text}`): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(said);
  } catch {
    notices.add(`The browser lets this page copy nothing. Copy it from here: ${text}`, true);
  }
}
