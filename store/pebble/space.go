package pebble

import (
	"fmt"
	"time"

	"agentd/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spaceInterval is how long enough space is taken for granted. Nothing is
// assumed while there is too little.
const spaceInterval = 5 * time.Millisecond

// space refuses writes while the disk is nearly full. It is guarded by the
// store's commit lock.
type space struct {
	fs      vfs.FS
	dir     string
	reserve int64

	checked time.Time // when there was enough
}

// check returns store.ErrNoSpace while free space is below the reserve. A file
// system that can't tell is taken to have space.
func (s *space) check() error {
	if s.reserve < 0 {
		return nil
	}
	now := time.Now()
	if now.Sub(s.checked) < spaceInterval {
		return nil
	}
	u, err := s.fs.GetDiskUsage(s.dir)
	if err != nil || u.AvailBytes >= uint64(s.reserve) {
		s.checked = now
		return nil //nolint:nilerr // who can't tell is taken to have space
	}
	s.checked = time.Time{}
	return fmt.Errorf("%w: %s has %d MB free, and writing needs %d", store.ErrNoSpace, s.dir, u.AvailBytes>>20, s.reserve>>20)
}
