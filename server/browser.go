package server

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"strconv"
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
	// Links keeps the links that log in once. It defaults to this server's memory: a link
	// then can be used at this server alone, until it stops.
	Links LinkKeeper
	// Provider lets people log in elsewhere; nil for tokens alone.
	Provider LoginProvider
	// RedirectURL is where the provider sends browsers back to, [CallbackPath] included.
	// If it is empty, that is at the address by which the browser knows the server.
	RedirectURL string
}

const (
	// consoleHeader must be on every request with the cookie that isn't a plain read. A page
	// of another origin can't set it without being asked for permission, which it isn't given.
	consoleHeader = "X-Agentd-Console"
	// loginFor is how long a login lasts if its token does.
	loginFor = 30 * 24 * time.Hour
	// maxLoginBody is more than a token needs.
	maxLoginBody = maxToken + 1<<10
)

// browsers seals and opens the cookies of logged in browsers.
type browsers struct {
	logins, attempts *sealer
	links            LinkKeeper
	left             leftLogins
}

// sealedLogin is what a cookie holds, and what is kept of a link.
type sealedLogin struct {
	Token string `json:"t"`
	// Until is when the login ends, in seconds since 1970.
	Until int64 `json:"u"`
	// Elsewhere says that the person logged in at the provider.
	Elsewhere bool `json:"e,omitempty"`
	// cookie names the cookie that the login was read from.
	cookie cookieDigest
}

// cookieDigest names a cookie without telling it.
type cookieDigest = [sha256.Size]byte

// leftLogins are the logins that ended at this server before their time, because their browser logged out or logged
// in as someone else. What is open in their name ends, and a copy of the cookie is refused. They are forgotten when
// the login would have ended by itself, or with the process.
type leftLogins struct {
	mu    sync.Mutex
	until map[cookieDigest]int64
}

// maxLeft bounds the logins that are remembered as left. Each was a good one, so filling it takes a token.
const maxLeft = 10_000

// leave ends a login.
func (ll *leftLogins) leave(l *sealedLogin) {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if ll.until == nil {
		ll.until = map[cookieDigest]int64{}
	}
	if len(ll.until) >= maxLeft {
		now := time.Now().Unix()
		maps.DeleteFunc(ll.until, func(_ cookieDigest, until int64) bool { return until <= now })
	}
	for c := range ll.until {
		if len(ll.until) < maxLeft {
			break
		}
		delete(ll.until, c)
	}
	ll.until[l.cookie] = l.Until
}

// check refuses a login that was left.
func (ll *leftLogins) check(c cookieDigest) error {
	ll.mu.Lock()
	defer ll.mu.Unlock()
	if _, left := ll.until[c]; left {
		return errLoginEnded
	}
	return nil
}

var errLoginEnded = fault.New(fault.Unauthenticated, "the login has ended; log in again")

func newBrowsers(c *Console) *browsers {
	key := c.Key
	if len(key) == 0 {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // it never fails
	}
	b := &browsers{logins: newSealer(key, "agentd console cookie 1"), attempts: newSealer(key, "agentd console attempt 1"), links: c.Links}
	if b.links == nil {
		b.links = &memoryLinks{byName: map[string]Link{}}
	}
	return b
}

// sealer seals small values for one purpose.
type sealer struct{ aead cipher.AEAD }

// newSealer makes a sealer of a secret. Those of different purposes don't open each other's.
func newSealer(secret []byte, purpose string) *sealer {
	// None of the three fails for keys of this length.
	derived, _ := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	block, _ := aes.NewCipher(derived)
	aead, _ := cipher.NewGCMWithRandomNonce(block)
	return &sealer{aead}
}

func (s *sealer) close(v any) string {
	plain, _ := json.Marshal(v)                                                    //nolint:errchkjson // strings and numbers
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil)) //nolint:gosec // this cipher makes its own nonce
}

func (s *sealer) open(text string, into any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	return err == nil && json.Unmarshal(plain, into) == nil
}

// cookieName is the cookie's. Cookies know no ports, so the name has the one that the browser
// asked: two servers on one machine don't log each other's users out, and nodes behind one
// address have one login.
func cookieName(r *http.Request) string { return "agentd_session" + portSuffix(r) }

func portSuffix(r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		return "_" + port
	}
	return ""
}

const (
	// maxCookie is how much of a login is in one cookie. Browsers drop larger ones, with
	// their names and attributes, from 4096 bytes on.
	maxCookie = 3800
	// maxCookies is more than the longest token needs.
	maxCookies = 7
)

// partName is the name of the n-th cookie of a login, counted from 1.
func partName(r *http.Request, n int) string {
	if n == 1 {
		return cookieName(r)
	}
	return cookieName(r) + "_" + strconv.Itoa(n)
}

// setLogin gives the browser the cookie of a login. One whose token is long, because its
// provider names many groups in it, is in several; the first says in how many.
func (s *Server) setLogin(w http.ResponseWriter, r *http.Request, l sealedLogin, secure bool) {
	value := s.browsers.logins.close(l)
	var parts []string
	for len(value) > maxCookie {
		parts, value = append(parts, value[:maxCookie]), value[maxCookie:]
	}
	parts = append(parts, value)
	if len(parts) > 1 {
		parts[0] = strconv.Itoa(len(parts)) + "." + parts[0]
	}
	for i, part := range parts {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where the browser speaks TLS
			Name: partName(r, i+1), Value: part, Path: "/",
			Expires: time.Unix(l.Until, 0).UTC(), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure,
		})
	}
}

// clearLogin takes the cookies of a login away.
func clearLogin(w http.ResponseWriter, r *http.Request) {
	for n := 1; n <= maxCookies; n++ {
		if n > 1 && len(r.CookiesNamed(partName(r, n))) == 0 {
			continue
		}
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure where the browser speaks TLS
			Name: partName(r, n), Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: overTLS(r),
		})
	}
}

// readLoginCookie returns the login in a request's cookies. found is false if there is none,
// and ok if it counts.
func (s *Server) readLoginCookie(r *http.Request) (l sealedLogin, found, ok bool) {
	part := func(n int) string {
		if sent := r.CookiesNamed(partName(r, n)); len(sent) > 0 {
			return sent[0].Value
		}
		return ""
	}
	value := part(1)
	if value == "" {
		return l, false, false
	}
	if count, first, several := strings.Cut(value, "."); several {
		n, err := strconv.Atoi(count)
		if err != nil || n > maxCookies {
			return l, true, false
		}
		parts := []string{first}
		for i := 2; i <= n; i++ {
			parts = append(parts, part(i))
		}
		value = strings.Join(parts, "")
	}
	ok = s.browsers.logins.open(value, &l)
	l.cookie = sha256.Sum256([]byte(value))
	return l, true, ok && time.Now().Unix() < l.Until
}

// leaveLogin ends the login in a request's cookies, if there is a good one.
func (s *Server) leaveLogin(r *http.Request) (l sealedLogin) {
	l, _, ok := s.readLoginCookie(r)
	if ok {
		s.browsers.left.leave(&l)
	}
	return l
}

// cookieLogin returns the login in a request's cookie, or why the cookie doesn't count.
// found is false if there is none.
func (s *Server) cookieLogin(r *http.Request) (l sealedLogin, found bool, err error) {
	if s.browsers == nil {
		return l, false, nil
	}
	l, found, ok := s.readLoginCookie(r)
	if !found {
		return l, false, nil
	}
	if err := checkSameOrigin(r); err != nil {
		return l, true, err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get(consoleHeader) == "" {
		return l, true, fault.New(fault.Forbidden, "a request with the console's cookie that may change something needs the header %s", consoleHeader)
	}
	if !ok {
		return l, true, errLoginEnded
	}
	return l, true, s.browsers.left.check(l.cookie)
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
