// Verifies an exported pack in the browser, as "agentd evidence verify" does: every section gives its hash,
// the facts follow one another to the head of the chain, and the signature holds. Nothing leaves the page.
import { tableOf } from "./format";

export interface Verified {
  kind: string;
  evidenceId: string;
  sessionId: string;
  exportedAt: string;
  events: number;
  through: number;
  headHash: string;
  complete: boolean;
  keyId: string;
}

/** A finding is the first thing in a pack that isn't as it was exported. */
export interface Finding {
  section: string;
  sequence?: number;
  detail: string;
}

const kinds = tableOf<string>({
  "agentd-evidence-1": "evidence pack",
  "agentd-replay-1": "replay case",
  "agentd-replay-2": "replay case",
  "agentd-review-1": "review",
  "agentd-trial-1": "trial pack",
});
const maxDepth = 100;
const utf8 = new TextEncoder();

class Found extends Error {
  constructor(readonly finding: Finding) {
    super(finding.detail);
  }
}

function fail(section: string, detail: string, sequence?: number): never {
  throw new Found({ section, detail, sequence });
}

/** Goes once through text that is JSON and writes it in its canonical form: members ordered, shortest strings and numbers. */
class Rewriter {
  at = 0;

  constructor(readonly text: string) {}

  peek(): string {
    while (/[ \t\n\r,:]/.test(this.text[this.at] ?? "")) this.at++;
    return this.text[this.at] ?? "";
  }

  value(depth = 0): string {
    if (depth > maxDepth) throw new SyntaxError("it is nested too deeply");
    switch (this.peek()) {
      case "{":
        return this.object(depth + 1);
      case "[":
        return `[${this.items(depth + 1).join(",")}]`;
      case '"':
        return this.string();
    }
    const begin = this.at;
    while (this.at < this.text.length && !/[ \t\n\r,:\]}]/.test(this.text[this.at]!)) this.at++;
    const literal = this.text.slice(begin, this.at);
    if (literal === "") throw new SyntaxError("it is not JSON");
    return /^[tfn]/.test(literal) ? literal : canonicalNumber(literal);
  }

  string(): string {
    const begin = this.at;
    for (this.at++; this.at < this.text.length && this.text[this.at] !== '"'; this.at++) if (this.text[this.at] === "\\") this.at++;
    this.at++;
    return quote(JSON.parse(this.text.slice(begin, this.at)) as string);
  }

  items(depth: number): string[] {
    const out: string[] = [];
    for (this.at++; this.peek() !== "]"; ) {
      if (this.at >= this.text.length) throw new SyntaxError("it is cut off");
      out.push(this.value(depth));
    }
    this.at++;
    return out;
  }

  object(depth: number): string {
    const members: [string, string][] = [];
    for (this.at++; this.peek() !== "}"; ) {
      if (this.peek() !== '"') throw new SyntaxError("it is cut off");
      members.push([this.string(), this.value(depth)]);
    }
    this.at++;
    members.sort((a, b) => byBytes(a[0], b[0]));
    members.forEach(([name], i) => {
      if (i > 0 && members[i - 1]![0] === name) throw new SyntaxError(`it has the field ${name} twice`);
    });
    return `{${members.map(([name, value]) => `${name}:${value}`).join(",")}}`;
  }
}

function byBytes(a: string, b: string): number {
  const x = utf8.encode(a);
  const y = utf8.encode(b);
  for (let i = 0; i < Math.min(x.length, y.length); i++) if (x[i] !== y[i]) return x[i]! - y[i]!;
  return x.length - y.length;
}

function quote(text: string): string {
  return JSON.stringify(text.toWellFormed()).replace(/[\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`);
}

/** An integer as it is, anything else as the shortest form of what a double holds. */
function canonicalNumber(literal: string): string {
  if (/^-?\d+$/.test(literal)) {
    const n = BigInt(literal);
    if (n >= -(2n ** 63n) && n < 2n ** 63n) return n.toString();
  }
  const f = Number(literal);
  if (Number.isNaN(f)) throw new SyntaxError("it is not JSON");
  if (!Number.isFinite(f)) return literal;
  if (Number.isInteger(f) && Math.abs(f) < 2 ** 53) return f.toString();
  const [digits, power] = f.toExponential().split("e") as [string, string];
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 6) return f.toString();
  return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

async function sha256(...parts: (Uint8Array | string)[]): Promise<Uint8Array> {
  const bytes = parts.map((p) => (typeof p === "string" ? utf8.encode(p) : p));
  const all = new Uint8Array(bytes.reduce((n, b) => n + b.length, 0));
  let at = 0;
  for (const b of bytes) {
    all.set(b, at);
    at += b.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", all));
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const unhex = (text: string): Uint8Array => Uint8Array.from(text.match(/../g) ?? [], (b) => parseInt(b, 16));
const unbase64 = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

interface EventLine {
  before?: string;
  data: string;
  hash: string;
  sequence: number;
}

interface Proof {
  chain: { algorithm: string; complete: boolean; events: number; genesis: string; headHash: string; through: number };
  document?: string;
  keyId: string;
  publicKey: string;
  sections: { name: string; items?: number; sha256: string }[];
  signature?: string;
  signatureAlgorithm: string;
}

/** The sections of a pack: their text in canonical form, lists item by item. */
function readSections(text: string): Map<string, string | string[]> {
  const r = new Rewriter(text);
  const sections = new Map<string, string | string[]>();
  if (r.peek() !== "{") fail("", "it is not a JSON object");
  for (r.at++; r.peek() !== "}"; ) {
    let name = "";
    try {
      name = JSON.parse(r.string()) as string;
      if (sections.has(name)) fail(name, "the section is there twice");
      sections.set(name, r.peek() === "[" ? r.items(1) : r.value(1));
    } catch (err) {
      if (err instanceof Found) throw err;
      fail(name, `it can't be read: ${(err as Error).message}`);
    }
  }
  r.at++;
  if (r.peek() !== "") fail("", "something follows after the end");
  return sections;
}

/** follow goes along the chain of the facts and returns what the proof hashes of each. */
async function follow(items: string[], sessionId: string): Promise<{ lines: string[]; last: string; sequence: number }> {
  let last = await sha256("agentd chain 1\n" + sessionId);
  let sequence = 0;
  const lines: string[] = [];
  for (const item of items) {
    const line = JSON.parse(item) as EventLine;
    const at = line.sequence;
    if (at <= sequence) fail("events", `it stands after fact ${sequence}`, at);
    if (at === sequence + 1 && line.before) fail("events", "it follows the fact before, and brings another hash to begin from", at);
    if (at !== sequence + 1 && !line.before) fail("events", `it is missing: the next one is ${at}`, sequence + 1);
    if (line.before) last = unhex(line.before);
    last = await sha256(last, line.data);
    if (hex(last) !== line.hash) fail("events", "its bytes, and the hash before, don't give its hash", at);
    const fact = JSON.parse(line.data) as { sequence: number; sessionId: string };
    if (fact.sequence !== at || fact.sessionId !== sessionId) fail("events", "it says that it is another fact", at);
    sequence = at;
    lines.push(`${at} ${line.before ?? ""} ${line.hash}`);
  }
  return { lines, last: hex(last), sequence };
}

async function signed(proof: Proof, text: string): Promise<boolean> {
  if (proof.signatureAlgorithm !== "ed25519" || !proof.signature) return false;
  const key = unbase64(proof.publicKey);
  if (proof.keyId !== `sha256:${hex(await sha256(key))}`) return false;
  const message = utf8.encode("agentd evidence 1\n" + withoutSignature(text));
  const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, imported, unbase64(proof.signature), message);
}

/** The canonical text of the proof without its signature, which stands between two other members. */
function withoutSignature(text: string): string {
  return text.replace(/"signature":"[A-Za-z0-9+/=]*",/, "");
}

/** isZip says whether a file is a zip archive, as the bundles are that "agentd export" writes. */
export const isZip = (bytes: Uint8Array): boolean => String.fromCharCode(...bytes.slice(0, 4)) === "PK\x03\x04";

/** verify reads an exported document and returns what it proves, or the first thing that is wrong with it. */
export async function verify(bytes: Uint8Array): Promise<{ proves?: Verified; finding?: Finding }> {
  if (!crypto.subtle) return { finding: { section: "", detail: "this page can't verify: browsers hash and check signatures only over https or on this machine. Use: agentd evidence verify FILE" } };
  try {
    // No byte is passed over: what isn't UTF-8, or isn't JSON, isn't what was exported.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    JSON.parse(text);
    return { proves: await check(readSections(text)) };
  } catch (err) {
    return { finding: err instanceof Found ? err.finding : { section: "", detail: `it can't be read: ${(err as Error).message}` } };
  }
}

async function check(sections: Map<string, string | string[]>): Promise<Verified> {
  const proofText = sections.get("integrity");
  if (typeof proofText !== "string") fail("integrity", "the proof is missing: this is a summary, or a part of a pack");
  const proof = JSON.parse(proofText) as Proof;
  const member = <T>(name: string): T | undefined => {
    const s = sections.get(name);
    return typeof s === "string" ? (JSON.parse(s) as T) : undefined;
  };
  const correlation = member<{ sessionId?: string }>("runtimeCorrelation");
  const sessionId = member<{ sessionId?: string }>("scope")?.sessionId ?? correlation?.sessionId ?? "";

  let end = { lines: [] as string[], last: "", sequence: 0 };
  const facts = sections.get("events");
  if (Array.isArray(facts) && !proof.document) end = await follow(facts, sessionId);

  const want = new Map(proof.sections.map((s) => [s.name, s]));
  for (const [name, content] of sections) {
    if (name === "integrity") continue;
    const s = want.get(name);
    if (!s) fail(name, "the proof knows no such section");
    want.delete(name);
    const items = name === "events" && !proof.document ? end.lines : content;
    const sum = Array.isArray(items) ? await sha256("[\n", ...items.map((i) => i + "\n")) : await sha256(items + "\n");
    if (hex(sum) !== s.sha256 || (Array.isArray(items) ? items.length : 0) !== (s.items ?? 0)) fail(name, "it was changed: its content doesn't give its hash");
  }
  for (const name of want.keys()) fail(name, "it is missing");
  if (!(await signed(proof, proofText))) fail("integrity", "the signature doesn't hold");
  const format = member<string>("format") ?? proof.document ?? "";
  if ((proof.document ?? "agentd-evidence-1") !== format) fail("integrity", "the proof is that of another kind of document");
  const chain = proof.chain;
  const genesis = hex(await sha256("agentd chain 1\n" + sessionId));
  if (chain.genesis !== genesis || (!proof.document && (chain.headHash !== end.last || chain.through !== end.sequence || chain.events !== end.lines.length))) {
    fail("integrity", "the facts don't lead to the head of the chain");
  }
  return {
    kind: kinds[format] ?? format,
    evidenceId: member<string>("evidenceId") ?? "",
    exportedAt: member<string>("exportedAt") ?? "",
    sessionId,
    events: chain.events,
    through: chain.through,
    headHash: chain.headHash,
    complete: chain.complete,
    keyId: proof.keyId,
  };
}
