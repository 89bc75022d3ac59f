package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/evidence"
)

func (a *app) evidenceCommand() *cobra.Command {
	return parent("evidence", "Check exported evidence",
		"Checks exports of \"agentd export\", \"agentd bench export\" and the commands behind\nthem, and prints the key that a runtime signs with.\n\nExit codes: those of its commands.",
		"  agentd evidence verify evidence.zip\n  agentd evidence key", a.evidenceVerifyCommand(), a.evidenceKeyCommand())
}

// evidenceKey is the answer of "agentd evidence key".
type evidenceKey struct {
	RuntimeID string `json:"runtimeId"`
	KeyID     string `json:"evidenceKeyId"`
}

func (a *app) evidenceKeyCommand() *cobra.Command {
	return a.withDataFlags(&cobra.Command{
		Use:   "key",
		Short: "Print the id of the key that exports are signed with",
		Long: `Prints the id of the key with which this runtime signs evidence, replay cases,
reviews, trials and exported sessions. Give it to those who verify: no export can
prove whose key signed it.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd evidence key\n  agentd evidence verify --key $(agentd evidence key) evidence.zip",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFacts(cmd, toAct, func(f facts.Source) error {
				key, err := keyOf(cmd.Context(), f)
				if err != nil {
					return err
				}
				return a.print(key, func(p *printer) { p.linef("%s", terminal.Plain(key.KeyID)) })
			})
		},
	})
}

// keyOf asks a runtime for its key.
func keyOf(ctx context.Context, f facts.Source) (*evidenceKey, error) {
	switch f := f.(type) {
	case *remoteFacts:
		status, err := f.status(ctx)
		if err != nil {
			return nil, err
		}
		var said struct {
			Runtime evidenceKey `json:"runtime"`
		}
		if err := json.Unmarshal(status, &said); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
		if said.Runtime.KeyID == "" {
			return nil, errors.New("the server doesn't report the key it signs with")
		}
		return &said.Runtime, nil
	case *localFacts:
		id, err := f.runtime.EvidenceKeyID(ctx)
		return &evidenceKey{RuntimeID: f.runtime.ID(), KeyID: id}, err
	}
	return nil, errors.New("the signing key isn't available here")
}

func (a *app) evidenceVerifyCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a signed export offline",
		Long: `Verifies a pack: a JSON file, or a bundle as a directory or a zip archive. Every
fact is checked against the session's hash chain, every section and file against
its hash, and all hashes against the signature. Only content matters: a pack that
another program rewrote with different white space is still valid.

Replay cases, reviews (as .json) and packs of benchmark trials are verified as
well. They contain no facts: every section is checked against its hash and all
hashes against the signature, which also names the place in the chain where they
were made. A document without a proof is reported as such.

A pack names the key that signed it, but can't prove whose key that is. Compare
it with the id that the runtime's operator gave you ("agentd evidence key"), or
pass that id with --key.

A change is reported with its place: the byte, if only one was changed, inserted
or removed, or else the first of the few bytes where the change begins; the
section, and the fact. In a zip archive it is the byte of the file in the
archive.

Exit codes: 0 unchanged, 1 changed (the first change is reported), without a
proof, or unreadable, 2 usage.`,
		Example: "  agentd evidence verify pack.json\n  agentd evidence verify --key sha256:… evidence.zip\n  agentd evidence verify --json evidence/",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, given []string) error {
			v, err := verifyEvidence(given[0], evidence.VerifyOptions{KeyID: key})
			if err == nil && v.Finding != nil {
				err = notEvidence(given[0], v)
			}
			if err != nil {
				return err
			}
			if err := a.print(v, func(p *printer) { printVerification(p, v) }); err != nil {
				return err
			}
			if v.Finding != nil {
				return silent(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "id of the key that must have signed it")
	return cmd
}

// notEvidence says so if a file isn't of a kind that can carry a proof at all.
func notEvidence(path string, v *evidence.Verification) error {
	kind, err := kindOf(path)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	proven := v.KeyID != "" || v.Finding.Exact // a damaged file still has its proof
	if kind.name != kindSession && kind.name != kindPlain && (kind.name != kindUnknown || proven) {
		return nil
	}
	return fmt.Errorf("verify: %w", kind.isNot(path, "signed evidence", "agentd export evidence"))
}

// verifyEvidence verifies a pack in whichever form it is.
func verifyEvidence(path string, opt evidence.VerifyOptions) (*evidence.Verification, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if info.IsDir() {
		return evidence.VerifyBundle(os.DirFS(path), opt), nil
	}
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err == nil && bytes.Equal(magic, []byte("PK\x03\x04")) {
		return evidence.VerifyArchive(f, info.Size(), opt), nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return evidence.Verify(f, opt)
}

func printVerification(p *printer, v *evidence.Verification) {
	if v.Unproven {
		p.linef("%s", p.Paint(terminal.Red, "not verified: "+terminal.Plain(v.Finding.Detail)))
		return
	}
	if v.Finding != nil {
		p.linef("%s", p.Paint(terminal.Red, "changed: "+terminal.Plain(v.Finding.String())))
		return
	}
	p.linef("%s of session %s: %s through %d, chain head %s", terminal.Plain(cmp.Or(v.EvidenceID, v.Kind)), terminal.Plain(v.Scope.SessionID), terminal.Plural(v.Events, "fact"), v.Through, v.HeadHash)
	switch {
	case v.Format == evidence.ReplayFormat:
		p.linef("only the signature attests that the facts of a %s are those of the session", v.Kind)
	case v.Format != evidence.Format:
		p.linef("a %s contains no facts; only the signature attests that it was made from them", v.Kind)
	case v.Removed > 0:
		p.linef("the facts through %d were removed by retention before the export; the rest of the chain is checked from there", v.Removed)
	case !v.Complete:
		p.linef("only the signature attests the facts between those of its scope")
	}
	p.linef("signed with the key %s", v.KeyID)
	if !v.KeyKnown {
		p.linef("compare that with the output of \"agentd evidence key\" at the runtime that exported it, or use --key; the session is of %s", terminal.Plain(v.RuntimeID))
	}
	p.linef("%s", p.Paint(terminal.Green, "nothing was changed"))
}

// errNotEmpty keeps an export from mixing with other files.
var errNotEmpty = errors.New("it exists and is not empty")
