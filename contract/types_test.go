package contract_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/command"
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

// typesCompiler compiles files beside the generated types with the strictest compiler.
func typesCompiler(t *testing.T, modules string, files map[string]string) func(name string) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	for name, source := range map[string][]byte{"agentd.ts": gen.TypeScript(), "commands.ts": gen.CommandTypeScript()} {
		files[name] = string(source)
	}
	for name, source := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(modules, compilerProgram), "--noEmit", "--strict", "--exactOptionalPropertyTypes",
			"--noUncheckedIndexedAccess", "--noUnusedLocals", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", filepath.Join(dir, name))
		cmd.Env = nodetest.Environment()
		return cmd.CombinedOutput()
	}
}

// TestTheTypesCompile holds the generated TypeScript against the strictest compiler.
func TestTheTypesCompile(t *testing.T) {
	modules := nodetest.Modules(t, "compiling the generated TypeScript")
	compile := typesCompiler(t, modules, map[string]string{"use.ts": use, "misuse.ts": misuse})
	if out, err := compile("use.ts"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := compile("misuse.ts"); err == nil {
		t.Errorf("what no answer has compiles: %s", out)
	}
}

// answersKept is how many answers of each command are held against its type.
const answersKept = 4

// TestAnswersAreOfTheirTypes writes what a server is sent and answers into a program: it
// compiles only if every member is in the type, and has the type's form.
func TestAnswersAreOfTheirTypes(t *testing.T) {
	modules := nodetest.Modules(t, "holding answers against the generated TypeScript")
	c := &client{T: t, base: serve(t), operations: map[string]bool{}}
	var source strings.Builder
	source.WriteString("import type { ParamsOf, ResultOf } from \"./commands\";\n")
	kept := map[command.Name]int{}
	c.around = func(name command.Name, body string) answer {
		a := c.want(http.StatusOK, http.MethodPost, "/v1/commands/"+string(name), body)
		if n := kept[name]; n < answersKept {
			kept[name]++
			fmt.Fprintf(&source, "export const %s_%d: [ParamsOf<%q>, ResultOf<%q>] = [%s, %s];\n", name, n, name, name, body, a.body)
		}
		return a
	}
	driveCommands(c)
	if len(kept) < len(command.Catalog()) {
		t.Errorf("%d of %d commands were carried out", len(kept), len(command.Catalog()))
	}
	compile := typesCompiler(t, modules, map[string]string{
		"answers.ts": source.String(),
		"wrong.ts":   "import type { ResultOf } from \"./commands\";\nexport const wrong: ResultOf<\"list_nodes\"> = { nodes: [], total: 0, more: 1 };\n",
	})
	if out, err := compile("answers.ts"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := compile("wrong.ts"); err == nil {
		t.Errorf("a member that no answer has compiles: %s", out)
	}
}
