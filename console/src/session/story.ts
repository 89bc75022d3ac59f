// Facts as a story: turns with what was said, done and asked, in order. A fold without side effects on
// anything but its own state; items are replaced, never changed, so that a view knows what is new.
import type { Envelope } from "$lib/wire";

export interface TextItem {
  kind: "text";
  key: string;
  sequence: number;
  modelRequestId?: string;
  model?: string;
  text: string;
  reasoning: string;
  /** Whether the model still speaks. */
  open: boolean;
  /** Whether the answer is here from its first piece on. */
  began: boolean;
  /** Whether only a part of it is here; the whole message is at messageRef once it has ended. */
  partial: boolean;
  /** The beginning of a text that only messageRef has. */
  preview?: string;
  stopReason?: string;
  /** Why the call failed. */
  error?: string;
  messageRef?: string;
}

export interface ToolItem {
  kind: "tool";
  key: string;
  sequence: number;
  toolCallId: string;
  name: string;
  /** Undefined if they are not known, or long: then they are at inputRef. */
  args: unknown;
  inputRef?: string;
  destructive: boolean;
  status: "pending" | "asked" | "running" | "ok" | "failed" | "denied" | "lost";
  decision?: string;
  decisionReason?: string;
  sandbox?: Record<string, unknown>;
  actionId?: string;
  processId?: string;
  preview?: string;
  outputRef?: string;
  sizeBytes?: number;
  exitCode?: number | null;
  durationMs?: number;
  error?: string;
  advice?: string;
  files: { path: string; change: string }[];
  /** The plan, if the call wrote one. */
  plan?: { step: string; status: string }[];
}

export interface ActionItem {
  kind: "action";
  key: string;
  sequence: number;
  actionId: string;
  toolCallId?: string;
  actionType: string;
  prompt?: string;
  resolved?: { decision: string; status: string; by?: string; source?: string };
}

export interface NoteItem {
  kind: "note";
  key: string;
  sequence: number;
  tone: "plain" | "wait" | "bad" | "odd";
  icon: string;
  text: string;
  /** Where the rest of the text is, if it is long. */
  inputRef?: string;
}

export type Item = TextItem | ToolItem | ActionItem | NoteItem;

export interface Turn {
  turnId: string;
  threadId: string;
  subagentId?: string;
  first: number;
  last: number;
  /** What was asked, or its beginning if the rest is at inputRef. */
  input: string;
  inputRef?: string;
  by?: string;
  /** Whether its beginning lies before what was loaded. */
  cut: boolean;
  status: string;
  outcome?: string;
  error?: string;
  submittedAt?: string;
  durationMs?: number;
  costUSD?: number;
  usage?: { inputTokens?: number; outputTokens?: number };
  items: Item[];
  /** Steps that were left out because there are too many. */
  dropped: number;
}

export interface StoryGap {
  from: number;
  to: number;
  reason: string;
}

type P = Record<string, any>;

/** How many turns are kept while the story grows. */
const mostTurns = 120;
const mostItems = 600;

export class Story {
  turns: Turn[] = [];
  gaps: StoryGap[] = [];
  /** Notes outside of turns. */
  notes: NoteItem[] = [];
  /** The first and the last sequence that was folded. */
  first = 0;
  last = 0;
  /** Every sequence that was folded out of order or twice; a defect if it isn't empty. */
  odd: number[] = [];
  #byTurn = new Map<string, number>();
  #where = new Map<string, { turn: string; key: string }>();
  #changed = false;
  #most: number;

  /** A story that was read back to earlier turns keeps these, too: it has as many as it then had. */
  constructor(most = mostTurns) {
    this.#most = most;
  }

  /** settle ends the reading back: what the story has now is what it keeps. */
  settle(): void {
    this.#most = Math.max(mostTurns, this.turns.length);
  }

  /** fold takes events in. It returns whether turns, their steps or notes changed. */
  fold(events: Envelope[]): boolean {
    this.#changed = false;
    for (const e of events) {
      if (this.last && e.sequence !== this.last + 1) this.odd.push(e.sequence);
      this.first ||= e.sequence;
      this.last = e.sequence;
      this.#one(e, (e.payload ?? {}) as P);
    }
    this.#trim();
    return this.#changed;
  }

  gap(gap: StoryGap): void {
    this.gaps.push(gap);
    this.last = Math.max(this.last, gap.to);
    // Pieces of what is being said may be missing.
    this.turns = this.turns.map((t) => (t.items.some((i) => i.kind === "text" && i.open) ? { ...t, items: t.items.map((i) => (i.kind === "text" && i.open ? { ...i, began: false, partial: true } : i)) } : t));
  }

  #trim(): void {
    const over = this.turns.length - this.#most;
    if (over <= 0 && this.notes.length <= 200) return;
    for (const gone of this.turns.splice(0, Math.max(0, over))) {
      this.#byTurn.delete(gone.turnId);
      for (const i of gone.items) this.#where.delete(i.key);
      this.first = this.turns[0]!.first;
    }
    this.turns.forEach((t, i) => this.#byTurn.set(t.turnId, i));
    if (this.notes.length > 200) this.notes = this.notes.slice(-200);
  }

  #turn(e: Envelope): Turn | undefined {
    const id = e.turnId;
    if (!id || id === "not_applicable") return undefined;
    let at = this.#byTurn.get(id);
    if (at === undefined) {
      at = this.turns.length;
      this.#byTurn.set(id, at);
      this.turns.push({ turnId: id, threadId: e.threadId ?? "", subagentId: e.subagentId, first: e.sequence, last: e.sequence, input: "", cut: e.type !== "turn.submitted", status: "running", items: [], dropped: 0 });
    }
    const t = { ...this.turns[at]!, last: e.sequence };
    this.turns[at] = t;
    this.#changed = true;
    return t;
  }

  #add(t: Turn, item: Item): void {
    t.items = [...t.items, item];
    this.#where.set(item.key, { turn: t.turnId, key: item.key });
    if (t.items.length > mostItems) {
      const over = t.items.length - mostItems;
      for (const i of t.items.slice(0, over)) this.#where.delete(i.key);
      t.items = t.items.slice(over);
      t.dropped += over;
    }
  }

  #change<T extends Item>(t: Turn, key: string, change: (item: T) => Partial<T>): boolean {
    const at = t.items.findLastIndex((i) => i.key === key);
    if (at < 0) return false;
    const item = t.items[at] as T;
    t.items = t.items.with(at, { ...item, ...change(item) });
    return true;
  }

  #text(t: Turn, e: Envelope): string {
    const key = `m:${e.modelRequestId ?? e.stepId ?? t.turnId}`;
    if (!t.items.some((i) => i.key === key)) {
      const began = e.type === "model.requested";
      this.#add(t, { kind: "text", key, sequence: e.sequence, modelRequestId: e.modelRequestId, text: "", reasoning: "", open: true, began, partial: !began });
    }
    return key;
  }

  #tool(t: Turn, e: Envelope, p: P): string {
    const key = `t:${e.toolCallId}`;
    if (!t.items.some((i) => i.key === key)) {
      this.#add(t, { kind: "tool", key, sequence: e.sequence, toolCallId: e.toolCallId!, name: p.toolName ?? "tool", args: p.safeArgs, inputRef: p.inputRef, destructive: !!p.isDestructive, status: "pending", files: [] });
    }
    return key;
  }

  #note(e: Envelope, text: string, icon: string, tone: NoteItem["tone"] = "plain", inputRef?: string): void {
    const item: NoteItem = { kind: "note", key: `n:${e.sequence}`, sequence: e.sequence, tone, icon, text, inputRef };
    const t = this.#turn(e);
    if (t) this.#add(t, item);
    else {
      this.notes = [...this.notes, item];
      this.#changed = true;
    }
  }

  #one(e: Envelope, p: P): void {
    switch (e.type) {
      case "turn.submitted": {
        const t = this.#turn(e)!;
        t.first = e.sequence;
        t.cut = false;
        t.input = inputText(p);
        t.inputRef = p.input === undefined ? p.inputRef : undefined;
        t.status = p.status === "queued" ? "queued" : "accepted";
        t.submittedAt = e.timestamp;
        t.by = p.submittedBy?.id ?? p.source;
        break;
      }
      case "turn.started":
        this.#turn(e)!.status = "running";
        break;
      case "turn.steered":
        this.#note(e, `Steered: ${inputText(p)}`, "send", "plain", p.input === undefined ? p.inputRef : undefined);
        break;
      case "turn.interrupt_requested":
        this.#note(e, `Interrupt asked for${p.reason ? `: ${p.reason}` : ""}`, "square", "wait");
        break;
      case "turn.completed":
      case "turn.failed": {
        const t = this.#turn(e)!;
        t.status = p.status ?? e.type.slice(5);
        t.outcome = p.outcome;
        t.error = p.error?.message ?? (e.type === "turn.failed" ? p.failureCategory : undefined);
        t.durationMs = p.durationMs;
        t.costUSD = p.costUSD;
        t.usage = p.usage;
        t.items = t.items.map((i) => (i.kind === "text" && i.open ? { ...i, open: false } : i));
        break;
      }
      case "history.rollback.completed":
        for (const id of (p.removedTurns ?? []) as string[]) {
          const at = this.#byTurn.get(id);
          if (at === undefined) continue;
          this.turns[at] = { ...this.turns[at]!, status: "undone" };
          this.#changed = true;
        }
        this.#note(e, `${(p.removedTurns ?? []).length} turns were undone`, "undo-2");
        break;
      case "model.requested": {
        const t = this.#turn(e);
        if (!t) break;
        const key = this.#text(t, e);
        this.#change<TextItem>(t, key, () => ({ model: `${p.provider}/${p.model}` }));
        break;
      }
      case "model.delta":
      case "reasoning.delta": {
        const t = this.#turn(e);
        if (!t) break;
        const key = this.#text(t, e);
        const part = String(p.text ?? "");
        this.#change<TextItem>(t, key, (i) => (e.type === "model.delta" ? { text: i.text + part } : { reasoning: i.reasoning + part }));
        break;
      }
      case "model.completed": {
        const t = this.#turn(e);
        if (!t) break;
        const key = this.#text(t, e);
        this.#change<TextItem>(t, key, (i) => ({ open: false, stopReason: p.stopReason, model: `${p.provider}/${p.model}`, ...saidIn(p, i) }));
        break;
      }
      case "model.failed": {
        const t = this.#turn(e);
        if (!t) break;
        const key = this.#text(t, e);
        this.#change<TextItem>(t, key, () => ({ open: false, error: `${p.errorCategory}: ${p.message}` }));
        break;
      }
      case "tool.started": {
        const t = this.#turn(e);
        if (t) this.#tool(t, e, p);
        break;
      }
      case "tool.args":
      case "tool.progress":
      case "tool.result":
      case "tool.failed":
      case "permission.evaluated":
      case "sandbox.applied":
      case "sandbox.violation":
      case "process.started":
        if (e.toolCallId) this.#ofTool(e, p);
        break;
      case "action.required":
      case "action.resolved":
        this.#action(e, p);
        break;
      case "routing.fallback.applied":
        this.#note(e, `Fell back to ${p.selectedProvider}/${p.selectedModel}: ${p.decisionReason ?? ""}`, "repeat", "wait");
        break;
      case "routing.not_possible":
        this.#note(e, `No model can take this: ${p.decisionReason ?? ""}`, "circle-alert", "bad");
        break;
      case "context.compaction.completed":
        this.#note(e, `Context compacted: ${p.tokensBefore} to ${p.tokensAfter} tokens, ${(p.affectedTurns ?? []).length} turns`, "layers");
        break;
      case "rate_limit.hit":
        this.#note(e, `${p.provider} limits the rate${p.retryAfterMs ? `; waiting ${Math.round(p.retryAfterMs / 100) / 10} s` : ""}`, "timer", "wait");
        break;
      case "quota.blocked":
        this.#note(e, `Budget spent: ${p.used} of ${p.limit}`, "circle-alert", "bad");
        break;
      case "runtime.warning":
      case "runtime.error":
        this.#note(e, String(p.message ?? p.detail ?? e.type), "triangle-alert", e.type === "runtime.error" ? "bad" : "wait");
        break;
      case "subagent.spawned":
      case "subagent.started":
        if (p.role || p.nickname) this.#note(e, `Subagent ${p.nickname ?? p.role} started`, "bot");
        break;
      case "snapshot.repaired":
        this.#note(e, `A part of the history is ${p.status ?? "unavailable"}`, "circle-dashed", "odd");
        break;
      default:
        this.#touch(e);
    }
  }

  /** touch moves a turn's end along. */
  #touch(e: Envelope): void {
    if (!e.turnId || !this.#byTurn.has(e.turnId)) return;
    const t = this.turns[this.#byTurn.get(e.turnId)!]!;
    t.last = e.sequence; // not shown, so not a change
  }

  #ofTool(e: Envelope, p: P): void {
    const t = this.#turn(e);
    if (!t) return;
    const key = this.#tool(t, e, p);
    this.#change<ToolItem>(t, key, (i): Partial<ToolItem> => {
      switch (e.type) {
        case "tool.args":
          // A rewritten input that is long is only at its reference: the one before it is no longer true.
          return p.inputRef ? { args: p.safeArgs ?? p.args, inputRef: p.inputRef } : { args: p.safeArgs ?? p.args ?? i.args };
        case "tool.progress":
          return p.phase === "running" ? { status: "running" } : {};
        case "permission.evaluated":
          return { decision: p.decision, decisionReason: p.decisionReason, destructive: !!p.destructive || i.destructive, status: p.decision === "deny" ? "denied" : p.decision === "ask" ? "asked" : i.status };
        case "sandbox.applied":
          return { sandbox: p };
        case "sandbox.violation":
          return { error: `sandbox: ${p.boundary} ${p.path ?? ""} ${p.detail ?? ""}` };
        case "process.started":
          return { processId: p.processId };
        case "tool.result":
          return {
            status: "ok", preview: p.preview, outputRef: p.outputRef, sizeBytes: p.sizeBytes, exitCode: p.exitCode, durationMs: p.durationMs, processId: p.processId ?? i.processId,
            files: (p.changedFiles ?? []).map((f: P) => ({ path: f.path, change: f.change })),
            plan: p.toolName === "update_plan" ? p.structuredContent?.items : undefined,
          };
        case "tool.failed":
          return { status: p.errorCategory === "denied" ? "denied" : p.errorCategory === "lost" ? "lost" : "failed", error: `${p.errorCategory}: ${p.message}`, advice: p.advice, durationMs: p.durationMs };
        default:
          return {};
      }
    });
  }

  #action(e: Envelope, p: P): void {
    const t = this.#turn(e);
    if (!t || !e.actionId) return;
    const key = `a:${e.actionId}`;
    if (e.type === "action.required") {
      this.#add(t, { kind: "action", key, sequence: e.sequence, actionId: e.actionId, toolCallId: e.toolCallId, actionType: p.actionType, prompt: p.prompt });
      if (e.toolCallId) this.#change<ToolItem>(t, `t:${e.toolCallId}`, () => ({ status: "asked", actionId: e.actionId }));
      t.status = "blocked";
      return;
    }
    this.#change<ActionItem>(t, key, () => ({ resolved: { decision: p.decision, status: p.status ?? e.type.slice(7), by: p.resolvedBy?.id, source: p.decisionSource } }));
    if (e.toolCallId) this.#change<ToolItem>(t, `t:${e.toolCallId}`, (i) => (i.status === "asked" ? { status: "pending" } : {}));
    if (t.status === "blocked") t.status = "running";
  }
}

/**
 * saidIn is what an answer's last fact says. What is long isn't in it, as "" or not at all: then the pieces before it said
 * it, and if they aren't all here, the message at messageRef does.
 */
function saidIn(p: P, i: TextItem): Partial<TextItem> {
  const { text, reasoning } = (p.message ?? {}) as { text?: string; reasoning?: string };
  if (!p.messageRef) return { text: text ?? i.text, reasoning: reasoning ?? i.reasoning, partial: text === undefined && i.partial };
  return {
    text: text || i.text, reasoning: reasoning || i.reasoning, messageRef: p.messageRef, preview: p.preview,
    partial: i.partial && (!text || (!reasoning && i.reasoning !== "")),
  };
}

/** inputText is what was asked, as text. */
export function inputText(p: P): string {
  const input = p.input ?? p.text;
  if (typeof input === "string") return input;
  if (Array.isArray(input)) return input.map((part: P) => (part.type === "text" ? part.text : `[${part.type}${part.name ? ` ${part.name}` : ""}]`)).join("\n");
  return String(p.preview ?? "");
}
