// Follows a session with the eventsource package through a proxy that cuts the
// connection at random places: every event comes once and in order.
//
//	node eventsource.mjs MODULES AGENTD FOLDER URL TOKEN SEED
import assert from "node:assert/strict";
import http from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, , , url, token, seed] = process.argv.slice(2);
const { EventSource } = await import(pathToFileURL(join(modules, "eventsource/dist/index.js")));
const command = async (name, params) => {
  const res = await fetch(`${url}/v1/commands/${name}`, {
    method: "POST", body: JSON.stringify(params), headers: { authorization: "Bearer " + token, "content-type": "application/json" },
  });
  const body = await res.json();
  assert.equal(res.status, 200, JSON.stringify(body));
  return body;
};

// random repeats for the same seed (mulberry32).
let state = Number(seed) >>> 0;
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}

// The proxy passes requests on and cuts an answer after some bytes: in the middle of
// a frame, of a line or of a character. It asks the client to come back at once.
const asked = [];
let cuts = 0;
const proxy = http.createServer((req, res) => {
  asked.push(req.headers["last-event-id"] ?? null);
  const onward = http.request(url + req.url, { headers: { ...req.headers, host: new URL(url).host } }, (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    if (answer.statusCode === 200) res.write("retry: 1\n\n");
    let left = Math.floor(random() ** 2 * 6000);
    answer.on("data", (part) => {
      if (left >= part.length) {
        left -= part.length;
        res.write(part);
        return;
      }
      cuts++;
      onward.destroy();
      res.write(part.subarray(0, left), () => res.destroy());
      answer.removeAllListeners("data");
    });
    answer.on("end", () => res.end());
    answer.on("error", () => {});
  });
  onward.on("error", () => {});
  onward.end();
});
await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));

const { sessionId } = await command("create_session", {});
const got = [];
const source = new EventSource(`http://127.0.0.1:${proxy.address().port}/v1/sessions/${sessionId}/events`, {
  fetch: (to, init) => fetch(to, { ...init, headers: { ...init.headers, authorization: "Bearer " + token } }),
});
let arrived = () => {};
source.onmessage = (m) => {
  const e = JSON.parse(m.data);
  assert.equal(m.lastEventId, String(e.sequence));
  got.push(e);
  arrived();
};

// Turns run while it follows.
for (let i = 0; i < 12; i++) await command("submit_turn", { sessionId, input: i % 3 ? `hello ü ${i}` : "look" });
const last = async () => (await command("get_session", { sessionId, limit: 0 })).sequence;
for (;;) {
  const end = await last();
  while (got.length < end) await new Promise((resolve) => (arrived = resolve));
  const { threads } = await command("get_session", { sessionId, limit: 0 });
  if (threads[0].status === "idle" || threads[0].status === "completed") if ((await last()) === got.length) break;
}
source.close();
assert.deepEqual(got.map((e) => e.sequence), got.map((_, i) => i + 1), "every event once and in order");
const page = await (await fetch(`${url}/v1/sessions/${sessionId}/events?limit=1000`, { headers: { authorization: "Bearer " + token } })).json();
assert.deepEqual(got, page.events.slice(0, got.length), "what came is what is there");
assert.equal(got.length, page.lastSequence);
assert.ok(cuts >= 5, `only ${cuts} cuts`);
assert.ok(asked.length > cuts && asked.some((id) => id !== null));
console.log(JSON.stringify({ seed, events: got.length, cuts, connections: asked.length }));
process.exit(0);
