package interop_test

import (
	"strings"
	"testing"
)

// acpScript is what the model answers in the scenes of acp.mjs.
const acpScript = `answers:
  - when: {contains: tour}
    reasoning: Think first.
    text: I will look.
    tools:
      - {name: update_plan, arguments: {items: [{step: look, status: completed}, {step: write, status: in_progress}]}}
      - {name: write_file, arguments: {path: new.txt, content: "hello\n"}}
      - {name: write_file, arguments: {path: old.txt, content: "after\n"}}
      - {name: edit_file, arguments: {path: old.txt, old: after, new: edited}}
      - {name: shell, arguments: {command: "cat old.txt > copy.txt; cat old.txt"}}
  - {when: {contains: tour}, text: All done.}
  - {when: {contains: write once}, tools: [{name: write_file, arguments: {path: once.txt, content: "x\n"}}]}
  - {when: {contains: write once}, text: Written.}
  - {when: {contains: write twice}, tools: [{name: write_file, arguments: {path: twice.txt, content: "x\n"}}]}
  - {when: {contains: write twice}, text: Written.}
  - {when: {contains: stall}, text: "Wait LONG", delay: 50ms}
  - {when: {contains: cut short}, text: Cut, stopReason: max_tokens}
  - {when: {contains: refuse this}, text: No., stopReason: refusal}
  - {when: {contains: break}, error: {category: auth, message: the key is wrong}}
  - when: {contains: look}
    reasoning: Think first.
    text: I look.
    tools: [{name: list_files, arguments: {path: "."}}]
  - {when: {contains: look}, text: I looked.}
  - {when: {contains: a number}, text: '{"n":7}'}
  - {when: {contains: make a plan}, tools: [{name: update_plan, arguments: {items: [{step: look, status: in_progress}]}}]}
  - {when: {contains: make a plan}, text: Planned.}
  - {when: {contains: delegate}, tools: [{name: spawn_agent, arguments: {role: counter, input: count to three}}]}
  - {when: {contains: delegate}, text: Delegated.}
  - {when: {contains: which colour}, ask: {prompt: "Which colour?", schema: {type: string, enum: [red, blue]}}}
  - {when: {contains: which colour}, text: You chose.}
`

const acpConfig = `data: ./data
workspace: {root: ./work}
providers:
  - id: script
    kind: script
    script: ./script.yaml
    models:
      - {id: main, contextWindow: 100000, price: {inputPerMTok: 1, outputPerMTok: 2}}
      - {id: other, contextWindow: 100000}
`

// acpFolder makes a folder with a configuration and a workspace.
func acpFolder(t *testing.T) string {
	t.Helper()
	return folder(t, map[string]string{"config.yaml": acpConfig, "script.yaml": strings.ReplaceAll(acpScript, "LONG", strings.Repeat("and wait ", 50_000))})
}

func TestACPWithTheOfficialClient(t *testing.T) {
	k := newProtoKit(t, "holding the ACP agent against the official client")
	for _, scene := range []string{"tour", "reject", "cancel", "config", "question", "wrong", "handover"} {
		t.Run(scene, func(t *testing.T) {
			t.Parallel()
			k.node(t, "acp.mjs", acpFolder(t), scene)
		})
	}
	for _, scene := range []string{"tour", "cancel", "server"} {
		t.Run("server/"+scene, func(t *testing.T) {
			t.Parallel()
			dir := acpFolder(t)
			serve(t, dir, nil)
			k.node(t, "acp.mjs", dir, scene)
		})
	}
}
