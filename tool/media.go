package tool

import "bytes"

// magics are the beginnings by which kinds of files are recognised.
var magics = []struct {
	at    int
	bytes string
	kind  string
	image bool
}{
	{0, "\x89PNG\r\n\x1a\n", "image/png", true},
	{0, "\xff\xd8\xff", "image/jpeg", true},
	{0, "GIF87a", "image/gif", true},
	{0, "GIF89a", "image/gif", true},
	{8, "WEBP", "image/webp", true},
	{0, "BM", "image/bmp", false},
	{0, "%PDF-", "application/pdf", false},
	{0, "PK\x03\x04", "application/zip", false},
	{0, "\x1f\x8b", "application/gzip", false},
	{0, "\x28\xb5\x2f\xfd", "application/zstd", false},
	{0, "BZh", "application/x-bzip2", false},
	{0, "\xfd7zXZ\x00", "application/x-xz", false},
	{0, "\x7fELF", "application/x-executable", false},
	{0, "\xca\xfe\xba\xbe", "application/x-mach-binary", false},
	{0, "\xcf\xfa\xed\xfe", "application/x-mach-binary", false},
	{0, "MZ", "application/vnd.microsoft.portable-executable", false},
	{0, "SQLite format 3\x00", "application/vnd.sqlite3", false},
	{0, "\x00asm", "application/wasm", false},
	{257, "ustar", "application/x-tar", false},
	{0, "OggS", "audio/ogg", false},
	{0, "ID3", "audio/mpeg", false},
	{0, "RIFF", "application/x-riff", false},
	{4, "ftyp", "video/mp4", false},
	{0, "wOF2", "font/woff2", false},
	{0, "\xff\xfe", "text/plain; charset=utf-16le", false},
	{0, "\xfe\xff", "text/plain; charset=utf-16be", false},
}

// mediaType guesses what a binary file is from its beginning.
func mediaType(sample []byte) string {
	kind, _ := sniff(sample)
	return kind
}

// imageType returns the type of a picture that models take, else "".
func imageType(sample []byte) string {
	if kind, image := sniff(sample); image {
		return kind
	}
	return ""
}

func sniff(sample []byte) (kind string, image bool) {
	for _, m := range magics {
		if len(sample) >= m.at+len(m.bytes) && bytes.HasPrefix(sample[m.at:], []byte(m.bytes)) {
			return m.kind, m.image
		}
	}
	return "application/octet-stream", false
}
