package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// BenchmarkSSE measures both sides of a stream of events of 600 bytes.
func BenchmarkSSE(b *testing.B) {
	frame := SSEFrame{ID: "12345", Data: []byte(strings.Repeat("x", 600))}
	b.Run("write", func(b *testing.B) {
		buf := make([]byte, 0, 1024)
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendSSE(buf[:0], &frame)
		}
	})
	b.Run("read", func(b *testing.B) {
		const frames = 1000
		stream := bytes.Repeat(AppendSSE(nil, &frame), frames)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			r := NewSSEReader(bytes.NewReader(stream), 0)
			for {
				if _, err := r.Next(); errors.Is(err, io.EOF) {
					break
				}
				n++
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/frame")
	})
}
