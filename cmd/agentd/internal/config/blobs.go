package config

import (
	"net/url"
	"strings"
	"time"
)

// Blobs says where the contents of outputs, inputs and other blobs are.
type Blobs struct {
	S3 Bucket `json:"s3"`
}

// Bucket is a bucket of an object storage, or the part of one below a prefix.
type Bucket struct {
	Endpoint      string `json:"endpoint"`
	Bucket        string `json:"bucket"`
	Region        string `json:"region"`
	Prefix        string `json:"prefix"`
	CA            string `json:"ca"`
	AccessKeyEnv  string `json:"accessKeyEnv"`
	SecretKeyEnv  string `json:"secretKeyEnv"`
	AccessKeyFile string `json:"accessKeyFile"`
	SecretKeyFile string `json:"secretKeyFile"`
	From          int64  `json:"from"`
	Keep          Span   `json:"keep"`
}

func blobSettings() []Setting {
	return []Setting{
		{Name: "blobs.s3.endpoint", Type: URL, Means: "Address of an object storage that speaks the S3 protocol, where the contents of large blobs are kept instead of in the database; the same at all nodes."},
		{Name: "blobs.s3.bucket", Type: Text, Means: "Name of the bucket there. It must exist."},
		{Name: "blobs.s3.region", Type: Text, Default: "us-east-1", Means: "The bucket's region."},
		{Name: "blobs.s3.prefix", Type: Text, Means: "What the names of all objects begin with, such as agentd/, so that several databases can share a bucket."},
		{Name: "blobs.s3.ca", Type: Text, Means: "File with the authority (PEM) that signs the certificate of the endpoint, if it isn't one of the system's."},
		{Name: "blobs.s3.accessKeyEnv", Type: Text, Means: "Environment variable with the access key. Without any of these four settings the keys are looked for where AWS's programs do: AWS_ACCESS_KEY_ID, ~/.aws/credentials, the role of the machine or the pod."},
		{Name: "blobs.s3.secretKeyEnv", Type: Text, Means: "Environment variable with the secret key."},
		{Name: "blobs.s3.accessKeyFile", Type: Text, Means: "File with the access key instead; read again within five minutes of a change."},
		{Name: "blobs.s3.secretKeyFile", Type: Text, Means: "File with the secret key instead; read again within five minutes of a change."},
		{Name: "blobs.s3.from", Type: Size, Default: "64KiB", Means: "The smallest content that is moved to the bucket."},
		{Name: "blobs.s3.keep", Type: Duration, Default: "24h", Means: "How long an object stays after its blob was deleted: a database that is restored to a moment within this time finds all objects. At least 1h."},
	}
}

// minKeep is how long objects stay at least: a request that writes one may be that late.
const minKeep = Span(time.Hour)

// check reports what is missing, and what contradicts itself.
func (b *Bucket) check(add reporter) {
	if b.Bucket == "" && b.Endpoint == "" {
		for name, value := range map[string]string{"prefix": b.Prefix, "accessKeyEnv": b.AccessKeyEnv, "secretKeyEnv": b.SecretKeyEnv, "accessKeyFile": b.AccessKeyFile, "secretKeyFile": b.SecretKeyFile, "ca": b.CA} {
			if value != "" {
				add("blobs.s3."+name, "has no meaning without endpoint and bucket")
			}
		}
		return
	}
	if b.Bucket == "" {
		add("blobs.s3.bucket", "is missing")
	} else if strings.ContainsAny(b.Bucket, "/: ") {
		add("blobs.s3.bucket", "must be the name of a bucket alone")
	}
	if b.Endpoint == "" {
		add("blobs.s3.endpoint", "is missing, such as https://s3.eu-central-1.amazonaws.com")
	} else if u, err := url.Parse(b.Endpoint); err == nil && (u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "") {
		add("blobs.s3.endpoint", "must be scheme, host and port alone; the bucket has a setting of its own")
	}
	if strings.HasPrefix(b.Prefix, "/") {
		add("blobs.s3.prefix", "must not begin with a slash")
	}
	if b.AccessKeyEnv != "" && b.AccessKeyFile != "" {
		add("blobs.s3", "has both accessKeyEnv and accessKeyFile")
	}
	if b.SecretKeyEnv != "" && b.SecretKeyFile != "" {
		add("blobs.s3", "has both secretKeyEnv and secretKeyFile")
	}
	if (b.AccessKeyEnv != "" || b.AccessKeyFile != "") != (b.SecretKeyEnv != "" || b.SecretKeyFile != "") {
		add("blobs.s3", "needs both the access key and the secret key, or neither")
	}
	if b.Keep < minKeep {
		add("blobs.s3.keep", "must be at least 1h")
	}
}

// HasKeys reports whether the settings name the keys.
func (b *Bucket) HasKeys() bool { return b.AccessKeyEnv != "" || b.AccessKeyFile != "" }
