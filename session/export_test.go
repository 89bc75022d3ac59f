package session

// UnpackState is unpackState, for tests that change what is stored.
var UnpackState = unpackState
