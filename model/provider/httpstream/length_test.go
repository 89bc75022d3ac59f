//go:build !race

package httpstream

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"agentd/model"
)

// serverSending is a connection to a server that says so many kilobytes, in pieces of one.
func serverSending(kilobytes int) *Conn {
	event := "data: " + strings.Repeat("x", 1<<10) + "\n\n"
	return conn(func(context.Context) io.ReadCloser {
		return io.NopCloser(io.MultiReader(io.LimitReader(&endless{text: event}, int64(kilobytes*len(event))), strings.NewReader("data: end\n\n")))
	})
}

func TestAnswerThatSaysTooMuch(t *testing.T) {
	c := serverSending(100)
	c.maxAnswer = 50 << 10
	text, done, err := play(t.Context(), c, nil)
	if category(err) != model.Malformed || done != nil || !strings.Contains(err.Error(), "maxAnswerBytes") {
		t.Errorf("%v, %v", done, err)
	}
	if len(text) != 50<<10 {
		t.Errorf("%d bytes were handed on", len(text))
	}
	c = serverSending(50)
	c.maxAnswer = 50 << 10
	if text, done, err := play(t.Context(), c, nil); err != nil || done == nil || len(text) != 50<<10 {
		t.Errorf("an answer at the bound: %d bytes, %v, %v", len(text), done, err)
	}
}

// TestAnswersCostTheSamePerByte holds the memory of an answer of four times the
// length against that of the short one.
func TestAnswersCostTheSamePerByte(t *testing.T) {
	perByte := func(kilobytes int) float64 {
		c := serverSending(kilobytes)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := play(t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(kilobytes<<10)
	}
	perByte(1)
	one, two, four := perByte(1<<10), perByte(2<<10), perByte(4<<10)
	t.Logf("bytes allocated for each byte of 1, 2 and 4 MiB: %.1f %.1f %.1f", one, two, four)
	if four > 1.5*one {
		t.Errorf("each byte of a long answer costs %.1f bytes, of a short one %.1f", four, one)
	}
}

func BenchmarkAnswer(b *testing.B) {
	for name, kilobytes := range map[string]int{"1MiB": 1 << 10, "2MiB": 2 << 10, "4MiB": 4 << 10} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(kilobytes << 10))
			for b.Loop() {
				if _, _, err := play(b.Context(), serverSending(kilobytes), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
