package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"agentd/fault"
)

// Console is a web application at /ui/ whose users log in with a token once.
//
// The browser keeps a cookie that only this server can read: it is the token, sealed.
// Nothing is stored here, so a login outlives a restart, and it ends when the token does,
// because the token is checked with each request as if it had been sent.
type Console struct {
	// Files answers GET below /ui/, without a token.
	Files http.Handler
	// Key seals the cookies. Servers with the same key accept each other's. It defaults
	// to a random one, with which logins end with the process.
	Key []byte
}

const (
	// consoleHeader must be on every request with the cookie that isn't a plain read. A page
	// of another origin can't set it without being asked for permission, which it isn't given.
	consoleHeader = "X-Agentd-Console"
	// loginFor is how long a login lasts if its token does.
	loginFor = 30 * 24 * time.Hour
	// linkFor is how long a link to log in can be used.
	linkFor = 2 * time.Minute
	// maxLinks bounds the links that wait to be used.
	maxLinks = 1000
	// maxLinksEach bounds those of one token, so that it can't use up all.
	maxLinksEach = 20
	// maxLoginBody is more than a token needs.
	maxLoginBody = 8 << 10
)

// browsers seals and opens the cookies of logged in browsers, and keeps the links
// that wait to be used.
type browsers struct {
	seal cipher.AEAD

	mu    sync.Mutex
	links map[[sha256.Size]byte]loginLink
}

// loginLink is a link that logs a browser in once.
type loginLink struct {
	token string
	until time.Time
}

// sealedLogin is what a cookie holds.
type sealedLogin struct {
	Token string `json:"t"`
	// Until is when the login ends, in seconds since 1970.
	Until int64 `json:"u"`
}

func newBrowsers(key []byte) *browsers {
	if len(key) == 0 {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // it never fails
	}
	// None of the three fails for keys of this length.
	derived, _ := hkdf.Key(sha256.New, key, nil, "agentd console cookie 1", 32)
	block, _ := aes.NewCipher(derived)
	seal, _ := cipher.NewGCMWithRandomNonce(block)
	return &browsers{seal: seal, links: map[[sha256.Size]byte]loginLink{}}
}

func (b *browsers) close(l sealedLogin) string {
	plain, _ := json.Marshal(l)                                                    //nolint:errchkjson // a string and a number
	return base64.RawURLEncoding.EncodeToString(b.seal.Seal(nil, nil, plain, nil)) //nolint:gosec // this cipher makes its own nonce
}

func (b *browsers) open(cookie string) (l sealedLogin, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil {
		return l, false
	}
	plain, err := b.seal.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, &l) != nil {
		return l, false
	}
	return l, time.Now().Unix() < l.Until
}

// addLink returns a code that logs a browser in with a token, once.
func (b *browsers) addLink(token string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, same := time.Now(), 0
	for sum, l := range b.links {
		switch {
		case now.After(l.until):
			delete(b.links, sum)
		case l.token == token:
			same++
		}
	}
	if len(b.links) >= maxLinks || same >= maxLinksEach {
		return "", &fault.Error{Kind: fault.RateLimited, Detail: "too many login links wait to be used; try again in two minutes", RetryAfter: linkFor}
	}
	code := rand.Text() + rand.Text()
	b.links[sha256.Sum256([]byte(code))] = loginLink{token, now.Add(linkFor)}
	return code, nil
}

// useLink returns the token behind a code, once.
func (b *browsers) useLink(code string) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := sha256.Sum256([]byte(code))
	l, ok := b.links[sum]
	delete(b.links, sum)
	return l.token, ok && time.Now().Before(l.until)
}

// cookieName is the cookie's. Cookies know no ports, so the name has the one that the browser
// asked: two servers on one machine don't log each other's users out, and nodes behind one
// address have one login.
func cookieName(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		return "agentd_session_" + port
	}
	return "agentd_session"
}

// cookieToken returns the token in a request's cookie, or why the cookie doesn't count.
// found is false if there is none.
func (s *Server) cookieToken(r *http.Request) (token string, found bool, err error) {
	if s.browsers == nil {
		return "", false, nil
	}
	sent := r.CookiesNamed(cookieName(r))
	if len(sent) == 0 || sent[0].Value == "" {
		return "", false, nil
	}
	if err := checkSameOrigin(r); err != nil {
		return "", true, err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get(consoleHeader) == "" {
		return "", true, fault.New(fault.Forbidden, "a request with the console's cookie that may change something needs the header %s", consoleHeader)
	}
	l, ok := s.browsers.open(sent[0].Value)
	if !ok {
		return "", true, fault.New(fault.Unauthenticated, "the login has ended; log in again")
	}
	return l.Token, true, nil
}

// checkSameOrigin refuses a request with a cookie that a page of another origin may have
// caused. Another port of this machine is another origin, and yet gets SameSite cookies.
func checkSameOrigin(r *http.Request) error {
	refused := fault.New(fault.Forbidden, "a request with the console's cookie must come from the console's own pages")
	read := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == ""
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case site == "same-origin":
	case site == "none" && read: // the user's own doing, such as a bookmark
	case site != "":
		return refused
	case origin == "" && !read:
		// Browsers send one of the two with whatever can change something.
		return refused
	}
	if origin == "" {
		return nil
	}
	_, host, _ := strings.Cut(origin, "://")
	if !strings.EqualFold(host, r.Host) {
		return refused
	}
	return nil
}

// checkBrowserCommand refuses commands that change something over a WebSocket that has only the
// cookie: a handshake can't carry the console's header.
func (q *request) checkBrowserCommand(mutates bool) error {
	if q.login == nil || !q.login.cookie || !mutates || !q.socket {
		return nil
	}
	return fault.New(fault.Forbidden, "a WebSocket that is logged in by the console's cookie only reads; send the command to /v1/commands")
}
