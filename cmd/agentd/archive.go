package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A backup is a tar archive: a head, the files of a checkpoint, and at the end a
// manifest with the sum of each file. One without its manifest is not whole.
const (
	archiveHead     = "agentd-backup.json"
	archiveManifest = "manifest.json"
	archiveFormat   = 1
)

// archiveInfo is the head of a backup.
type archiveInfo struct {
	Format    int       `json:"format"`
	Version   string    `json:"agentdVersion"`
	CreatedAt time.Time `json:"createdAt"`
}

// archivedFile is a line of the manifest.
type archivedFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// writeArchive writes the files of dir as a backup, and beside them those of
// extra: paths by their name in the archive.
func writeArchive(w io.Writer, dir string, extra map[string]string, info archiveInfo) error {
	tw := tar.NewWriter(w)
	if err := addJSON(tw, archiveHead, info); err != nil {
		return err
	}
	var manifest []archivedFile
	add := func(name, from string) error {
		f, err := addFile(tw, name, from)
		manifest = append(manifest, f)
		return err
	}
	err := filepath.WalkDir(dir, func(from string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, from)
		if err != nil || name == "lock" {
			return err
		}
		return add(filepath.ToSlash(name), from)
	})
	for name, from := range extra {
		if err == nil {
			err = add(name, from)
		}
	}
	if err == nil {
		err = addJSON(tw, archiveManifest, manifest)
	}
	if err = errors.Join(err, tw.Close()); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

func addJSON(tw *tar.Writer, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = tw.Write(data)
	return err
}

func addFile(tw *tar.Writer, name, from string) (archivedFile, error) {
	f, err := os.Open(from)
	if err != nil {
		return archivedFile{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return archivedFile{}, err
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), Format: tar.FormatPAX}); err != nil {
		return archivedFile{}, err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(tw, sum), f); err != nil {
		return archivedFile{}, err
	}
	return archivedFile{name, info.Size(), hex.EncodeToString(sum.Sum(nil))}, nil
}

// unpacking is a backup that is being read.
type unpacking struct {
	// dir gets the files; empty to check them alone.
	dir      string
	head     *archiveInfo
	files    map[string]archivedFile
	manifest []archivedFile
	whole    bool
}

// readArchive reads a backup to its end and holds it against its manifest.
func readArchive(r io.Reader, dir string) (*archiveInfo, error) {
	u := &unpacking{dir: dir, files: map[string]archivedFile{}}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.entry(h, tr)
		}
		if err != nil {
			return nil, fmt.Errorf("the backup can't be read: %w", err)
		}
	}
	if err := u.check(); err != nil {
		return nil, fmt.Errorf("the backup is damaged: %w", err)
	}
	return u.head, nil
}

func (u *unpacking) entry(h *tar.Header, r io.Reader) error {
	switch {
	case u.head == nil && h.Name != archiveHead:
		return errors.New("it was not made by \"agentd backup\"")
	case u.head == nil:
		return u.readHead(r)
	case h.Name == archiveManifest:
		u.whole = true
		return json.NewDecoder(io.LimitReader(r, 64<<20)).Decode(&u.manifest)
	case h.Typeflag != tar.TypeReg || !belongs(h.Name):
		return fmt.Errorf("it contains %q, which isn't a file of a store", h.Name)
	}
	return u.file(h.Name, r)
}

func (u *unpacking) readHead(r io.Reader) error {
	u.head = new(archiveInfo)
	if err := json.NewDecoder(io.LimitReader(r, 1<<20)).Decode(u.head); err != nil {
		return err
	}
	if u.head.Format != archiveFormat {
		return fmt.Errorf("it has format %d, this release reads %d", u.head.Format, archiveFormat)
	}
	return nil
}

// belongs reports whether a name is one that a backup can hold. It keeps an
// archive from writing anywhere else.
func belongs(name string) bool {
	if name == "ledger" || name == tokensFile {
		return true
	}
	rest, ok := strings.CutPrefix(name, "db/")
	return ok && path.Clean(rest) == rest && filepath.IsLocal(rest) && !strings.ContainsAny(rest, "\\\x00")
}

func (u *unpacking) file(name string, r io.Reader) error {
	if _, twice := u.files[name]; twice {
		return fmt.Errorf("it contains %q twice", name)
	}
	sum := sha256.New()
	var n int64
	var err error
	if u.dir == "" {
		n, err = io.Copy(sum, r)
	} else {
		n, err = u.write(name, io.TeeReader(r, sum))
	}
	u.files[name] = archivedFile{name, n, hex.EncodeToString(sum.Sum(nil))}
	return err
}

func (u *unpacking) write(name string, r io.Reader) (int64, error) {
	to := filepath.Join(u.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	return n, errors.Join(err, f.Close())
}

// check holds what was read against the manifest.
func (u *unpacking) check() error {
	if !u.whole {
		return errors.New("its end is missing")
	}
	for _, want := range u.manifest {
		got, ok := u.files[want.Name]
		switch {
		case !ok:
			return fmt.Errorf("%s is missing", want.Name)
		case got != want:
			return fmt.Errorf("%s was changed", want.Name)
		}
		delete(u.files, want.Name)
	}
	for name := range u.files {
		return fmt.Errorf("%s is not in its manifest", name)
	}
	return nil
}
