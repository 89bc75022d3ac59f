package find

// Tunings are ways to make a search. What is found, and its order, doesn't depend on it.
var Tunings = map[string]searchTuning{
	"usual": usualTuning,
	// The words of documents are looked at wherever it can be, however few postings there are.
	"by documents": {cheapPostings: -1, fewOf: 1, documentCost: 0},
	// Postings are read wherever it can be, however many there are.
	"by postings": {cheapPostings: 1 << 60, documentCost: 1e9},
}

// Tune says how searches are made.
func Tune(f *Finder, name string) { f.tuning = Tunings[name] }
