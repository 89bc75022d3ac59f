package contract_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"agentd/internal/gen"
	"agentd/internal/nodetest"
)

// use is a client in TypeScript that compiles only if the types say what answers are.
const use = `import type { AgentdEvent } from "./agentd";
import type { Commands, ParamsOf, ResultOf, ThreadRead } from "./commands";

declare function call<C extends keyof Commands>(name: C, params: ParamsOf<C>): Promise<ResultOf<C>>;

export async function show(): Promise<string[]> {
  const session = await call("get_session", { sessionId: "s" });
  const threads: ThreadRead[] = session.threads;
  const costs: (number | null)[] = threads.map((t) => t.costState.totalUSD);
  const first: AgentdEvent | undefined = session.history.events[0];
  const turns = (await call("list_turns", {})).turns.map((t) => t.outcome ?? t.status);
  const asks = (await call("list_actions", {})).actions.map((a) => a.decisions?.join(" ") ?? "");
  const modes = threads.flatMap((t) => t.permissionState.policies.map((p) => p.mode ?? "none"));
  const left = threads.map((t) => t.lastOutcome?.endedAt ?? t.block?.reason ?? "");
  return [...costs.map(String), first?.type ?? "", ...turns, ...asks, ...modes, ...left];
}
`

// misuse asks for what no answer has, and takes as given what may be absent.
const misuse = `import type { SessionRead } from "./commands";
export const wrong = (s: SessionRead): string => s.threads[0]!.noSuchMember;
export const absent = (s: SessionRead): string => s.threads[0]!.lastOutcome.turnId;
`

// TestTheTypesCompile holds the generated TypeScript against the strictest compiler.
func TestTheTypesCompile(t *testing.T) {
	modules := nodetest.Modules(t, "compiling the generated TypeScript")
	dir := t.TempDir()
	for name, source := range map[string][]byte{
		"agentd.ts": gen.TypeScript(), "commands.ts": gen.CommandTypeScript(), "use.ts": []byte(use), "misuse.ts": []byte(misuse),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), source, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(name string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(modules, compilerProgram), "--noEmit", "--strict", "--exactOptionalPropertyTypes",
			"--noUncheckedIndexedAccess", "--noUnusedLocals", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", filepath.Join(dir, name))
		cmd.Env = nodetest.Environment()
		return cmd.CombinedOutput()
	}
	if out, err := compile("use.ts"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := compile("misuse.ts"); err == nil {
		t.Errorf("what no answer has compiles: %s", out)
	}
}
