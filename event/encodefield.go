package event

import (
	"strconv"
	"time"
)

// The functions here append the fields of payloads for the generated encoders. Those
// called appendSet append a key and its value, or nothing where the value isn't set.

// object is a pointer to a payload or to a struct in one.
type object[T any] interface {
	*T
	appendJSON(dst []byte) []byte
	check() error
}

func appendSetString(dst []byte, key, v string) []byte {
	if v == "" {
		return dst
	}
	return appendString(append(dst, key...), v)
}

func appendSetBool(dst []byte, key string, v bool) []byte {
	if !v {
		return dst
	}
	return append(append(dst, key...), "true"...)
}

func appendSetInt(dst []byte, key string, v int64) []byte {
	if v == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), v, 10)
}

func appendSetUint(dst []byte, key string, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return strconv.AppendUint(append(dst, key...), v, 10)
}

func appendSetFloat(dst []byte, key string, v float64) []byte {
	if v == 0 {
		return dst
	}
	return appendFloat(append(dst, key...), v)
}

func appendSetTime(dst []byte, key string, v time.Time) []byte {
	if v.IsZero() {
		return dst
	}
	return appendTime(append(dst, key...), v)
}

func appendSetRaw(dst []byte, key string, v Raw) []byte {
	if len(v) == 0 {
		return dst
	}
	return appendRaw(append(dst, key...), v)
}

func appendSetOptionalInt(dst []byte, key string, v OptionalInt) []byte {
	if v.IsZero() {
		return dst
	}
	return v.appendJSON(append(dst, key...))
}

func appendSetStrings(dst []byte, key string, v []string) []byte {
	if len(v) == 0 {
		return dst
	}
	return appendStrings(append(dst, key...), v)
}

func appendSetIntMap(dst []byte, key string, v map[string]int64) []byte {
	if len(v) == 0 {
		return dst
	}
	return appendIntMap(append(dst, key...), v)
}

func appendValue[T any, P object[T]](dst []byte, v P) []byte { return v.appendJSON(dst) }

func appendSetObject[T any, P object[T]](dst []byte, key string, v P) []byte {
	if v == nil {
		return dst
	}
	return v.appendJSON(append(dst, key...))
}

func appendNullable[T any, P object[T]](dst []byte, v P) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return v.appendJSON(dst)
}

func appendList[T any, P object[T]](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = P(&list[i]).appendJSON(dst)
	}
	return append(dst, ']')
}

func appendSetList[T any, P object[T]](dst []byte, key string, list []T) []byte {
	if len(list) == 0 {
		return dst
	}
	return appendList[T, P](append(dst, key...), list)
}

// checkObject checks what a field holds; nothing is fine.
func checkObject[T any, P object[T]](name string, v P) error {
	if v == nil {
		return nil
	}
	if err := v.check(); err != nil {
		return wrapField(name, err)
	}
	return nil
}

func checkList[T any, P object[T]](name string, list []T) error {
	for i := range list {
		if err := P(&list[i]).check(); err != nil {
			return withinItem(name, i, err)
		}
	}
	return nil
}
