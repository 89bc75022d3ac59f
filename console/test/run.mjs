// Runs all files *.test.mjs of this folder in one browser, one test after the other, and writes a line
// of JSON for each test.
import { readdirSync } from "node:fs";
import { closeAll, openBrowser } from "./kit.mjs";

const chosen = (process.env.AGENTD_TEST_PAGES ?? "").split(/[ ,]+/).filter(Boolean);
const named = new RegExp(process.env.AGENTD_TEST_NAMED ?? "");
const files = readdirSync(new URL(".", import.meta.url)).filter((f) => f.endsWith(".test.mjs")).sort();
let failed = false;
process.on("uncaughtException", (err) => {
  console.error(err);
  process.exit(2);
});
const browser = await openBrowser();

/** attempt runs a test once, with what it opened closed again. */
async function attempt(run) {
  const kit = { log: "", browser, folder: process.env.AGENTD_FOLDER, ends: [] };
  const result = {};
  try {
    await run(kit);
  } catch (err) {
    if (err.skip) result.skip = err.skip;
    else result.error = err.stack ?? String(err);
  }
  for (const end of kit.ends.reverse()) {
    try {
      await end(!!result.error);
    } catch (err) {
      result.error ??= err.stack ?? String(err);
    }
  }
  return { ...result, log: kit.log };
}

for (const file of files) {
  const group = file.replace(".test.mjs", "");
  if (chosen.length > 0 && !chosen.includes(group)) continue;
  const { default: tests } = await import(`./${file}`);
  for (const [name, run] of Object.entries(tests)) {
    if (!named.test(name)) continue;
    const began = Date.now();
    const result = await attempt(run);
    failed ||= !!result.error;
    console.log(JSON.stringify({ name: `${group}/${name.replaceAll(" ", "_")}`, ...result, ms: Date.now() - began }));
  }
}
await closeAll();
process.exit(failed ? 1 : 0);
