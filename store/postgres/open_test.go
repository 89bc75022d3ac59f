package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
)

// TestWrongURL: the error says what is wrong and never the password.
func TestWrongURL(t *testing.T) {
	t.Parallel()
	good := pgtest.Quick(t).Database(t)
	const secret = "hunter2secret"
	change := func(f func(u *url.URL)) string {
		u, err := url.Parse(good)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("agentd", secret)
		f(u)
		return u.String()
	}
	for name, c := range map[string]struct{ url, says string }{
		"empty":          {"", "not a database URL"},
		"no URL":         {"password=" + secret, "not a database URL"},
		"another scheme": {"mysql://agentd:" + secret + "@localhost/db", "not a database URL"},
		"bad port":       {"postgres://agentd:" + secret + "@localhost:port/db", "not a database URL"},
		"bad escape":     {"postgres://agentd:" + secret + "%zz@localhost/db", "not a database URL"},
		"bad option":     {"postgres://agentd:" + secret + "@localhost/db?sslmode=" + secret, "not a database URL"},
		"bad pool":       {"postgres://agentd:" + secret + "@localhost/db?pool_max_conns=" + secret, "not a database URL"},
		"no server":      {change(func(u *url.URL) { u.Host = "127.0.0.1:1" }), "connection refused"},
		"wrong password": {change(func(*url.URL) {}), "authentication failed"},
		"secret in query": {change(func(u *url.URL) {
			u.User, u.RawQuery = nil, "sslmode=disable&user=agentd&password="+secret
		}), "authentication failed"},
	} {
		s, err := postgres.Open(t.Context(), c.url, nil)
		if err == nil {
			shut(t, s)
			t.Errorf("%s: opened", name)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q doesn't say %q", name, err, c.says)
		}
	}
}

// TestDatabaseOfAnotherEncoding: a server that was set up without a locale makes such databases.
func TestDatabaseOfAnotherEncoding(t *testing.T) {
	t.Parallel()
	good := pgtest.Quick(t).Database(t)
	execute(t, connect(t, good), `CREATE DATABASE ascii_only ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
	u, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/ascii_only"
	s, err := postgres.Open(t.Context(), u.String(), &postgres.Options{AllowUnsafe: true})
	if err == nil {
		shut(t, s)
	}
	if err == nil || !strings.Contains(err.Error(), "SQL_ASCII") || !strings.Contains(err.Error(), "CREATE DATABASE") {
		t.Errorf("it is opened with %v, want the encoding and what to do", err)
	}
}

func TestNoSuchDatabase(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), pgtest.Quick(t).URL("absent"), nil)
	if err == nil || !strings.Contains(err.Error(), `"absent" does not exist`) {
		t.Errorf("Open of a database that doesn't exist: %v", err)
	}
}

// TestUnsafeServer: a server that doesn't flush is refused unless allowed.
func TestUnsafeServer(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	_, err := postgres.Open(t.Context(), url, nil)
	if err == nil || !strings.Contains(err.Error(), "fsync, full_page_writes, synchronous_commit") {
		t.Errorf("Open of a server that doesn't flush: %v, want a refusal that names the settings", err)
	}
	shut(t, openStore(t, url, &postgres.Options{AllowUnsafe: true}))
}

// TestNewerData: a schema of a later version, or one that was changed, is
// refused and left alone.
func TestNewerData(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	m, err := s.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	conn := connect(t, url)
	unsafe := &postgres.Options{AllowUnsafe: true}
	execute(t, conn, `INSERT INTO agentd.migrations (version, name, checksum) VALUES ($1, '9999_later', 'x')`, m.Version+1)
	if _, err := postgres.Open(t.Context(), url, unsafe); !errors.Is(err, store.ErrNewer) {
		t.Errorf("Open of newer data: %v, want ErrNewer", err)
	}
	execute(t, conn, `DELETE FROM agentd.migrations WHERE version > $1`, m.Version)
	shut(t, openStore(t, url, unsafe))
	execute(t, conn, `UPDATE agentd.migrations SET checksum = 'x' WHERE version = 1`)
	if _, err := postgres.Open(t.Context(), url, unsafe); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("Open after a migration was changed: %v", err)
	}
	execute(t, conn, `UPDATE agentd.migrations SET version = $1 WHERE version = 1`, m.Version+1)
	if _, err := postgres.Open(t.Context(), url, unsafe); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Open with a gap in the history: %v, want ErrCorrupt", err)
	}
}

// emptyBucket has nothing and takes nothing.
type emptyBucket struct{ store.Objects }

func (emptyBucket) Location() string { return "nowhere" }

func (emptyBucket) Get(context.Context, string, int64, int64) ([]byte, error) {
	return nil, store.ErrNotFound
}

// TestReadOnly: a store that only reads makes no tables, is no node, ties no bucket to the
// database, and can't write.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	readOnly := &postgres.Options{AllowUnsafe: true, ReadOnly: true, Objects: emptyBucket{}}
	_, err := postgres.Open(t.Context(), url, readOnly)
	if pending, ok := errors.AsType[*postgres.PendingError](err); !ok || !pending.New {
		t.Fatalf("Open of a database without tables: %v", err)
	}
	shut(t, openStore(t, url, nil))
	s := openStore(t, url, readOnly)
	defer shut(t, s)
	if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("the nodes are %v, %v", nodes, err)
	}
	if _, err := s.SetMeta(t.Context(), "name", []byte("value")); err == nil {
		t.Error("it wrote")
	}
}

// TestManyOpenAtOnce: nodes that start together on an empty database take turns.
func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	var opening sync.WaitGroup
	for range 8 {
		opening.Go(func() {
			s, err := postgres.Open(t.Context(), url, &postgres.Options{AllowUnsafe: true})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Claim(t.Context(), "s"); err != nil && !errors.As(err, new(*store.OwnedError)) {
				t.Error(err)
			}
			shut(t, s)
		})
	}
	opening.Wait()
}

// TestLocation: what people are shown has no credentials.
func TestLocation(t *testing.T) {
	t.Parallel()
	raw := pgtest.Quick(t).Database(t)
	s := openStore(t, raw, nil)
	defer shut(t, s)
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Meta(t.Context())
	if want := "postgres://" + u.Host + u.Path; err != nil || m.Location != want || m.Engine != "postgres" {
		t.Errorf("Meta = %+v, %v, want location %s", m, err, want)
	}
}
