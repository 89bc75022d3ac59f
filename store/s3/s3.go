// Package s3 keeps the contents of blobs in a bucket of an object storage that speaks the
// S3 protocol, for engines that take a [store.Objects].
//
// # Guarantees
//
// Those of [store.Objects]. What the other side refuses for good (wrong keys, a missing
// right, no such bucket) is [store.ErrRefused], so that it isn't taken for a failure that
// passes; every call ends, also if the other side never answers. Neither keys nor what is
// stored appear in an error.
//
// # Concurrency
//
// All methods may be called by many goroutines. Nothing runs in the background.
package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"agentd/store"
)

const (
	// partSize is the size of the parts in which a larger object is sent.
	partSize = 16 << 20
	// A call may take base, and as long as its bytes take at the slowest rate that is
	// borne with.
	base, slowest = time.Minute, 256 << 10
	// tries is how often a part is asked for if that fails in a way that passes, pause how
	// long to wait after the first time; somebody waits for it.
	tries, pause = 3, 20 * time.Millisecond
)

// Keys are what requests are signed with.
type Keys struct{ Access, Secret, Session string }

// Options say where the bucket is.
type Options struct {
	// Endpoint is the address of the storage, such as https://s3.eu-central-1.amazonaws.com.
	Endpoint string
	Bucket   string
	// Region is the bucket's. If empty, defaults to us-east-1.
	Region string
	// Prefix is put before all names.
	Prefix string
	// Keys returns the keys; it is asked again every some minutes, so that they can change.
	// If nil, they are looked for where AWS's programs look: in the environment, in
	// ~/.aws/credentials, and at the machine's or the pod's own role.
	Keys func() (Keys, error)
	// CA, if not nil, is who signs the certificate of the endpoint.
	CA *x509.CertPool
}

// Bucket is a bucket, or the part of one below a prefix.
type Bucket struct {
	opt    Options
	client minio.Core
	host   string
}

var _ store.Objects = (*Bucket)(nil)

// Open returns the bucket that the options name. It makes no request.
func Open(opt *Options) (*Bucket, error) {
	u, err := url.Parse(opt.Endpoint)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("s3: the endpoint must be an address such as https://storage.example.com")
	}
	if opt.Bucket == "" {
		return nil, errors.New("s3: the bucket's name is missing")
	}
	b := &Bucket{opt: *opt, host: u.Host}
	if b.opt.Region == "" {
		b.opt.Region = "us-east-1"
	}
	client, err := minio.NewCore(u.Host, &minio.Options{
		Creds: signedWith(opt.Keys), Secure: u.Scheme == "https", Region: b.opt.Region,
		Transport: transport(opt.CA), MaxRetries: 1, // who calls tries again, or has time
	})
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	b.client = *client
	return b, nil
}

func transport(ca *x509.CertPool) http.RoundTripper {
	return &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		// The bytes are compressed already, and their number matters.
		DisableCompression:    true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca},
		ForceAttemptHTTP2:     true,
	}
}

// signedWith returns what the client asks for keys.
func signedWith(keys func() (Keys, error)) *credentials.Credentials {
	if keys != nil {
		return credentials.New(&given{keys: keys})
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
}

// given are keys that a function returns.
type given struct {
	credentials.Expiry
	keys func() (Keys, error)
}

// lasts is how long keys are used before they are asked for again.
const lasts = 5 * time.Minute

// Retrieve implements [credentials.Provider].
func (g *given) Retrieve() (credentials.Value, error) { return g.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements [credentials.Provider].
func (g *given) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	k, err := g.keys()
	if err != nil {
		return credentials.Value{}, fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	g.SetExpiration(time.Now().Add(lasts), 0)
	return credentials.Value{AccessKeyID: k.Access, SecretAccessKey: k.Secret, SessionToken: k.Session, SignerType: credentials.SignatureV4}, nil
}

// Location implements [store.Objects].
func (b *Bucket) Location() string { return "s3://" + b.host + "/" + b.opt.Bucket + "/" + b.opt.Prefix }

// Put implements [store.Objects]. A reader that can be sought is read again if a request
// has to be repeated.
func (b *Bucket) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	ctx, cancel := bounded(ctx, size)
	defer cancel()
	_, err := b.client.Client.PutObject(ctx, b.opt.Bucket, b.opt.Prefix+name, r, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", PartSize: partSize, NumThreads: 1, DisableMultipart: size <= partSize,
	})
	return b.explain("put", name, err)
}

// Get implements [store.Objects].
func (b *Bucket) Get(ctx context.Context, name string, from, length int64) ([]byte, error) {
	ctx, cancel := bounded(ctx, length)
	defer cancel()
	for try := 1; ; try++ {
		data, err := b.getOnce(ctx, name, from, length)
		if err == nil || try == tries || lasting(err) {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause << (2 * try)):
		}
	}
}

func (b *Bucket) getOnce(ctx context.Context, name string, from, length int64) ([]byte, error) {
	var opt minio.GetObjectOptions
	if err := opt.SetRange(from, from+length-1); err != nil {
		return nil, fmt.Errorf("s3: get %s: %w", name, err)
	}
	body, info, _, err := b.client.GetObject(ctx, b.opt.Bucket, b.opt.Prefix+name, opt)
	if err != nil {
		return nil, b.explain("get", name, err)
	}
	defer body.Close()
	switch {
	case info.Size < length:
		return nil, fmt.Errorf("s3: get %s: %w: it has %d bytes where %d were stored", name, store.ErrCorrupt, info.Size, length)
	case info.Size > length:
		return nil, fmt.Errorf("s3: get %s: %d bytes were asked for, and the answer has %d", name, length, info.Size)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, fmt.Errorf("%w: s3: get %s: the answer was cut off: %w", store.ErrAway, name, err)
	}
	return data, nil
}

// Delete implements [store.Objects].
func (b *Bucket) Delete(ctx context.Context, name string) error {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	err := b.explain("delete", name, b.client.Client.RemoveObject(ctx, b.opt.Bucket, b.opt.Prefix+name, minio.RemoveObjectOptions{}))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// Looking for parts takes a right of its own; who lacks it has the bucket's own rules.
	err = b.explain("delete", name, b.client.Client.RemoveIncompleteUpload(ctx, b.opt.Bucket, b.opt.Prefix+name))
	if err != nil && !lasting(err) {
		return err
	}
	return nil
}

// bounded returns a context that ends when a call with that many bytes must have ended.
func bounded(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, base+time.Duration(size)*time.Second/slowest)
}

// lasting reports whether trying again is in vain.
func lasting(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrCorrupt)
}

// explain gives an error of the client the port's meaning. Of what the other side says only
// the code is repeated.
func (b *Bucket) explain(op, name string, err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("%w: s3: %s %s: %w", store.ErrAway, op, name, err)
	}
	said := fmt.Errorf("s3: %s %s in %s: %s (HTTP %d)", op, name, b.Location(), answer.Code, answer.StatusCode)
	switch {
	case answer.Code == minio.NoSuchKey, answer.Code == minio.NoSuchUpload:
		return fmt.Errorf("%w: %w", store.ErrNotFound, said)
	case answer.Code == minio.InvalidRange, answer.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: it is shorter than it was: %w", store.ErrCorrupt, said)
	case isRefusal(&answer):
		return fmt.Errorf("%w: %w", store.ErrRefused, said)
	default:
		return fmt.Errorf("%w: %w", store.ErrAway, said)
	}
}

// isRefusal reports whether the answer says that the request itself is wrong.
func isRefusal(answer *minio.ErrorResponse) bool {
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMovedPermanently, http.StatusMethodNotAllowed:
		return answer.Code != "RequestTimeTooSkewed"
	case http.StatusBadRequest:
		switch answer.Code {
		case "AuthorizationHeaderMalformed", "InvalidAccessKeyId", "InvalidBucketName", "InvalidToken", "ExpiredToken":
			return true
		}
	}
	return false
}
