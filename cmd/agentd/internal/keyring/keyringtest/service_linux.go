package keyringtest

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

const (
	name       = "org.freedesktop.secrets"
	iface      = "org.freedesktop.Secret."
	root       = dbus.ObjectPath("/org/freedesktop/secrets")
	collection = root + "/collection/login"
	alias      = root + "/aliases/default"
	prompt     = root + "/prompt/p1"
	none       = dbus.ObjectPath("/")
)

// secret is one as the protocol passes it on.
type secret struct {
	Session     dbus.ObjectPath
	Parameters  []byte
	Value       []byte
	ContentType string
}

// item is a kept secret.
type item struct {
	attributes map[string]string
	label      string
	value      string
}

// Behaviour is what a [Service] does when it is asked.
type Behaviour struct {
	// Locked has nothing read or stored before a prompt is answered.
	Locked bool
	// Dismiss makes the prompt to unlock end with no; Ignore leaves it unanswered.
	Dismiss, Ignore bool
	// Refuse has every call denied, Silent has none answered.
	Refuse, Silent bool
	// NoDefault has no keyring that new secrets go into.
	NoDefault bool
}

// Service is a Secret Service.
type Service struct {
	conn *dbus.Conn
	done chan struct{}

	mu      sync.Mutex
	does    Behaviour
	items   map[dbus.ObjectPath]*item
	made    int
	prompts int
}

// Offer puts a Secret Service on the bus until the test ends.
func (b *Bus) Offer(tb testing.TB) *Service {
	tb.Helper()
	s := &Service{conn: b.Connect(tb), done: make(chan struct{}), items: map[dbus.ObjectPath]*item{}}
	tb.Cleanup(func() { close(s.done) })
	collected := map[string]any{"CreateItem": s.createItem}
	for _, e := range []struct {
		path    dbus.ObjectPath
		iface   string
		methods map[string]any
	}{
		{root, iface + "Service", map[string]any{"OpenSession": s.openSession, "SearchItems": s.searchItems, "Unlock": s.unlock, "ReadAlias": s.readAlias}},
		{collection, iface + "Collection", collected},
		{alias, iface + "Collection", collected},
		{alias, "org.freedesktop.DBus.Properties", map[string]any{"Get": s.getProperty}},
		{prompt, iface + "Prompt", map[string]any{"Prompt": s.prompt}},
	} {
		if err := s.conn.ExportMethodTable(e.methods, e.path, e.iface); err != nil {
			tb.Fatal(err)
		}
	}
	if reply, err := s.conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		tb.Fatalf("the name of the Secret Service: %v, %v", reply, err)
	}
	return s
}

// Behave changes what the service does.
func (s *Service) Behave(does Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.does = does
}

// Prompts is how often its user was asked something.
func (s *Service) Prompts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prompts
}

// Put keeps a secret, as another program would.
func (s *Service) Put(service, account, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addItem(map[string]string{"service": service, "username": account, "xdg:schema": "org.freedesktop.Secret.Generic"}, "put", value)
}

// Secret returns what is kept; empty if nothing is.
func (s *Service) Secret(service, account string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.items {
		if i.attributes["service"] == service && i.attributes["username"] == account {
			return i.value
		}
	}
	return ""
}

// enter is called first by every method.
func (s *Service) enter() (leave func(), refused *dbus.Error) {
	s.mu.Lock()
	switch {
	case s.does.Silent:
		s.mu.Unlock()
		<-s.done
		return func() {}, dbus.NewError("org.freedesktop.DBus.Error.Failed", nil)
	case s.does.Refuse:
		s.mu.Unlock()
		return func() {}, dbus.NewError("org.freedesktop.DBus.Error.AccessDenied", []any{"no"})
	}
	return s.mu.Unlock, nil
}

func locked() *dbus.Error {
	return dbus.NewError("org.freedesktop.Secret.Error.IsLocked", []any{"locked"})
}

func (s *Service) openSession(algorithm string, _ dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	leave, refused := s.enter()
	defer leave()
	if refused == nil && algorithm != "plain" {
		refused = dbus.NewError("org.freedesktop.DBus.Error.NotSupported", nil)
	}
	return dbus.MakeVariant(""), root + "/session/s1", refused
}

func (s *Service) searchItems(attributes map[string]string) (unlocked, lockedItems []dbus.ObjectPath, _ *dbus.Error) {
	leave, refused := s.enter()
	defer leave()
	found := []dbus.ObjectPath{}
	for path, i := range s.items {
		if refused == nil && matches(i.attributes, attributes) {
			found = append(found, path)
		}
	}
	if refused == nil && s.does.Locked {
		return []dbus.ObjectPath{}, found, nil
	}
	return found, []dbus.ObjectPath{}, refused
}

func matches(has, wanted map[string]string) bool {
	for name, value := range wanted {
		if has[name] != value {
			return false
		}
	}
	return true
}

func (s *Service) unlock(objects []dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	leave, refused := s.enter()
	defer leave()
	if refused == nil && s.does.Locked {
		return []dbus.ObjectPath{}, prompt, nil
	}
	return objects, none, refused
}

func (s *Service) readAlias(string) (dbus.ObjectPath, *dbus.Error) {
	leave, refused := s.enter()
	defer leave()
	if refused == nil && s.does.NoDefault {
		return none, nil
	}
	return collection, refused
}

func (s *Service) getProperty(string, string) (dbus.Variant, *dbus.Error) {
	leave, refused := s.enter()
	defer leave()
	return dbus.MakeVariant(refused == nil && s.does.Locked), refused
}

func (s *Service) prompt(string) *dbus.Error {
	leave, refused := s.enter()
	defer leave()
	if refused != nil {
		return refused
	}
	s.prompts++
	if s.does.Ignore {
		return nil
	}
	if !s.does.Dismiss {
		s.does.Locked = false
	}
	if err := s.conn.Emit(prompt, iface+"Prompt.Completed", s.does.Dismiss, dbus.MakeVariant([]dbus.ObjectPath{})); err != nil {
		return dbus.MakeFailedError(err)
	}
	return nil
}

func (s *Service) createItem(properties map[string]dbus.Variant, kept secret, replace bool) (made, ask dbus.ObjectPath, _ *dbus.Error) {
	leave, refused := s.enter()
	defer leave()
	if refused == nil && s.does.Locked {
		refused = locked()
	}
	if refused != nil {
		return none, none, refused
	}
	var attributes map[string]string
	var label string
	if err := dbus.Store([]any{properties[iface+"Item.Attributes"], properties[iface+"Item.Label"]}, &attributes, &label); err != nil {
		return none, none, dbus.MakeFailedError(err)
	}
	if replace {
		for path, i := range s.items {
			if maps.Equal(i.attributes, attributes) {
				i.value = string(kept.Value)
				return path, none, nil
			}
		}
	}
	return s.addItem(attributes, label, string(kept.Value)), none, nil
}

// addItem keeps a secret.
func (s *Service) addItem(attributes map[string]string, label, value string) dbus.ObjectPath {
	s.made++
	path := dbus.ObjectPath(fmt.Sprintf("%s/%d", collection, s.made))
	i := &item{attributes, label, value}
	s.items[path] = i
	get := func(session dbus.ObjectPath) (secret, *dbus.Error) {
		leave, refused := s.enter()
		defer leave()
		if refused == nil && s.does.Locked {
			refused = locked()
		}
		if refused != nil {
			return secret{Session: none, Parameters: []byte{}, Value: []byte{}}, refused
		}
		return secret{session, []byte{}, []byte(i.value), "text/plain"}, nil
	}
	remove := func() (dbus.ObjectPath, *dbus.Error) {
		leave, refused := s.enter()
		defer leave()
		if refused == nil {
			delete(s.items, path)
		}
		return none, refused
	}
	// It can only fail for a name that isn't one.
	_ = s.conn.ExportMethodTable(map[string]any{"GetSecret": get, "Delete": remove}, path, iface+"Item")
	return path
}
