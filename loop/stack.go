package loop

// stackRoom is what the deepest calls of a turn take.
const stackRoom = 24 << 10

// roomy makes the calling goroutine's stack as large as a turn's work needs. A new
// goroutine has 2 KiB, and whenever calls nest deeper all frames are moved to a stack
// of twice the size: that was 7 % of a turn's processor time. Called first, it finds
// next to nothing to move. It is called with false: the stack is made when the
// function is entered, and nothing of it is touched.
//
//go:noinline
func roomy(never bool) {
	if never {
		var room [stackRoom]byte
		keepAlive(&room)
	}
}

// keepAlive keeps the compiler from leaving the room out.
//
//go:noinline
func keepAlive(*[stackRoom]byte) {}
