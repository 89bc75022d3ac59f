package harbor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Layout is where the files of a trial are:
//
//	jobs/<job>/<task>__<7 characters>/
//	    config.json result.json trial.log exception.txt
//	    agent/ verifier/ artifacts/
//	    steps/<step>/ agent/ verifier/ artifacts/      (a task of several steps)
type Layout struct {
	// Dir is the trial's folder, Name its own name.
	Dir, Name string
}

// NewLayout makes the folders of a trial. Suffix tells the trials of a task apart:
// seven letters or digits.
func NewLayout(jobDir, task, suffix string) (*Layout, error) {
	name := safeName(task) + "__" + suffix
	if !trialName.MatchString(name) {
		return nil, fmt.Errorf("harbor: %q can't be the name of a trial", name)
	}
	return (&Layout{Dir: filepath.Join(jobDir, name), Name: name}).made()
}

// Step makes the folders of one of the trial's steps.
func (l *Layout) Step(name string) (*Layout, error) {
	if !stepName.MatchString(name) {
		return nil, fmt.Errorf("harbor: %q can't be the name of a step", name)
	}
	return (&Layout{Dir: filepath.Join(l.Dir, StepsDir, name), Name: l.Name}).made()
}

func (l *Layout) made() (*Layout, error) {
	for _, dir := range []string{l.Agent(), l.Verifier(), l.Artifacts()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("harbor: trial: %w", err)
		}
	}
	return l, nil
}

// safeName keeps what a folder's name may have, shortened as Harbor does it.
func safeName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, s)
	return strings.TrimLeft(s[:min(len(s), 32)], "-_.")
}

// Agent is what Harbor mounts at /logs/agent.
func (l *Layout) Agent() string { return filepath.Join(l.Dir, "agent") }

// Verifier is what Harbor mounts at /logs/verifier.
func (l *Layout) Verifier() string { return filepath.Join(l.Dir, "verifier") }

// Artifacts is what Harbor mounts at /logs/artifacts.
func (l *Layout) Artifacts() string { return filepath.Join(l.Dir, "artifacts") }

// File is a file of the trial.
func (l *Layout) File(name string) string { return filepath.Join(l.Dir, name) }

// ManifestFile is the name of a manifest in its folder.
const ManifestFile = "manifest.json"

// Artifact is an entry of a manifest. The last five members are not Harbor's: they
// say who made the file and let others check it.
type Artifact struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
	// Type is file or directory, Status says what became of it.
	Type   string `json:"type"`
	Status string `json:"status"`

	Producer  string `json:"producer,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	SizeBytes int64  `json:"sizeBytes"`
	MediaType string `json:"mediaType,omitempty"`
	// Redaction says what was taken out of it.
	Redaction string `json:"redaction,omitempty"`
}

// ReadManifest reads a manifest of artifacts.
func ReadManifest(path string) ([]Artifact, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("harbor: manifest: %w", err)
	}
	var list []Artifact
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("harbor: %s: %w", path, err)
	}
	for i, a := range list {
		if a.Source == "" || a.Destination == "" || !slices.Contains([]string{"file", "directory"}, a.Type) {
			return nil, fmt.Errorf("harbor: %s: entry %d lacks its source, destination or type", path, i)
		}
		if filepath.IsAbs(a.Destination) || slices.Contains(strings.Split(filepath.ToSlash(a.Destination), "/"), "..") {
			return nil, fmt.Errorf("harbor: %s: entry %d leaves the folder", path, i)
		}
	}
	return list, nil
}

// Verify checks the files of a folder against their manifest entries: those that
// carry a sum must be there and have it.
func Verify(dir string, list []Artifact) error {
	var errs []error
	for _, a := range list {
		if a.SHA256 == "" || a.Type != "file" {
			continue
		}
		sum, size, err := Sum(filepath.Join(dir, filepath.FromSlash(a.Destination)))
		switch {
		case err != nil:
			errs = append(errs, err)
		case sum != a.SHA256 || size != a.SizeBytes:
			errs = append(errs, fmt.Errorf("harbor: %s is not what the manifest says", a.Destination))
		}
	}
	return errors.Join(errs...)
}

// Sum returns the SHA-256 sum of a file in hex, and its size.
func Sum(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("harbor: %w", err)
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, fmt.Errorf("harbor: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
