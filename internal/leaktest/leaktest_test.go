package leaktest

import (
	"testing"
	"time"
)

func TestAwait(t *testing.T) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	if await(0) == nil {
		t.Error("a goroutine that is left is not found")
	}
	time.AfterFunc(time.Second, func() { close(end) })
	if err := await(patience); err != nil {
		t.Errorf("a goroutine that ends late: %v", err)
	}
	<-ended
}
