// What a turn consists of and what led to what: edges only where two facts share an id, as explain joins them.
import type { Envelope } from "$lib/wire";

export interface Node {
  id: string;
  kind: "turn" | "model" | "tool" | "action" | "process" | "decision" | "subagent" | "files";
  label: string;
  detail: string;
  status: string;
  sequence: number;
}

export interface Edge {
  from: string;
  to: string;
  /** The name of the id that both have. */
  by: string;
}

export interface Placed extends Node {
  x: number;
  y: number;
}

export interface Layout {
  nodes: Placed[];
  edges: (Edge & { points: { x: number; y: number }[] })[];
  width: number;
  height: number;
}

/** graphOf derives the graph of one turn from its facts. */
export function graphOf(events: Envelope[]): { nodes: Node[]; edges: Edge[] } {
  const nodes = new Map<string, Node>();
  const edges = new Map<string, Edge>();
  const asked = new Map<string, string>(); // the request that asked for a call
  const put = (n: Node) => nodes.set(n.id, { ...(nodes.get(n.id) ?? n), ...n, sequence: nodes.get(n.id)?.sequence ?? n.sequence });
  const set = (id: string, status: string, detail?: string) => {
    const n = nodes.get(id);
    if (n) nodes.set(id, { ...n, status, detail: detail ?? n.detail });
  };
  const join = (from: string, to: string, by: string) => {
    if (nodes.has(from) && nodes.has(to) && from !== to) edges.set(`${from}>${to}`, { from, to, by });
  };
  for (const e of events) {
    const p = (e.payload ?? {}) as Record<string, any>;
    const turn = e.turnId;
    if (!turn || turn === "not_applicable") continue;
    if (!nodes.has(turn)) put({ id: turn, kind: "turn", label: "Turn", detail: "", status: "running", sequence: e.sequence });
    const request = e.modelRequestId;
    const call = e.toolCallId;
    switch (e.type) {
      case "turn.submitted":
        set(turn, "accepted", String(p.preview ?? ""));
        break;
      case "turn.completed":
      case "turn.failed":
      case "turn.cancelled":
        set(turn, p.status ?? e.type.slice(5));
        break;
      case "model.requested":
        put({ id: request!, kind: "model", label: String(p.model), detail: "", status: "running", sequence: e.sequence });
        join(turn, request!, "turnId");
        break;
      case "model.completed":
        set(request!, "completed", `${p.usage?.outputTokens ?? "?"} tokens`);
        for (const c of (p.message?.toolCalls ?? []) as { toolCallId: string }[]) asked.set(c.toolCallId, request!);
        break;
      case "model.failed":
        set(request!, "failed", p.errorCategory);
        break;
      case "tool.started": {
        put({ id: call!, kind: "tool", label: String(p.toolName), detail: String(p.safeArgs?.command ?? p.safeArgs?.path ?? ""), status: "pending", sequence: e.sequence });
        const by = asked.get(call!);
        if (by) join(by, call!, "toolCallId");
        else join(turn, call!, "turnId");
        break;
      }
      case "permission.evaluated":
        if (!call) break;
        put({ id: e.eventId, kind: "decision", label: String(p.decision), detail: String(p.decisionSource ?? ""), status: String(p.decision), sequence: e.sequence });
        join(call, e.eventId, "toolCallId");
        break;
      case "action.required":
        put({ id: e.actionId!, kind: "action", label: String(p.actionType).replaceAll("_", " "), detail: "", status: "pending", sequence: e.sequence });
        join(call ?? turn, e.actionId!, call ? "toolCallId" : "turnId");
        break;
      case "action.resolved":
        set(e.actionId!, p.decision === "deny" ? "denied" : "resolved", String(p.decision));
        break;
      case "process.started":
        put({ id: e.processId!, kind: "process", label: "process", detail: String((p.command as string[])?.at(-1) ?? ""), status: "running", sequence: e.sequence });
        if (call) join(call, e.processId!, "toolCallId");
        break;
      case "process.completed":
        set(e.processId!, p.exitCode === 0 ? "completed" : "failed", `exit ${p.exitCode}`);
        break;
      case "process.failed":
        set(e.processId!, p.errorCategory === "lost" ? "lost" : "failed", String(p.errorCategory));
        break;
      case "process.terminated":
        set(e.processId!, "terminated", String(p.reason));
        break;
      case "tool.progress":
        if (p.phase === "running") set(call!, "running");
        break;
      case "tool.result":
        set(call!, "completed");
        if (p.changedFiles?.length) {
          put({ id: `${call}/files`, kind: "files", label: `${p.changedFiles.length} file${p.changedFiles.length > 1 ? "s" : ""}`, detail: p.changedFiles.map((f: { path: string }) => f.path).join(", "), status: "completed", sequence: e.sequence });
          join(call!, `${call}/files`, "toolCallId");
        }
        break;
      case "tool.failed":
        set(call!, p.errorCategory === "lost" ? "lost" : "failed", p.errorCategory);
        break;
      default:
        if (e.subagentId && e.type.startsWith("subagent.")) {
          put({ id: e.subagentId, kind: "subagent", label: String(p.role ?? "subagent"), detail: "", status: String(p.status ?? "running"), sequence: e.sequence });
          join(call ?? turn, e.subagentId, call ? "toolCallId" : "turnId");
        }
    }
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}
