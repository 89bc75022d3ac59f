package loop

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// absent are paths that weren't there, kept so that one that appears is noticed without a
// look at each of them: a profile hides some fifty places where people may keep secrets,
// most of which no machine has, and every call asks. A name can't come into a folder
// without the folder changing, so the folders above are looked at instead.
type absent struct {
	folders []absentIn
}

// absentIn are the paths whose nearest folder that is there is the same.
type absentIn struct {
	folder string
	paths  []string
	// stamp is what the folder was before its paths were looked for; the zero stamp
	// says nothing about what is in it.
	stamp folderStamp
}

// settledAfter is how long a folder must have been unchanged for its stamp to count:
// two changes within the finest time that a file system keeps leave the same stamp.
const settledAfter = 3 * time.Second

// newAbsent returns the paths, which weren't there a moment ago. What appeared since is
// noticed by the first call of hasAppeared.
func newAbsent(paths []string, now time.Time) *absent {
	a := &absent{}
	for _, path := range paths {
		a.watchPath(path, now)
	}
	return a
}

// watchPath adds a path to those of the nearest folder above it.
func (a *absent) watchPath(path string, now time.Time) {
	folder, stamp, sure := nearestFolder(path)
	i := slices.IndexFunc(a.folders, func(in absentIn) bool { return in.folder == folder })
	if i < 0 {
		if !stamp.tells(folder, now.Add(-settledAfter)) {
			stamp = folderStamp{}
		}
		a.folders = append(a.folders, absentIn{folder: folder, stamp: stamp})
		i = len(a.folders) - 1
	}
	a.folders[i].paths = append(a.folders[i].paths, path)
	if _, err := os.Lstat(path); err == nil || !sure {
		a.folders[i].stamp = folderStamp{} // it came in between, or may come unseen
	}
}

// nearestFolder returns the nearest folder above a path that is there. It is not sure to
// change when the path appears if a link leads on from it to where nothing is yet.
func nearestFolder(path string) (folder string, stamp folderStamp, sure bool) {
	sure = true
	for folder = filepath.Dir(path); ; folder = filepath.Dir(folder) {
		stamp, there := stampOf(folder)
		if there || folder == filepath.Dir(folder) {
			return folder, stamp, sure
		}
		if _, err := os.Lstat(folder); err == nil {
			sure = false
		}
	}
}

// hasAppeared reports whether one of the paths is there now.
func (a *absent) hasAppeared(now time.Time) bool {
	var changed []string
	for _, in := range a.folders {
		if stamp, there := stampOf(in.folder); there && in.stamp != (folderStamp{}) && stamp == in.stamp {
			continue
		}
		for _, path := range in.paths {
			if _, err := os.Lstat(path); err == nil {
				return true
			}
		}
		changed = append(changed, in.folder)
	}
	if len(changed) > 0 {
		a.lookAgain(changed, now)
	}
	return false
}

// lookAgain finds the folders anew for what is below those that changed: a folder may
// have come or gone between them and the paths.
func (a *absent) lookAgain(changed []string, now time.Time) {
	var paths []string
	a.folders = slices.DeleteFunc(a.folders, func(in absentIn) bool {
		if !slices.Contains(changed, in.folder) {
			return false
		}
		paths = append(paths, in.paths...)
		return true
	})
	for _, path := range paths {
		a.watchPath(path, now)
	}
}
