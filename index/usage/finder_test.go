package usage

import (
	"fmt"
	"testing"
)

// TestFinder finds each of many things again, also where all hashes are the same.
func TestFinder(t *testing.T) {
	for name, hash := range map[string]func(i int) uint32{
		"spread": func(i int) uint32 { return uint32(i) * 0x9e3779b9 },
		"few":    func(i int) uint32 { return uint32(i % 7) },
		"one":    func(int) uint32 { return 1<<32 - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			var f finder
			var list []string
			for i := range 1000 {
				for range 2 {
					thing := fmt.Sprint(i)
					at, found := f.find(hash(i), func(at uint32) bool { return list[at] == thing })
					if !found {
						list = append(list, thing)
					}
					if list[at] != thing || len(list) != i+1 {
						t.Fatalf("%s is at %d of %d", thing, at, len(list))
					}
				}
			}
		})
	}
}
