// What an open question is about, for who answers it.
import type { ActionRecord, PolicyRule } from "$types/commands";

type Args = Record<string, unknown>;

function args(a: ActionRecord): Args {
  return (a.safeArgs && typeof a.safeArgs === "object" && !Array.isArray(a.safeArgs) ? a.safeArgs : {}) as Args;
}

/** proposedDiff is the change that a call to write or edit a file proposes, as a unified diff; empty for other calls. */
export function proposedDiff(a: ActionRecord): string {
  const p = args(a);
  const path = String(p.path ?? "");
  const lines = (t: unknown, sign: string) => String(t ?? "").replace(/\n$/, "").split("\n").map((l) => sign + l).join("\n");
  if (a.toolName === "write_file" && typeof p.content === "string") return `--- ${path}\n+++ ${path}\n@@ the whole file @@\n${lines(p.content, "+")}`;
  if (a.toolName === "edit_file") return `--- ${path}\n+++ ${path}\n@@ ${p.all ? "every place" : "one place"} @@\n${lines(p.old, "-")}\n${lines(p.new, "+")}`;
  return "";
}

/** impact says in a line what would happen. */
export function impact(a: ActionRecord): string {
  const p = args(a);
  const scope = (a.scope ?? {}) as { commands?: string[]; paths?: string[] };
  switch (a.actionType) {
    case "tool_permission":
    case "sandbox_escape":
      if (a.toolName === "shell") return `Runs ${(scope.commands ?? [String(p.command ?? "a command")]).map((c) => `“${c}”`).join(", then ")}${a.actionType === "sandbox_escape" ? " outside of the sandbox" : ""}.`;
      if (a.toolName === "write_file" || a.toolName === "edit_file") return `Writes ${(scope.paths ?? [String(p.path)]).join(", ")}.`;
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

/** ruleFor is the narrowest rule that would have allowed the call without asking. */
export function ruleFor(a: ActionRecord): PolicyRule | null {
  if (a.actionType !== "tool_permission" || !a.toolName) return null;
  const p = args(a);
  const reason = "kept from an approval";
  if (a.toolName === "shell") {
    const commands = ((a.scope ?? {}) as { commands?: string[] }).commands ?? [];
    const words = (commands[0] ?? String(p.command ?? "")).trim().split(/\s+/);
    if (commands.length > 1 || !words[0]) return null;
    const stem = words[1] && /^[a-z][\w-]*$/.test(words[1]) ? `${words[0]} ${words[1]}` : words[0];
    return { decision: "allow", tool: "shell", match: `${stem} *`, reason };
  }
  if (typeof p.path === "string") return { decision: "allow", tool: a.toolName, match: p.path, reason };
  return { decision: "allow", tool: a.toolName, reason };
}
