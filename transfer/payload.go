package transfer

import (
	"context"
	"errors"
	"io"
	"os"

	"agentd/event"
	"agentd/fault"
	"agentd/store"
)

// payloads are the whole payloads of the facts in a file that show only a part of them.
// They are needed to fold these facts, and stand behind all facts of the file: so they
// are gathered in a file that is gone when it is closed, however large they are.
type payloads struct {
	file   *os.File
	placed map[string]placedPayload
}

// placedPayload is where a payload begins; its size is -1 until it was found.
type placedPayload struct{ offset, size int64 }

// gatherPayloads reads an exported session for the payloads in it. The caller closes them.
func gatherPayloads(from io.Reader, header func(*Header) error) (*payloads, error) {
	file, err := os.CreateTemp("", "agentd-import-*")
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the payloads in the file can't be gathered")
	}
	p := &payloads{file: file, placed: map[string]placedPayload{}}
	if err := errors.Join(os.Remove(file.Name()), p.gather(from, header)); err != nil {
		return nil, errors.Join(unreadable(err), p.Close())
	}
	return p, nil
}

func (p *payloads) gather(from io.Reader, header func(*Header) error) error {
	var end int64
	_, err := Read(from, Visitor{
		Header: header,
		Event: func(rec store.Record) error {
			var e event.Event
			if _, err := event.DecodeHeader(rec.Data, &e); err == nil && e.IsCut() { // the check names what can't be read
				p.placed[e.Refs[event.PayloadRef]] = placedPayload{size: -1}
			}
			return nil
		},
		Output: func(ref, _ string, content io.Reader) error {
			if _, wanted := p.placed[ref]; !wanted {
				_, err := io.Copy(io.Discard, content)
				return err
			}
			size, err := io.Copy(p.file, content)
			p.placed[ref] = placedPayload{end, size}
			end += size
			return err
		},
	})
	return err
}

// storePayloads stores those that the file has.
func (p *payloads) storePayloads(put func(io.Reader) error) error {
	for _, at := range p.placed {
		if at.size < 0 {
			continue // the file says that it is missing
		}
		if err := put(io.NewSectionReader(p.file, at.offset, at.size)); err != nil {
			return err
		}
	}
	return nil
}

// OpenBlob implements [store.Contents].
func (p *payloads) OpenBlob(_ context.Context, ref string) (store.Blob, error) {
	at, ok := p.placed[ref]
	if !ok || at.size < 0 {
		return nil, store.ErrNotFound
	}
	return store.NewBlob(store.BlobInfo{Ref: ref, Size: at.size}, func(i int) ([]byte, error) {
		from := int64(i) * store.ChunkSize
		chunk := make([]byte, min(store.ChunkSize, at.size-from))
		_, err := p.file.ReadAt(chunk, at.offset+from)
		return chunk, err
	}), nil
}

// Close lets go of the payloads.
func (p *payloads) Close() error { return p.file.Close() }
