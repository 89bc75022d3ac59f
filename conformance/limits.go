package conformance

// Limits bound what a [Checker] takes in and keeps. The zero value is the defaults.
type Limits struct {
	// Line is the largest line of a stream in bytes, default 4 MiB; Document the largest
	// other file, default 32 MiB.
	Line, Document int
	// Remembered is how many ids each check of a stream remembers; default 200,000. The
	// oldest are forgotten, and the report says so.
	Remembered int
	// Shown is how many findings of each check are kept, default 20; all are counted.
	Shown int
	// Files is how many files of a directory are read; default 100,000.
	Files int
}

func (l *Limits) setDefaults() {
	for _, x := range []struct {
		at    *int
		value int
	}{{&l.Line, 4 << 20}, {&l.Document, 32 << 20}, {&l.Remembered, 200_000}, {&l.Shown, 20}, {&l.Files, 100_000}} {
		if *x.at <= 0 {
			*x.at = x.value
		}
	}
}
