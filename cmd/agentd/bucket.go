package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/internal/netaddr"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/s3"
)

// openBucket returns the object storage of the configuration; nil if it has none. It makes
// no request.
func openBucket(c *config.Config, env map[string]string) (store.Objects, error) {
	b := &c.Blobs.S3
	if b.Bucket == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	if !c.Database() {
		return nil, usagef("blobs.s3 is for facts in a database; a data directory keeps contents beside its facts")
	}
	opt := &s3.Options{Endpoint: b.Endpoint, Bucket: b.Bucket, Region: b.Region, Prefix: b.Prefix}
	if opt.Prefix != "" && !strings.HasSuffix(opt.Prefix, "/") {
		opt.Prefix += "/"
	}
	if b.HasKeys() {
		opt.Keys = func() (s3.Keys, error) { return bucketKeys(b, env) }
	}
	if b.CA != "" {
		pem, err := os.ReadFile(b.CA)
		if err != nil {
			return nil, fmt.Errorf("blobs.s3.ca: %w", err)
		}
		if opt.CA = x509.NewCertPool(); !opt.CA.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("blobs.s3.ca: %s has no certificate", b.CA)
		}
	}
	bucket, err := s3.Open(opt)
	if err != nil {
		return nil, fmt.Errorf("blobs.s3: %w", err)
	}
	return bucket, nil
}

// bucketKeys reads the keys where the settings say that they are.
func bucketKeys(b *config.Bucket, env map[string]string) (s3.Keys, error) {
	read := func(setting, variable, file string) (string, error) {
		if file != "" {
			key, err := readKey(file)
			if err != nil {
				return "", fmt.Errorf("blobs.s3.%sFile: %w", setting, err)
			}
			return key, nil
		}
		if env[variable] == "" {
			return "", fmt.Errorf("blobs.s3.%sEnv: the variable %s is not set", setting, variable)
		}
		return env[variable], nil
	}
	access, err := read("accessKey", b.AccessKeyEnv, b.AccessKeyFile)
	secret, secretErr := read("secretKey", b.SecretKeyEnv, b.SecretKeyFile)
	return s3.Keys{Access: access, Secret: secret}, errors.Join(err, secretErr)
}

// bucketSecrets are the keys of the object storage, which must not be told.
func (a *app) bucketSecrets(c *config.Config) []string {
	if !c.Blobs.S3.HasKeys() {
		return nil
	}
	if keys, err := bucketKeys(&c.Blobs.S3, a.env); err == nil {
		return []string{keys.Secret}
	}
	return nil // what can't be read is complained about where it is needed
}

// bucketWithin is how long doctor waits for an object storage.
const bucketWithin = 10 * time.Second

// bucketFindings asks the object storage for an object, if the configuration has one.
func (a *app) bucketFindings(ctx context.Context, c *config.Config, network bool) []finding {
	if c.Blobs.S3.Bucket == "" {
		return nil
	}
	const check = "blobs"
	objects, err := openBucket(c, a.env)
	if err != nil {
		return []finding{fail(check, "", "%v", err)}
	}
	if c.Blobs.S3.HasKeys() {
		if _, err := bucketKeys(&c.Blobs.S3, a.env); err != nil {
			return []finding{fail(check, "put the keys of the object storage there", "%v", err)}
		}
	}
	u, err := url.Parse(c.Blobs.S3.Endpoint)
	if err != nil || (!network && !netaddr.LoopbackHost(u.Hostname())) {
		return []finding{ok(check, "%s; \"agentd doctor --network\" tries it", objects.Location())}
	}
	ctx, cancel := context.WithTimeout(ctx, bucketWithin)
	defer cancel()
	_, err = objects.Get(ctx, postgres.MarkName, 0, 1)
	switch {
	case err == nil || errors.Is(err, store.ErrNotFound):
		return []finding{ok(check, "%s answers", objects.Location())}
	case errors.Is(err, store.ErrRefused):
		return []finding{fail(check, "check the bucket's name, its region, the keys and their rights; see docs/operations.md", "%v", err)}
	default:
		return []finding{fail(check, "until it answers, contents stay in the database, and those that were moved can't be read", "%s doesn't answer: %v", objects.Location(), err)}
	}
}

// blobStatus is what operators see of the object storage.
type blobStatus struct {
	Location string `json:"location"`
	Moved    int64  `json:"moved"`
	// Problem says why it can't be reached.
	Problem string `json:"problem,omitempty"`
}

// statusOfBlobs returns how the object storage stands; nil without one.
func statusOfBlobs(s store.Store) *blobStatus {
	p, ok := s.(*postgres.Store)
	if !ok {
		return nil
	}
	f := p.ObjectFigures()
	if !f.Configured {
		return nil
	}
	return &blobStatus{Location: f.Location, Moved: f.Moved, Problem: f.Problem}
}
