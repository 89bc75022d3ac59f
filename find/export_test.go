package find

// SearchByDocuments lets a finder look at the words of documents wherever it can, however
// few postings there are.
func SearchByDocuments(f *Finder) {
	f.tuning = searchTuning{cheapPostings: -1, fewOf: 1, documentCost: 0}
}
