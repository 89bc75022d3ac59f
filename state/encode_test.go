package state

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// TestEncodeIsEncodingJSON fills every field of a state, with nothing, little and odd
// things, and compares what the generated encoders make of it with encoding/json.
func TestEncodeIsEncodingJSON(t *testing.T) {
	for seed := range uint64(200) {
		s := &Session{}
		(&filler{t, rand.New(rand.NewPCG(seed, 0))}).fill(reflect.ValueOf(s).Elem(), 0)
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Encode(); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got, want)
		}
	}
}

// TestEveryRecordIsStored encodes what can leave the working set.
func TestEveryRecordIsStored(t *testing.T) {
	for _, data := range []any{
		&Action{}, &Artifact{}, &Attempt{}, &Trial{}, &Reward{}, &Channel{}, &Process{}, &Turn{}, &Job{}, &JobItem{},
		&PeerTask{}, &Schedule{}, &Subagent{}, &Task{}, &Thread{},
	} {
		want, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (&Evicted{Name: "x/1", Data: data}).Encode(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T: %v\n%s\n%s", data, err, got, want)
		}
	}
	if _, err := (&Evicted{Name: "x/1", Data: "text"}).Encode(); err == nil {
		t.Error("a text was taken for a record")
	}
}

var (
	oddTexts  = []string{"", "plain", "a<b>&c", "say \"so\"", "back\\slash", "line\nbreak\ttab\x01", "Grüße 世界", "\xff broken", "\u2028\u2029", "\x7f"}
	oddFloats = []float64{0, 1, -1, 0.1, 1e-6, 9.9e-7, 1e20, 1e21, 1e-9, 123456.789, math.MaxFloat64, math.SmallestNonzeroFloat64, 3.5e-300}
	oddRaws   = []string{`"plain"`, `"a<b"`, `"two \"words\""`, `{"a": 1, "b" : [ true, null ]}`, `12`, `"Grüße"`, `null`, `[ "x" ]`}
)

// filler gives values some content.
type filler struct {
	t   *testing.T
	any *rand.Rand
}

func oneOf[T any](f *filler, list ...T) T { return list[f.any.IntN(len(list))] }

// fill fills a value and what is in it.
func (f *filler) fill(v reflect.Value, depth int) {
	some := func() bool { return f.any.IntN(3) == 0 && depth < 9 }
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		switch f.any.IntN(4) {
		case 0:
		case 1:
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 123_456_000).UTC()))
		case 2:
			v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0).In(time.FixedZone("", 5400))))
		case 3:
			v.Set(reflect.ValueOf(time.Time{}.UTC()))
		}
		return
	case reflect.TypeFor[json.RawMessage]():
		if some() {
			v.SetBytes([]byte(oneOf(f, oddRaws...)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if some() {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if some() {
			v.Set(reflect.MakeSlice(v.Type(), f.any.IntN(3), 2))
			for i := range v.Len() {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		if some() {
			v.Set(reflect.MakeMap(v.Type()))
			for range f.any.IntN(4) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				f.fill(key, depth+1)
				f.fill(value, depth+1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.String:
		v.SetString(oneOf(f, oddTexts...))
	case reflect.Bool:
		v.SetBool(oneOf(f, true, false))
	case reflect.Int, reflect.Int64:
		v.SetInt(oneOf[int64](f, 0, 1, -5, math.MaxInt64, math.MinInt64))
	case reflect.Uint64:
		v.SetUint(oneOf[uint64](f, 0, 1, math.MaxUint64))
	case reflect.Float64:
		v.SetFloat(oneOf(f, oddFloats...))
	default:
		f.t.Fatalf("a %s can't be filled", v.Type())
	}
}
