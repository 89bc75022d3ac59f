package workspace

import "agentd/store"

// blobRef returns the reference of the blob that holds an earlier content. It is
// false for references that aren't of this package or need no blob.
func blobRef(beforeRef string) (string, bool) {
	e, err := parseRef(beforeRef)
	if err != nil || e.kind == kindDir {
		return "", false
	}
	return store.RefOf(e.at.blob), true
}
