package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBucket says what is missing in a bucket and what contradicts itself.
func TestBucket(t *testing.T) {
	good := Bucket{Endpoint: "https://h", Bucket: "b", Keep: Span(time.Hour)}
	with := func(change func(b *Bucket)) Bucket {
		b := good
		change(&b)
		return b
	}
	for name, c := range map[string]struct {
		bucket Bucket
		says   string
	}{
		"none":              {Bucket{}, ""},
		"good":              {good, ""},
		"keys":              {with(func(b *Bucket) { b.AccessKeyEnv, b.SecretKeyFile = "A", "/f" }), ""},
		"no bucket":         {with(func(b *Bucket) { b.Bucket = "" }), "blobs.s3.bucket: is missing"},
		"no endpoint":       {with(func(b *Bucket) { b.Endpoint = "" }), "blobs.s3.endpoint: is missing"},
		"a path":            {with(func(b *Bucket) { b.Bucket = "b/c" }), "name of a bucket alone"},
		"bucket in address": {with(func(b *Bucket) { b.Endpoint = "https://h/b" }), "a setting of its own"},
		"slash":             {with(func(b *Bucket) { b.Prefix = "/p" }), "must not begin with a slash"},
		"access alone":      {with(func(b *Bucket) { b.AccessKeyEnv = "A" }), "or neither"},
		"secret alone":      {with(func(b *Bucket) { b.SecretKeyFile = "/f" }), "or neither"},
		"two access keys":   {with(func(b *Bucket) { b.AccessKeyEnv, b.AccessKeyFile, b.SecretKeyEnv = "A", "/f", "B" }), "both accessKeyEnv and"},
		"two secret keys":   {with(func(b *Bucket) { b.AccessKeyEnv, b.SecretKeyFile, b.SecretKeyEnv = "A", "/f", "B" }), "both secretKeyEnv and"},
		"kept too short":    {with(func(b *Bucket) { b.Keep = Span(time.Minute) }), "at least 1h"},
		"keys for nothing":  {Bucket{SecretKeyEnv: "A"}, "no meaning without"},
	} {
		var said []string
		c.bucket.check(func(path, format string, args ...any) { said = append(said, path+": "+fmt.Sprintf(format, args...)) })
		if (c.says == "") != (len(said) == 0) || (c.says != "" && !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, c.says) })) {
			t.Errorf("%s: %q, want %q", name, said, c.says)
		}
	}
}
