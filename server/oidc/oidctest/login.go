package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// Client is a program that people log in to. It is set before anyone does.
type Client struct {
	// ID and Secret are the program's; one without a secret is public. InBody says that the
	// secret is taken in the body of a request alone.
	ID, Secret string
	InBody     bool
	// People are those who may log in, by name, with their claims.
	People map[string]map[string]any
	// Answer, if not nil, answers a good code instead: with a status and a body.
	Answer func(claims map[string]any) (status int, body string)
}

func (c *Client) methods() []string {
	switch {
	case c.InBody:
		return []string{"client_secret_post"}
	case c.Secret == "":
		return []string{"none"}
	default:
		return []string{"client_secret_basic", "client_secret_post"}
	}
}

// codes are those that wait to be redeemed.
type codes struct {
	mu   sync.Mutex
	byID map[string]attempt
}

// attempt is a login of a person.
type attempt struct {
	person, redirect, nonce, challenge string
}

// askPerson shows who may log in, once it is clear that the request is as it should be.
func (p *Issuer) askPerson(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for name, good := range map[string]bool{
		"response_type": q.Get("response_type") == "code", "client_id": q.Get("client_id") == p.Client.ID,
		"scope": slices.Contains(strings.Fields(q.Get("scope")), "openid"), "redirect_uri": q.Get("redirect_uri") != "",
		"state": len(q.Get("state")) > 20, "nonce": len(q.Get("nonce")) > 20,
		"code_challenge": len(q.Get("code_challenge")) == 43, "code_challenge_method": q.Get("code_challenge_method") == "S256",
	} {
		if !good {
			http.Error(w, name+" is wrong", http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><title>Issuer</title><h1>Who are you?</h1>")
	for _, name := range append(slices.Sorted(maps.Keys(p.Client.People)), "nobody") {
		fmt.Fprintf(w, `<p><a href="%s">%s</a></p>`, html.EscapeString(answerPath(r.URL.RawQuery, name)), html.EscapeString(name))
	}
}

func answerPath(query, person string) string {
	return "/authorize/answer?" + query + "&person=" + url.QueryEscape(person)
}

// sendBack sends the browser back with a code, or without for who isn't known.
func (p *Issuer) sendBack(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	with := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	if _, known := p.Client.People[q.Get("person")]; known {
		with.Set("code", p.codes.issueCode(attempt{q.Get("person"), q.Get("redirect_uri"), q.Get("nonce"), q.Get("code_challenge")}))
	} else {
		with.Set("error", "access_denied")
	}
	back.RawQuery = with.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // a provider of tests sends back to whoever asks
}

func (c *codes) issueCode(a attempt) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]attempt{}
	}
	code := rand.Text()
	c.byID[code] = a
	return code
}

// takeCode returns the attempt of a code, once.
func (c *codes) takeCode(code string) (attempt, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.byID[code]
	delete(c.byID, code)
	return a, ok
}

// redeem exchanges a code for a token.
func (p *Issuer) redeem(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) //nolint:gosec // JSON for tests; a client that left
	}
	if !p.Client.knows(r) {
		answer(http.StatusUnauthorized, `{"error":"invalid_client"}`)
		return
	}
	a, ok := p.codes.takeCode(r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || a.redirect != r.PostFormValue("redirect_uri") || a.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || r.PostFormValue("grant_type") != "authorization_code" {
		answer(http.StatusBadRequest, `{"error":"invalid_grant","error_description":"the code is `+r.PostFormValue("code")+`"}`)
		return
	}
	claims := map[string]any{"sub": a.person, "aud": p.Client.ID, "nonce": a.nonce}
	maps.Copy(claims, p.Client.People[a.person])
	if p.Client.Answer != nil {
		answer(p.Client.Answer(claims))
		return
	}
	body, err := p.TokenAnswer(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(http.StatusOK, body)
}

// TokenAnswer is what a good code is answered with.
func (p *Issuer) TokenAnswer(claims map[string]any) (string, error) {
	token, err := p.sign(jose.RS256, p.key.Load(), claims)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{"access_token": "opaque-access", "token_type": "Bearer", "expires_in": 3600, "id_token": token})
	return string(body), err
}

// knows reports whether a request is the client's.
func (c *Client) knows(r *http.Request) bool {
	id, secret, basic := r.BasicAuth()
	if basic { // each is encoded first, because of the colon between them
		id, _ = url.QueryUnescape(id)         // what isn't encoded isn't the client's
		secret, _ = url.QueryUnescape(secret) // the same
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	return id == c.ID && secret == c.Secret && basic == (c.Secret != "" && !c.InBody)
}

// Back returns the address that the issuer sends a browser back to that was sent to the
// address at, and in which a person answered.
func (p *Issuer) Back(t testing.TB, at, person string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil || !strings.HasPrefix(at, p.URL+"/authorize?") {
		t.Fatalf("the browser was sent to %q, %v", at, err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(address string) (status int, location string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }() // nothing was written
		return res.StatusCode, res.Header.Get("Location")
	}
	if status, _ := get(at); status != http.StatusOK {
		t.Fatalf("the issuer answered %d to %s", status, at)
	}
	_, back := get(p.URL + answerPath(u.RawQuery, person))
	return back
}
