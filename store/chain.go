package store

import (
	"crypto/sha256"
	"hash"
)

// Genesis returns the hash that a session's chain begins with.
func Genesis(sessionID string) Hash {
	return sha256.Sum256(append([]byte("agentd chain 1\n"), sessionID...))
}

// Chain hashes records one after another: each hash covers the hash before and
// the stored bytes. A Chain is for one goroutine.
type Chain struct {
	sum  hash.Hash
	last Hash
}

// NewChain returns a chain that goes on after last.
func NewChain(last Hash) *Chain { return &Chain{sum: sha256.New(), last: last} }

// Next returns the hash through the record with the given data.
func (c *Chain) Next(data []byte) Hash {
	c.sum.Reset()
	c.sum.Write(c.last[:])
	c.sum.Write(data)
	c.sum.Sum(c.last[:0])
	return c.last
}

// Last returns the hash through the last record.
func (c *Chain) Last() Hash { return c.last }
