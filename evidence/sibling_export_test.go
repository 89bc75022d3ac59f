package evidence_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"agentd/command"
	"agentd/evidence"
)

// memoryBundle is a bundle in memory.
type memoryBundle map[string]*bytes.Buffer

func (m memoryBundle) Create(path string) (io.Writer, error) {
	m[path] = &bytes.Buffer{}
	return m[path], nil
}

// TestSiblingExport: the manifest names every other file with its size and hash, and
// the signed pack beside verifies.
func TestSiblingExport(t *testing.T) {
	k, _ := busy(t, nil)
	res := runCommand[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_busy"}})
	files := memoryBundle{}
	if err := evidence.WriteSiblingBundle(bytes.NewReader(k.output(res.Ref)), res.Ref, files); err != nil {
		t.Fatal(err)
	}
	var m struct {
		ExportID       string    `json:"export_id"`
		EvidencePackID string    `json:"evidence_pack_id"`
		SchemaVersion  string    `json:"schema_version"`
		CreatedAt      time.Time `json:"created_at"`
		Files          []struct {
			Path, Role, Hash string
			MediaType        string `json:"media_type"`
			Size             int64
		}
		Completeness map[string]struct{ Status string }
	}
	if err := json.Unmarshal(files["export-manifest.json"].Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if m.ExportID == "" || m.EvidencePackID != res.EvidenceID || m.SchemaVersion != "0.1.0" || m.CreatedAt.IsZero() || len(m.Completeness) == 0 {
		t.Errorf("the head is %+v", m)
	}
	if len(m.Files) != len(files)-1 {
		t.Errorf("%d of %d files are listed", len(m.Files), len(files)-1)
	}
	for _, f := range m.Files {
		b := files[f.Path]
		if b == nil {
			t.Fatalf("%s is listed and not there", f.Path)
		}
		sum := sha256.Sum256(b.Bytes())
		if f.Size != int64(b.Len()) || f.Hash != "sha256:"+hex.EncodeToString(sum[:]) || f.Role == "" || f.MediaType != "application/json" {
			t.Errorf("%+v is not what is there", f)
		}
	}
	verified(t, files["agentd-evidence.json"].Bytes())
	changed := bytes.Replace(k.output(res.Ref), []byte("write_file"), []byte("write_fool"), 1)
	if err := evidence.WriteSiblingBundle(bytes.NewReader(changed), res.Ref, memoryBundle{}); err == nil {
		t.Error("a changed pack was exported")
	}
}

// TestSiblingExportIsVerified: the shape has no proof, but all of it follows from the
// signed pack beside it, so a change of any byte of any file is found there.
func TestSiblingExportIsVerified(t *testing.T) {
	k, _ := busy(t, nil)
	res := runCommand[command.ExportResult](k, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_busy"}})
	written := memoryBundle{}
	if err := evidence.WriteSiblingBundle(bytes.NewReader(k.output(res.Ref)), res.Ref, written); err != nil {
		t.Fatal(err)
	}
	files := func() fstest.MapFS {
		out := fstest.MapFS{}
		for path, b := range written {
			out[path] = &fstest.MapFile{Data: bytes.Clone(b.Bytes())}
		}
		return out
	}
	if v := evidence.VerifyBundle(files(), evidence.VerifyOptions{}); v.Finding != nil || v.EvidenceID != res.EvidenceID || v.Files != 3 {
		t.Fatalf("%+v", v)
	}
	for path, b := range written {
		for _, at := range []int{20, b.Len() / 2} {
			changed := files()
			changed[path].Data[at] ^= 1
			if v := evidence.VerifyBundle(changed, evidence.VerifyOptions{}); v.Finding == nil || v.Finding.File != path || v.Finding.Byte != int64(at) {
				t.Errorf("%s, byte %d: %v", path, at, v.Finding)
			}
		}
		more, less, without := files(), files(), files()
		more[path].Data = append(more[path].Data, "{}"...)
		less[path].Data = less[path].Data[:b.Len()-3]
		delete(without, path)
		for what, files := range map[string]fstest.MapFS{"longer": more, "shorter": less, "missing": without} {
			if v := evidence.VerifyBundle(files, evidence.VerifyOptions{}); v.Finding == nil {
				t.Errorf("%s is %s, and that is not found", path, what)
			}
		}
	}
	// A manifest that can't be read any more: what it should say is known all the same.
	for _, at := range []int{0, 60, written["export-manifest.json"].Len() - 3} {
		unread := files()
		unread["export-manifest.json"].Data[at] = 0x01
		if v := evidence.VerifyBundle(unread, evidence.VerifyOptions{}); v.Finding == nil || v.Finding.File != "export-manifest.json" || v.Finding.Byte != int64(at) {
			t.Errorf("byte %d of the manifest: %v", at, v.Finding)
		}
	}
	// Times that were changed in every file, and hashes that fit to it again.
	late := files()
	times := regexp.MustCompile(`"(updated|checked)_at":"\d{4}`)
	before := refOf(late["evidence-pack.json"].Data)
	late["evidence-pack.json"].Data = times.ReplaceAll(late["evidence-pack.json"].Data, []byte(`"${1}_at":"1999`))
	manifest := late["export-manifest.json"]
	manifest.Data = bytes.ReplaceAll(manifest.Data, []byte(before), []byte(refOf(late["evidence-pack.json"].Data)))
	manifest.Data = regexp.MustCompile(`"created_at":"\d{4}`).ReplaceAll(manifest.Data, []byte(`"created_at":"1999`))
	if v := evidence.VerifyBundle(late, evidence.VerifyOptions{}); v.Finding == nil {
		t.Error("other times are not found")
	}
	stranger := files()
	stranger["more.json"] = &fstest.MapFile{Data: []byte("{}")}
	if v := evidence.VerifyBundle(stranger, evidence.VerifyOptions{}); v.Finding == nil || v.Finding.File != "more.json" {
		t.Errorf("a file more: %v", v.Finding)
	}
}

func refOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TestSiblingReplay checks a replay in the sibling's shape against what that standard
// requires, and against the case.
func TestSiblingReplay(t *testing.T) {
	k, turns := busy(t, nil)
	res := runCommand[command.ExportResult](k, &command.ExportReplay{ExportScope: command.ExportScope{SessionID: "sess_busy"}})
	doc := k.output(res.Ref)
	var out bytes.Buffer
	if err := evidence.WriteSiblingReplay(bytes.NewReader(doc), res.Ref, &out); err != nil {
		t.Fatal(err)
	}
	var r struct {
		ReplayID      string            `json:"replay_id"`
		SchemaVersion string            `json:"schema_version"`
		Scope         map[string]string `json:"scope"`
		Determinism   string            `json:"determinism"`
		InputRefs     []struct {
			RefID string `json:"ref_id"`
			Hash  string
		} `json:"input_refs"`
		ReplaySteps []struct {
			TurnID string `json:"turn_id"`
		} `json:"replay_steps"`
		ExpectedOutputs []map[string]any `json:"expected_outputs"`
		MissingFacts    []struct{ Reason string }
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,255}$`)
	if !id.MatchString(r.ReplayID) || r.SchemaVersion != "0.1.0" || r.Scope["session_id"] != "sess_busy" || r.Determinism != "deterministic" {
		t.Errorf("the head is %+v", r)
	}
	if len(r.InputRefs) != 1 || r.InputRefs[0].Hash != res.Ref || !id.MatchString(r.InputRefs[0].RefID) {
		t.Errorf("the case is named as %+v", r.InputRefs)
	}
	if len(r.ReplaySteps) != len(turns) || r.ReplaySteps[0].TurnID != turns[0] || len(r.ExpectedOutputs) < 8 {
		t.Errorf("steps %+v, %d outputs", r.ReplaySteps, len(r.ExpectedOutputs))
	}
	for name, wrong := range map[string]string{
		"changed": strings.Replace(string(doc), "written & read", "written & rued", 1), "a review": string(k.output(runCommand[command.ExportResult](k, &command.ExportReview{ExportScope: command.ExportScope{SessionID: "sess_busy"}}).Ref)),
	} {
		if err := evidence.WriteSiblingReplay(strings.NewReader(wrong), res.Ref, io.Discard); err == nil {
			t.Errorf("%s: it was exported", name)
		}
	}
}
