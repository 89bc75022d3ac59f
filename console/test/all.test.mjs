// What holds for every page.
import { readFileSync } from "node:fs";
import { assert, axe, go, noSidewaysScroll, server, visit } from "./kit.mjs";

const source = readFileSync(new URL("../src/routes.ts", import.meta.url), "utf8");
const paths = [...source.matchAll(/\{ path: "([^"]+)"/g)].map((m) => m[1]);

let made;

/** pages are all routes, with a real session where one is asked for. */
async function pages(s) {
  made ??= s.turn("hello").then((turn) => s.done(turn).then(() => turn));
  const { sessionId } = await made;
  return paths.map((p) => p.replace("/s/:id", `/s/${sessionId}`).replace(/:\w+/, sessionId));
}

async function open(page, path) {
  await go(page, path);
  await page.locator("main h1").first().waitFor();
  if (path.startsWith("/s/")) await page.locator("svg .node").first().waitFor({ state: "attached" });
}

export default {
  "no page breaks the policy or leaves the origin": async (t) => {
    const s = await server();
    const all = await pages(s);
    const page = await visit(t, s, "/");
    for (const path of all) await open(page, path);
    const res = await page.request.get(`${s.url}/ui/`);
    const policy = res.headers()["content-security-policy"];
    assert.ok(policy.includes("frame-ancestors 'none'") && !policy.includes("unsafe"), policy);
    assert.equal(all.length, paths.length);
  },
  "axe finds nothing on any page in both themes": async (t) => {
    const s = await server();
    const all = await pages(s);
    for (const theme of ["light", "dark"]) {
      const page = await visit(t, s, "/", { theme });
      for (const path of all) {
        await open(page, path);
        await axe(page, `${path} ${theme}`);
      }
    }
  },
  "a phone shows every page without sideways scrolling": async (t) => {
    const s = await server();
    const all = await pages(s);
    const page = await visit(t, s, "/", { viewport: { width: 390, height: 844 } });
    for (const path of all) {
      await open(page, path);
      await noSidewaysScroll(page, path);
    }
  },
};
