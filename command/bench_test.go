package command

import "testing"

// BenchmarkDecode measures what a door spends on the parameters of a command,
// strict decoding and checks together.
func BenchmarkDecode(b *testing.B) {
	for _, name := range []Name{"submit_turn", "create_task", "list_sessions"} {
		d, _ := Lookup(name)
		body := []byte(d.Example)
		b.Run(string(name), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				p, err := Decode(name, body)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
