package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// yamlBlock finds the examples in YAML of a page.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestConfigurationsOfTheDocs reads every configuration that the documentation
// shows as agentd would.
func TestConfigurationsOfTheDocs(t *testing.T) {
	checked := 0
	for name, text := range pages(t) {
		for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
			if otherFile(block[1]) {
				continue
			}
			checked++
			file := writeFile(t, t.TempDir(), "agentd.yaml", block[1])
			var out bytes.Buffer
			if code := (&Main{}).Run(context.Background(), []string{"config", "check", file}, nil, &out, &out, nil); code != exitOK {
				t.Errorf("%s shows a configuration that can't be used:\n%s\n%s", name, block[1], out.String())
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d configurations were found", checked)
	}
}

// otherFile tells what is no configuration: the answers of a script provider, and
// the rules of a workspace.
func otherFile(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		key, _, _ := strings.Cut(line, ":")
		return key == "answers" || key == "repeat" || key == "rules"
	}
	return true
}

// pages returns the documentation by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := filepath.Join("..", "..")
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		found[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
