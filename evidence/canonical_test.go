package evidence

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : [ 1 , 2.50 , -0.0 ] , "a" : { } } `:    `{"a":{},"b":[1,2.5,0]}`,
		`"\u003cb\u003e \u00e9 \/ \"q\" \n"`:             `"<b> é / \"q\" \n"`,
		`[true,false,null,"",[],{"x":{"z":1,"y":[{}]}}]`: `[true,false,null,"",[],{"x":{"y":[{}],"z":1}}]`,
		`1e2`:                       `100`,
		`1.0`:                       `1`,
		`1E-7`:                      `1e-07`,
		`9007199254740993`:          `9007199254740993`,
		`{"a,b:c":"]}","\u0061":1}`: `{"a":1,"a,b:c":"]}"}`,
	} {
		got, err := canonical([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v; want %s", in, got, err, want)
		}
	}
	deep := append(bytes.Repeat([]byte("["), maxDepth+2), bytes.Repeat([]byte("]"), maxDepth+2)...)
	for _, in := range [][]byte{[]byte(`{"a":1,"b":2,"a":1}`), []byte(`{"a":1,"\u0061":1}`), deep} {
		if got, err := canonical(in); err == nil {
			t.Errorf("%s gives %s", in, got)
		}
	}
}

// FuzzCanonical: the canonical form means the same, and is its own.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":"\u00e9\ud83d\ude00"}],"c":1e3}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var before, after any
		if json.Unmarshal(in, &before) != nil {
			return
		}
		out, err := canonical(in)
		if err != nil {
			return // nested too deeply, or a member twice
		}
		if err := json.Unmarshal(out, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("%s became %s: %v", in, out, err)
		}
		if again, err := canonical(out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%s became %s, then %s: %v", in, out, again, err)
		}
	})
}
