package acp

import (
	"context"
	"fmt"
	"strings"

	"agentd/command"
	"agentd/fault"
)

// slash is a command that a prompt may be instead of a turn. It returns what is
// said about it.
type slash struct {
	availableCommand
	run func(ctx context.Context, s *session) (string, error)
}

func slashes() []slash {
	return []slash{
		{availableCommand{"compact", "Replace the past by a summary in the model's context"}, compactThread},
		{availableCommand{"diff", "Show what the last turn changed"}, diffTurn},
		{availableCommand{"undo", "Take the last turn back, with the files that it changed"}, undoTurn},
		{availableCommand{"resume", "Let a blocked turn go on"}, resumeThread},
	}
}

func slashCommands() []availableCommand {
	var out []availableCommand
	for _, x := range slashes() {
		out = append(out, x.availableCommand)
	}
	return out
}

// slashOf returns the command that a prompt is, or nil.
func slashOf(prompt []content) func(context.Context, *session) (string, error) {
	if len(prompt) != 1 || prompt[0].Type != "text" {
		return nil
	}
	name, is := strings.CutPrefix(strings.TrimSpace(prompt[0].Text), "/")
	for _, x := range slashes() {
		if is && x.Name == name {
			return x.run
		}
	}
	return nil
}

func compactThread(ctx context.Context, s *session) (string, error) {
	res, err := runCommand[command.CompactThreadResult](ctx, s.a, &command.CompactThread{SessionID: s.id, ThreadID: s.threadID})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The context has about %d tokens now, it had %d.", res.Boundary.TokensAfter, res.Boundary.TokensBefore), nil
}

func resumeThread(ctx context.Context, s *session) (string, error) {
	res, err := runCommand[command.ResumeThreadResult](ctx, s.a, &command.ResumeThread{SessionID: s.id, ThreadID: s.threadID})
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(res.Status, "_", " ") + ": " + res.Reason, nil
}

// lastTurn returns the command that takes the last turn back.
func lastTurn(ctx context.Context, s *session) (*command.RollbackThread, error) {
	v, err := s.a.sessionView(ctx, s.id)
	if err != nil {
		return nil, err
	}
	p := &command.RollbackThread{SessionID: s.id, ThreadID: s.threadID}
	var turns []string
	for i := range v.Threads {
		if v.Threads[i].ThreadID != s.threadID {
			continue
		}
		for _, t := range v.Threads[i].Turns {
			if t.TurnID != v.Threads[i].ActiveTurnID {
				turns = append(turns, t.TurnID)
			}
		}
	}
	switch n := len(turns); n {
	case 0:
		return nil, errorf(fault.RPCInvalidRequest, "the session has no finished turn")
	case 1:
		p.ToStart = true
	default:
		p.ToTurnID = turns[n-2]
	}
	return p, nil
}

func diffTurn(ctx context.Context, s *session) (string, error) {
	p, err := lastTurn(ctx, s)
	if err != nil {
		return "", err
	}
	p.Preview, p.Diff = true, true
	res, err := runCommand[command.RollbackThreadResult](ctx, s.a, p)
	if err != nil {
		return "", err
	}
	if res.Diff == "" {
		return "The last turn changed no file.", nil
	}
	return "```diff\n" + strings.TrimRight(res.Diff, "\n") + "\n```\n", nil
}

func undoTurn(ctx context.Context, s *session) (string, error) {
	p, err := lastTurn(ctx, s)
	if err != nil {
		return "", err
	}
	p.Files = "restore"
	res, err := runCommand[command.RollbackThreadResult](ctx, s.a, p)
	if err != nil {
		return "", err
	}
	out := []string{"The last turn was taken back."}
	for _, f := range res.Files {
		out = append(out, fmt.Sprintf("- %s: %s", f.Path, f.Change))
	}
	return strings.Join(out, "\n") + "\n", nil
}
