package event

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// marshalPlain is encoding/json without the escaping of HTML.
func marshalPlain(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func TestAppendStringLikeEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{"\u2028", "\u2029", "\u2030", "<", "&", "\"", "\\", "\x7f", "\xe2\x80", "\xf0\x9f", "a", "\n"})),
				func(parts []string) string { return strings.Join(parts, "") }),
		).Draw(t, "s")
		want, err := marshalPlain(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendString(nil, s)); got != want {
			t.Errorf("%q: %s, encoding/json writes %s", s, got, want)
		}
	})
}

func TestAppendStringEveryByte(t *testing.T) {
	for b := range 256 {
		s := string([]byte{'a', byte(b), 'z'})
		want, err := marshalPlain(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendString(nil, s)); got != want {
			t.Errorf("byte %#x: %s, encoding/json writes %s", b, got, want)
		}
	}
}

func TestAppendFloatLikeEncodingJSON(t *testing.T) {
	edges := []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.9e-7, 1e-9, 1e-10, 1e20, 1e21, 1.5e300, math.MaxFloat64, math.SmallestNonzeroFloat64}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom(edges)).Draw(t, "f")
		want, err := marshalPlain(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendFloat(nil, f)); got != want {
			t.Errorf("%s, encoding/json writes %s", got, want)
		}
	})
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got := string(appendFloat(nil, f)); got != "null" {
			t.Errorf("%v is written as %s", f, got)
		}
	}
}

func TestAppendRawLikeCompact(t *testing.T) {
	tests := []string{
		`null`, ` 1 `, "{\n\t\"a b\" : [ 1 , 2 ] ,\r\n\"c\":\"d \\\" e\\\\\" , \"f\" : \"\\\\\\\" g\" }", `" "`, `[ ]`,
	}
	for _, raw := range tests {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(raw)); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if got := string(appendRaw(nil, Raw(raw))); got != want.String() {
			t.Errorf("%s: %s, want %s", raw, got, &want)
		}
	}
	if got := string(appendRaw(nil, nil)); got != "null" {
		t.Errorf("nothing is written as %s", got)
	}
}

func TestAppendTime(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	tests := []struct {
		t    time.Time
		want string
	}{
		{time.Date(2026, 11, 15, 5, 4, 3, 987654321, time.UTC), "2026-11-15T05:04:03.987654Z"},
		{time.Date(2026, 1, 1, 1, 0, 0, 0, east), "2025-12-31T23:00:00.000000Z"},
		{time.Date(987, 6, 5, 4, 3, 2, 1000, time.UTC), "0987-06-05T04:03:02.000001Z"},
		{time.Time{}, "0001-01-01T00:00:00.000000Z"},
		{time.Date(-1, 6, 1, 0, 0, 0, 0, time.UTC), "0000-01-01T00:00:00.000000Z"},
		{time.Date(10000, 6, 1, 0, 0, 0, 0, time.UTC), "9999-12-31T23:59:59.999999Z"},
	}
	for _, tt := range tests {
		if got := string(appendTime(nil, tt.t)); got != `"`+tt.want+`"` {
			t.Errorf("%v: %s, want %q", tt.t, got, tt.want)
		}
	}
}

func TestScanTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.UnixMicro(rapid.Int64Range(-62135596800_000000, 253402300799_999999).Draw(t, "micros")).UTC()
		s := scanner{data: appendTime(nil, want)}
		var got time.Time
		if !s.time(&got) || got != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
	for _, bad := range []string{
		"2026-02-30T00:00:00.000000Z", "2026-13-01T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z",
		"2026-01-01T00:60:00.000000Z", "2026-01-01T00:00:60.000000Z", "2026-01-01T00:00:00.00000Z",
		"2026-01-01T00:00:00.000000+", "2026-01-01 00:00:00.000000Z", "2026-1a-01T00:00:00.000000Z", "2026-00-01T00:00:00.000000Z",
	} {
		s := scanner{data: []byte(`"` + bad + `"`)}
		if s.time(new(time.Time)) {
			t.Errorf("%s is taken for a time", bad)
		}
	}
}

func TestMapsAreSorted(t *testing.T) {
	m, n := map[string]string{}, map[string]int64{}
	for k := range strings.FieldsSeq("q w e r t z u i o p a s d f g h j k l y") {
		m[k], n[k] = k, 1
	}
	const want = `{"a":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"o":1,"p":1,"q":1,"r":1,"s":1,"t":1,"u":1,"w":1,"y":1,"z":1}`
	if got := string(appendIntMap(nil, n)); got != want {
		t.Errorf("%s", got)
	}
	wantStrings, err := marshalPlain(m)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(appendStringMap(nil, m)); got != wantStrings {
		t.Errorf("%s", got)
	}
	if got := string(appendIntMap([]byte("x"), nil)); got != "x{}" {
		t.Errorf("an empty map: %s", got)
	}
}

// TestIDsCarry shows that an id after the last of its millisecond still grows.
func TestIDsCarry(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	ids := NewIDs(func() time.Time { return now }, nil)
	ids.New(PrefixEvent)
	for _, high := range []uint64{7, 1<<highBits - 1} {
		ids.high, ids.low = high, 1<<lowBits-1
		milli := ids.milli
		last := string(appendBase32([]byte(PrefixEvent), ids.milli<<16|0x7<<12|ids.high, 0b10<<lowBits|ids.low))
		if id := ids.New(PrefixEvent); id <= last {
			t.Errorf("%s after %s", id, last)
		}
		if carried := ids.milli != milli; carried != (high != 7) {
			t.Errorf("random bits %x: the time went from %d to %d", high, milli, ids.milli)
		}
	}
}

func TestScanIntegers(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 10, math.MaxInt64, math.MinInt64, math.MinInt64 + 1, 1e18} {
		s := scanner{data: strconv.AppendInt(nil, v, 10)}
		s.data = append(s.data, ',')
		var got int64
		if !s.int(&got) || got != v {
			t.Errorf("%d is read as %d", v, got)
		}
	}
	for _, v := range []uint64{0, 9, 1e19 - 1, 1e19, math.MaxUint64} {
		s := scanner{data: strconv.AppendUint(nil, v, 10)}
		var got uint64
		if !s.uint(&got) || got != v {
			t.Errorf("%d is read as %d", v, got)
		}
	}
	for _, bad := range []string{
		"", "-", "01,", "-01,", "+1,", "1.5,", "1e3,", "1", "9223372036854775808,", "-9223372036854775809,", "99999999999999999999,",
		"00000000000000000000001,",
	} {
		s := scanner{data: []byte(bad)}
		if s.int(new(int64)) {
			t.Errorf("%q is taken for an integer", bad)
		}
	}
	for _, bad := range []string{"", "-1", "18446744073709551616", "00000000000000000000001"} {
		s := scanner{data: []byte(bad)}
		if s.uint(new(uint64)) {
			t.Errorf("%q is taken for an integer without sign", bad)
		}
	}
}
