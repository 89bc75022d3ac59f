package storetest

import (
	"bytes"
	"fmt"
	"strconv"

	"agentd/store"
)

// Records returns n records of a session from sequence from on, each with size
// bytes of data (or a little more, if size is too small for what tells records
// apart). The hashes are those of a session that consists of such records of
// the same size from sequence 1; use [Continue] to go on after other records.
func Records(sessionID string, from uint64, n, size int) []store.Record {
	head := store.Head{Hash: store.Genesis(sessionID)}
	chain := store.NewChain(head.Hash)
	for head.Sequence+1 < from {
		head.Sequence++
		head.Hash = chain.Next(recordData(sessionID, head.Sequence, size))
	}
	return Continue(sessionID, head, n, size)
}

// Continue returns n records that follow a session's head, with the right
// hashes. The zero head is that of a session that doesn't exist.
func Continue(sessionID string, head store.Head, n, size int) []store.Record {
	if head.Sequence == 0 {
		head.Hash = store.Genesis(sessionID)
	}
	chain := store.NewChain(head.Hash)
	records := make([]store.Record, n)
	for i := range records {
		seq := head.Sequence + 1 + uint64(i)
		data := recordData(sessionID, seq, size)
		records[i] = store.Record{Sequence: seq, Data: data, Hash: chain.Next(data)}
	}
	return records
}

// HeadOf returns the head of a session that ends with the last of the records.
func HeadOf(records []store.Record) store.Head {
	if len(records) == 0 {
		return store.Head{}
	}
	last := records[len(records)-1]
	return store.Head{Sequence: last.Sequence, Hash: last.Hash}
}

// VerifyChain checks that records are a session's records from sequence 1,
// without gaps and with the right hashes.
func VerifyChain(sessionID string, records []store.Record) error {
	chain := store.NewChain(store.Genesis(sessionID))
	for i, r := range records {
		if want := uint64(i) + 1; r.Sequence != want {
			return fmt.Errorf("session %s: record %d has sequence %d", sessionID, want, r.Sequence)
		}
		if chain.Next(r.Data) != r.Hash {
			return fmt.Errorf("session %s: the hash of record %d doesn't fit its data", sessionID, r.Sequence)
		}
	}
	return nil
}

// recordData is JSON that differs between sessions and sequences. Its padding
// is not the same in every record, so that bytes that were mixed up show.
func recordData(sessionID string, seq uint64, size int) []byte {
	data := append([]byte(`{"sequence":`), strconv.FormatUint(seq, 10)...)
	data = append(data, `,"sessionId":`...)
	data = strconv.AppendQuote(data, sessionID)
	const open, end = `,"pad":"`, `"}`
	if pad := size - len(data) - len(open) - len(end); pad > 0 {
		data = append(data, open...)
		data = append(data, padding(seq, pad)...)
		return append(data, end...)
	}
	return append(data, '}')
}

func padding(seed uint64, n int) []byte {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	p := make([]byte, n)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = alphabet[x>>58]
	}
	return p
}

// diffRecords says how two lists of records differ, or returns the empty string.
func diffRecords(got, want []store.Record) string {
	if len(got) != len(want) {
		return fmt.Sprintf("got %d records %s, want %d %s", len(got), spanText(got), len(want), spanText(want))
	}
	for i := range want {
		switch {
		case got[i].Sequence != want[i].Sequence:
			return fmt.Sprintf("record %d has sequence %d, want %d", i, got[i].Sequence, want[i].Sequence)
		case !bytes.Equal(got[i].Data, want[i].Data):
			return fmt.Sprintf("the data of sequence %d differs", got[i].Sequence)
		case got[i].Hash != want[i].Hash:
			return fmt.Sprintf("the hash of sequence %d differs", got[i].Sequence)
		}
	}
	return ""
}

func spanText(records []store.Record) string {
	if len(records) == 0 {
		return "[]"
	}
	return fmt.Sprintf("[%d…%d]", records[0].Sequence, records[len(records)-1].Sequence)
}
