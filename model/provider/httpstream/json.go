package httpstream

import "github.com/go-json-experiment/json/v1"

// Unmarshal does what [encoding/json.Unmarshal] does, for half of its price: an
// answer is made of hundreds of small events.
func Unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }
