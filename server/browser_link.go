package server

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"agentd/fault"
)

// Link is what is kept of a link that logs a browser in once. The code of the link isn't
// part of it: the token is sealed with the code, so nobody who can read what is kept can
// tell the token or use the link.
type Link struct {
	// Name tells links apart. It follows from the code, and the code not from it.
	Name string
	// TokenID names the token, to bound how many links of it wait.
	TokenID string
	// Until is when the link ends.
	Until time.Time
	// Sealed is the token.
	Sealed string
}

// LinkKeeper keeps links. Servers whose keepers share a place use each other's.
type LinkKeeper interface {
	// KeepLink keeps a link until it is taken or ends. Which links wait is bounded by
	// [CheckLinks].
	KeepLink(ctx context.Context, l Link) error
	// TakeLink returns the link of a name that has not ended, to one of all who ever ask
	// for it, also if they ask at the same moment and at several servers; the others get a
	// NotFound fault.
	TakeLink(ctx context.Context, name string) (Link, error)
}

const (
	// linkFor is how long a link to log in can be used.
	linkFor = 2 * time.Minute
	// maxLinks bounds the links that wait to be used.
	maxLinks = 1000
	// maxLinksEach bounds those of one token, so that it can't use up all.
	maxLinksEach = 20
)

// ErrNoLink is what [LinkKeeper.TakeLink] answers for a link that was taken, ended or never was.
var ErrNoLink = fault.New(fault.NotFound, "there is no such link")

// CheckLinks refuses another link if so many wait already, and so many of the same token.
func CheckLinks(waiting, ofToken int) error {
	if waiting < maxLinks && ofToken < maxLinksEach {
		return nil
	}
	return &fault.Error{Kind: fault.RateLimited, Detail: "too many login links wait to be used; try again in two minutes", RetryAfter: linkFor}
}

// linkName is the name of the link with a code, and linkSeal what seals its token.
func linkName(code string) string {
	name, _ := hkdf.Key(sha256.New, []byte(code), nil, "agentd console link name 1", 16) // no failure at this length
	return hex.EncodeToString(name)
}

func linkSeal(code string) *sealer { return newSealer([]byte(code), "agentd console link 1") }

// addLink returns a code that logs a browser in with a token, once, and when it ends.
func (b *browsers) addLink(ctx context.Context, tokenID, token string) (code string, until time.Time, err error) {
	code, until = rand.Text()+rand.Text(), time.Now().Add(linkFor).UTC().Truncate(time.Second)
	sealed := linkSeal(code).close(sealedLogin{Token: token, Until: until.Unix()})
	return code, until, b.links.KeepLink(ctx, Link{linkName(code), tokenID, until, sealed})
}

// useLink returns the token behind a code, once.
func (b *browsers) useLink(ctx context.Context, code string) (string, error) {
	refused := fault.New(fault.Unauthenticated, "the link was used already or is older than two minutes; run agentd console again")
	kept, err := b.links.TakeLink(ctx, linkName(code))
	if fault.KindOf(err) == fault.NotFound {
		return "", refused
	}
	if err != nil {
		return "", err
	}
	var l sealedLogin
	if !linkSeal(code).open(kept.Sealed, &l) || time.Now().Unix() >= l.Until {
		return "", refused
	}
	return l.Token, nil
}

// memoryLinks keeps the links of one process.
type memoryLinks struct {
	mu     sync.Mutex
	byName map[string]Link
}

// KeepLink implements [LinkKeeper].
func (m *memoryLinks) KeepLink(_ context.Context, l Link) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, same := time.Now(), 0
	for name, other := range m.byName {
		switch {
		case now.After(other.Until):
			delete(m.byName, name)
		case other.TokenID == l.TokenID:
			same++
		}
	}
	if err := CheckLinks(len(m.byName), same); err != nil {
		return err
	}
	m.byName[l.Name] = l
	return nil
}

// TakeLink implements [LinkKeeper].
func (m *memoryLinks) TakeLink(_ context.Context, name string) (Link, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.byName[name]
	delete(m.byName, name)
	if !ok || !time.Now().Before(l.Until) {
		return Link{}, ErrNoLink
	}
	return l, nil
}
