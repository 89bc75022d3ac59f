package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"agentd/store"
)

// someRecords returns records with so many bytes each, which can be compressed or not.
func someRecords(first uint64, compressible bool, sizes ...int) []*store.Record {
	random := rand.New(rand.NewPCG(1, first))
	var list []*store.Record
	for i, size := range sizes {
		r := &store.Record{Sequence: first + uint64(i), Data: bytes.Repeat([]byte("x"), size)}
		for n := range r.Hash {
			r.Hash[n] = byte(random.Uint32())
		}
		for n := range r.Data {
			if !compressible {
				r.Data[n] = byte(random.Uint32())
			}
		}
		list = append(list, r)
	}
	return list
}

func repeatSize(size, n int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// TestRowsOfRecords: however records are laid out in rows, they come back as they were.
func TestRowsOfRecords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sizes []int
		// The records of each row, where they share rows; of them packs says how many are
		// packs if the contents can't be compressed, small how many if they can.
		rows         []int
		packs, small int
	}{
		{[]int{100}, []int{1}, 0, 0},
		{[]int{2000}, []int{1}, 0, 1},
		{[]int{maxPackedBytes + 1}, []int{1}, 0, 0},
		{[]int{0, 0}, []int{2}, 1, 1},
		{[]int{100, 0, 700}, []int{3}, 1, 1},
		{repeatSize(10, maxPacked+1), []int{maxPacked, 1}, 1, 1},
		{repeatSize(maxPackedBytes/2, 3), []int{2, 1}, 1, 2},
		{[]int{10, maxPackedBytes, 10, 10}, []int{1, 1, 2}, 1, 2},
	} {
		for _, compressible := range []bool{false, true} {
			for _, share := range []bool{false, true} {
				list := someRecords(7, compressible, c.sizes...)
				var got []store.Record
				var rows []int
				packs := 0
				p := packer{packs: share}
				p.rows("s", list, func(row *eventRow) {
					back, err := row.records("s")
					if err != nil {
						t.Fatalf("%v: %v", c.sizes, err)
					}
					if row.first() != int64(back[0].Sequence) || row.sequence != int64(back[len(back)-1].Sequence) {
						t.Errorf("%v: a row from %d to %d has the records %d to %d", c.sizes, row.first(), row.sequence, back[0].Sequence, back[len(back)-1].Sequence)
					}
					if len(row.key) == packHashSize {
						packs++
					}
					rows, got = append(rows, len(back)), append(got, back...)
				})
				for i := range list {
					if i >= len(got) || got[i].Sequence != list[i].Sequence || got[i].Hash != list[i].Hash || !bytes.Equal(got[i].Data, list[i].Data) {
						t.Fatalf("%v: record %d is not what it was", c.sizes, i)
					}
				}
				wantRows, wantPacks := c.rows, c.packs
				if compressible {
					wantPacks = c.small
				}
				if !share {
					wantRows, wantPacks = repeatSize(1, len(c.sizes)), 0
				}
				if fmt.Sprint(rows) != fmt.Sprint(wantRows) || packs != wantPacks || p.packed != (packs > 0) {
					t.Errorf("%v, compressible %v, share %v: rows of %v records, %d packs; want %v, %d", c.sizes, compressible, share, rows, packs, wantRows, wantPacks)
				}
			}
		}
	}
}

// TestADamagedPackIsNoRecords changes and cuts packs whose checksum is right all the same, as a
// faulty program would write them.
func TestADamagedPackIsNoRecords(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, compressible := range []bool{false, true} {
		p := packer{packs: true}
		good := p.rowOf("s", someRecords(3, compressible, 400, 500, 0, 20))
		for range 20_000 {
			bad := good
			bad.data, bad.key = bytes.Clone(good.data), bytes.Clone(good.key)
			switch random.IntN(3) {
			case 0:
				bad.data = bad.data[:random.IntN(len(bad.data))]
			case 1:
				bad.data[random.IntN(min(len(bad.data), 20))] ^= byte(1 + random.IntN(255))
			default:
				bad.key[hashSize+random.IntN(8)] ^= byte(1 + random.IntN(255))
			}
			bad.crc = checksum("s", uint64(bad.sequence), bad.key, bad.data)
			list, err := bad.records("s")
			if err == nil && (len(list) != 4 || list[0].Sequence != 3 || list[3].Sequence != 6) {
				t.Fatalf("a damaged pack reads as %d records", len(list))
			}
		}
		if _, err := good.records("another"); err == nil {
			t.Error("a pack reads as that of another session")
		}
	}
}

// TestAFormerVersionReadsNoPack: the checksum as earlier versions compute it, over the first 32
// bytes of the hash, doesn't fit.
func TestAFormerVersionReadsNoPack(t *testing.T) {
	t.Parallel()
	p := packer{packs: true}
	row := p.rowOf("s", someRecords(1, true, 100, 100))
	if checksum("s", uint64(row.sequence), row.key[:hashSize], row.data) == row.crc {
		t.Error("a version that doesn't know packs takes one for a record")
	}
}
