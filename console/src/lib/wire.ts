// What tabs and the worker between them and the server say to each other.

/** A fact as it came: the envelope of the standard. */
export interface Envelope {
  eventId: string;
  sessionId: string;
  sequence: number;
  type: string;
  timestamp: string;
  payload?: Record<string, unknown>;
  threadId?: string;
  turnId?: string;
  taskId?: string;
  runId?: string;
  stepId?: string;
  toolCallId?: string;
  actionId?: string;
  subagentId?: string;
  processId?: string;
  modelRequestId?: string;
  jobId?: string;
  jobItemId?: string;
  channelId?: string;
  artifactId?: string;
  evidenceId?: string;
  [key: string]: unknown;
}

/** What the feed of all sessions tells: enough to know what to read again. */
export type Fact = Pick<Envelope, "sessionId" | "sequence" | "type" | "timestamp" | "turnId" | "actionId" | "taskId" | "jobId">;

/** A stretch of facts that can't be delivered. */
export interface Gap {
  gapFrom: number;
  gapTo: number;
  reason: string;
  continuesAfter?: number;
}

/** Why a session isn't followed any more. */
export interface Ended {
  code: string;
  detail: string;
  requestId?: string;
}

export type LineState = "connecting" | "live" | "offline" | "out";

export type ToWorker =
  | { op: "hello"; lock?: string }
  | { op: "follow"; id: number; session: string; after: number }
  | { op: "unfollow"; id: number }
  | { op: "who"; who: string }
  | { op: "retry" }
  | { op: "bye" };

export type FromWorker =
  | { kind: "state"; state: LineState; since: number }
  | { kind: "facts"; facts: Fact[] }
  | { kind: "events"; id: number; events: Envelope[] }
  | { kind: "gap"; id: number; gap: Gap }
  /** The feed left something out. */
  | { kind: "missed" }
  /** A session isn't followed any more; "resumed" if it is again. */
  | { kind: "ended"; id: number; why: Ended }
  | { kind: "resumed"; id: number };
