package replay

// The deciders, for tests that replace them: those use the whole runtime, which imports
// this package.
type Deciders = deciders

var (
	ProductDeciders = productDeciders
	WalkWith        = walkWith
)
