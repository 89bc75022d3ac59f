// Package oidctest is an identity provider on loopback, for tests.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer signs tokens, and tells by which key they are known.
type Issuer struct {
	*httptest.Server
	// Asked counts the requests. While Down is set, each is answered with an error, and while
	// Mute is, with nothing.
	Asked      atomic.Int64
	Down, Mute atomic.Bool
	// Client is what the issuer knows of the program that people log in to.
	Client Client

	key   atomic.Pointer[jose.JSONWebKey]
	codes codes
}

// Start runs an issuer until the test ends.
func Start(t testing.TB) *Issuer {
	t.Helper()
	p := &Issuer{}
	p.NewKey(t, "first")
	p.Server = httptest.NewServer(http.HandlerFunc(p.answer))
	t.Cleanup(func() {
		p.CloseClientConnections() // one that it is mute to would be waited for
		p.Close()
	})
	return p
}

func (p *Issuer) answer(w http.ResponseWriter, r *http.Request) {
	p.Asked.Add(1)
	if p.Mute.Load() {
		<-r.Context().Done()
		return
	}
	if p.Down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	var answer []byte
	var err error
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer, err = json.Marshal(map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"id_token_signing_alg_values_supported": []string{string(jose.RS256)}, "end_session_endpoint": p.URL + "/logout",
			"authorization_response_iss_parameter_supported": true, "token_endpoint_auth_methods_supported": p.Client.methods(),
		})
	case "/keys":
		answer, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.key.Load().Public()}})
	case "/authorize":
		p.askPerson(w, r)
		return
	case "/authorize/answer":
		p.sendBack(w, r)
		return
	case "/token":
		p.redeem(w, r)
		return
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that left
}

// Key makes a key.
func Key(t testing.TB, id string) *jose.JSONWebKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.RS256), Use: "sig"}
}

// NewKey has tokens signed with another key from now on; the one before isn't known any more.
func (p *Issuer) NewKey(t testing.TB, id string) {
	t.Helper()
	p.key.Store(Key(t, id))
}

// Public is the present key as anyone may know it.
func (p *Issuer) Public() crypto.PublicKey { return p.key.Load().Public().Key }

// Token makes a token for agentd with these claims beside the usual ones, or instead of them.
func (p *Issuer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	return p.Sign(t, jose.RS256, p.key.Load(), claims)
}

// Sign is [Issuer.Token] with a key of the caller's.
func (p *Issuer) Sign(t testing.TB, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	token, err := p.sign(alg, key, claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (p *Issuer) sign(alg jose.SignatureAlgorithm, key any, claims map[string]any) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		return "", err
	}
	now := time.Now()
	all := map[string]any{"iss": p.URL, "sub": "ada", "aud": "agentd", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	body, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(body)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
