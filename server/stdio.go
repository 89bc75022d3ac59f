package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// lines is a pair of streams as a transport: one message per line.
type lines struct {
	most int64
	in   chan line
	out  io.Writer
}

// line is what the reading goroutine found.
type line struct {
	data []byte
	err  error
}

func (t *lines) read(ctx context.Context) (message []byte, done func(), err error) {
	select {
	case l, ok := <-t.in:
		if !ok {
			return nil, nil, io.EOF
		}
		return l.data, func() {}, l.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// write sends a message. A write to a full pipe can't always be given up by a
// deadline: when ctx ends, a write into it is left behind.
func (t *lines) write(ctx context.Context, message []byte) error {
	message = append(message, '\n')
	done := make(chan error, 1)
	go func() {
		_, err := t.out.Write(message)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(lastWrite)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errGone
	}
}

// lastWrite is how long a write that is under way may take when the program ends.
const lastWrite = time.Second

// ServeStdio speaks JSON-RPC over two streams, one message per line, for a caller
// that needs no token, until in ends or ctx does. At the end of in everything
// that was asked is still answered, and each subscription delivers what is
// durable by then. When ctx ends, a read of in that is under way is ended by a
// deadline or by closing in, where in can do that; where it can't, the goroutine
// that reads is left behind until in ends.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, who Identity) error {
	q := &request{id: s.opt.IDs.New(event.PrefixRequest), login: &login{Identity: who}, caller: who.caller()}
	q.caller.RequestID = q.id
	t := &lines{most: s.opt.MaxBody, in: make(chan line), out: out}
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	p := newRPCConn(ctx, s, q, t, "stdio")
	if d, ok := out.(interface{ SetWriteDeadline(time.Time) error }); ok {
		// A reader that stopped reading must not keep the program from ending.
		defer context.AfterFunc(ctx, func() { _ = d.SetWriteDeadline(time.Now()) })()
	}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		t.scan(p, in)
	}()
	err := p.serve(true)
	if errors.Is(err, io.EOF) || interruptRead(in) {
		<-reading
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// interruptRead ends a read that is under way, and reports whether it could.
func interruptRead(in io.Reader) bool {
	if d, ok := in.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Now()) == nil {
		return true
	}
	if _, ok := in.(*os.File); ok {
		return false // without deadlines, to close it doesn't end a read either
	}
	if c, ok := in.(io.Closer); ok {
		return c.Close() == nil
	}
	return false
}

// scan reads lines until the end. A line that is too long is answered and passed
// over; empty lines are passed over.
func (t *lines) scan(p *rpcConn, in io.Reader) {
	defer close(t.in)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		data, tooLong, err := t.line(r)
		if tooLong {
			bad := wire.RPCErrorOf(p.s.tooLarge(t.most))
			bad.Code = fault.RPCInvalidRequest
			p.sendMessage(wire.AppendRPCError(nil, nil, p.rpc.stamp(bad)))
		}
		if data = bytes.TrimSpace(data); len(data) > 0 {
			select {
			case t.in <- line{data: data}:
			case <-p.ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// line reads one line of at most t.most bytes.
func (t *lines) line(r *bufio.Reader) (data []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !tooLong {
			data = append(data, part...)
		}
		if int64(len(data)) > t.most+1 {
			data, tooLong = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return data, tooLong, err
		}
	}
}
