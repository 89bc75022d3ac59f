// What an open question is about, for who answers it.
import type { ActionRecord, PolicyRule } from "$types/commands";

type Args = Record<string, unknown>;

function args(a: ActionRecord): Args {
  return (a.safeArgs && typeof a.safeArgs === "object" && !Array.isArray(a.safeArgs) ? a.safeArgs : {}) as Args;
}

/** The arguments that a proposed diff shows. */
export const inDiff: Record<string, string[]> = { write_file: ["path", "content"], edit_file: ["path", "old", "new", "all"] };

/** signed writes a sign before each line of a text, and counts the lines. */
function signed(text: unknown, sign: string): { lines: string; count: number } {
  const t = String(text ?? "");
  if (t === "") return { lines: "", count: 0 };
  const body = t.endsWith("\n") ? t.slice(0, -1) : t;
  let count = 1;
  for (let at = body.indexOf("\n"); at >= 0; at = body.indexOf("\n", at + 1)) count++;
  return { lines: `\n${sign}${body.replaceAll("\n", `\n${sign}`)}`, count };
}

/** proposedDiff is the change that a call to write or edit a file proposes, as a unified diff; empty for other calls. */
export function proposedDiff(a: ActionRecord): string {
  const p = args(a);
  // A path is one line, whatever is in it.
  const path = String(p.path ?? "").replace(/[\n\t]/g, (c) => (c === "\n" ? "␊" : "␉"));
  const head = `--- ${path}\n+++ ${path}`;
  if (a.toolName === "write_file" && typeof p.content === "string") {
    const all = signed(p.content, "+");
    return `${head}\n@@ -0,0 +1,${all.count} @@ the whole file${all.lines}${p.content && !p.content.endsWith("\n") ? "\n\\ No newline at the end" : ""}`;
  }
  if (a.toolName === "edit_file") {
    const [before, after] = [signed(p.old, "-"), signed(p.new, "+")];
    return `${head}\n@@ -1,${before.count} +1,${after.count} @@ ${p.all ? "every place" : "one place"}${before.lines}${after.lines}`;
  }
  return "";
}

/** The arguments themselves are shown whole; a line about them needn't repeat a long one. */
const short = (text: string) => (text.length > 200 ? `${text.slice(0, 199)}…` : text);

/** impact says in a line what would happen. */
export function impact(a: ActionRecord): string {
  const p = args(a);
  const scope = (a.scope ?? {}) as { commands?: string[]; paths?: string[] };
  switch (a.actionType) {
    case "tool_permission":
    case "sandbox_escape":
      if (a.toolName === "shell") return `Runs ${(scope.commands ?? [String(p.command ?? "a command")]).map((c) => `“${short(c)}”`).join(", then ")}${a.actionType === "sandbox_escape" ? " outside of the sandbox" : ""}.`;
      if (a.toolName === "write_file" || a.toolName === "edit_file") return `Writes ${(scope.paths ?? [short(String(p.path ?? "a file"))]).join(", ")}.`;
      return `Calls ${a.toolName}${scope.paths?.length ? ` on ${scope.paths.join(", ")}` : ""}.`;
    case "structured_input":
      return "The turn goes on with your answer.";
    case "plan_approval":
      return "Allowed, the plan is carried out.";
    case "credential":
      return "Only the reference that you give is recorded, never the secret itself.";
    default:
      return "";
  }
}

/** wayBack says whether it can be taken back. */
export function wayBack(a: ActionRecord): string {
  if (a.actionType === "sandbox_escape") return "What happens outside of the sandbox can't be taken back by agentd.";
  if (a.actionType !== "tool_permission") return "";
  switch (a.toolName) {
    case "write_file":
    case "edit_file":
      return "Undo restores the file as it was.";
    case "shell":
      return "Undo restores files of the workspace. What a command does elsewhere stays.";
    case "read_file":
    case "list_files":
    case "search_files":
      return "It only reads.";
    default:
      return "Whether it can be taken back is not known.";
  }
}

/** sayRule is a rule in a line. */
export function sayRule(r: PolicyRule): string {
  return [r.decision, r.tool, r.match].filter(Boolean).join(" ");
}
