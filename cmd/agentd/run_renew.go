package main

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync"
)

// renewing follows the server of a data directory over a restart, or over the renewal
// of its certificate. Each start has a token of its own, and perhaps another address,
// which the note says: a request that isn't let in, or reaches no server, is sent once
// more if the note has changed.
type renewing struct {
	next http.RoundTripper
	dir  string

	mu   sync.Mutex
	note *serverNote
}

// RoundTrip implements [http.RoundTripper].
func (t *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	used := t.current()
	res, err := t.next.RoundTrip(t.addressed(req, used))
	if err == nil && res.StatusCode != http.StatusUnauthorized {
		return res, nil
	}
	if req.Context().Err() != nil || (req.Body != nil && req.GetBody == nil) {
		return res, err
	}
	now := t.renew(used)
	// Without a restart only the certificate has changed, and what failed for another
	// reason may have been carried out.
	if now == used || now.Token == used.Token && !errors.Is(err, errCertificate) {
		return res, err
	}
	again := req
	if req.GetBody != nil {
		body, bodyErr := req.GetBody()
		if bodyErr != nil {
			return res, err // the first answer is the one that counts
		}
		again = req.Clone(req.Context())
		again.Body = body
	}
	if res != nil {
		_ = res.Body.Close()
	}
	return t.next.RoundTrip(t.addressed(again, now))
}

func (t *renewing) current() *serverNote {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.note
}

// renew returns the note of now, or the given one if there is no other. A server
// on a socket, or with TLS, keeps its way in; its token and its certificate change.
func (t *renewing) renew(used *serverNote) *serverNote {
	note, err := trustedNote(t.dir)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.note != used {
		return t.note // another request was quicker
	}
	sameWay := err == nil && note != nil && note.Socket == used.Socket && (note.CertSHA256 == "") == (used.CertSHA256 == "")
	if sameWay && (note.Token != used.Token || note.CertSHA256 != used.CertSHA256) {
		t.note = note
	}
	return t.note
}

var errCertificate = errors.New("the server's certificate differs from the one noted in the data directory")

// pinned trusts the certificate that the note names, regardless of who signed it: the note
// comes from the server itself. Without a name the system decides.
func (t *renewing) pinned() *tls.Config {
	if t.note.CertSHA256 == "" {
		return nil
	}
	return pinnedTo(t.current)
}

// pinnedTo trusts the certificate that the note of now names, and no other.
func pinnedTo(current func() *serverNote) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares with the pin
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 || certSum(c.PeerCertificates[0].Raw) != current().CertSHA256 {
				return errCertificate
			}
			return nil
		},
	}
}

// addressed sends a request to the server of a note.
func (t *renewing) addressed(req *http.Request, n *serverNote) *http.Request {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+n.Token)
	if n.Socket == "" {
		if _, host, ok := strings.Cut(n.base(), "://"); ok {
			req.URL.Host, req.Host = host, ""
		}
	}
	return req
}

// CloseIdleConnections gives up connections that are kept open for reuse.
func (t *renewing) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
