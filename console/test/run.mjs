// Runs the file NAME.test.mjs of this folder in a browser, one test after the other, and writes a line
// of JSON for each test.
import { closeAll, openBrowser } from "./kit.mjs";

const group = process.argv[2];
const named = new RegExp(process.env.AGENTD_TEST_NAMED ?? "");
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

const { default: tests } = await import(`./${group}.test.mjs`);
for (const [name, run] of Object.entries(tests)) {
  if (!named.test(name)) continue;
  const began = Date.now();
  const result = await attempt(run);
  failed ||= !!result.error;
  console.log(JSON.stringify({ name: `${group}/${name.replaceAll(" ", "_")}`, ...result, ms: Date.now() - began }));
}
await closeAll();
process.exit(failed ? 1 : 0);
