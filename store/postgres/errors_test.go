package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"agentd/store"
)

// TestClassifyError: what passes by itself is told from what is wrong with a statement, so that
// callers know whether to come again.
func TestClassifyError(t *testing.T) {
	known := []error{store.ErrFull, store.ErrNoSpace, store.ErrUnavailable, store.ErrCorrupt}
	fails := func(severity, code string) error { return &pgconn.PgError{SeverityUnlocalized: severity, Code: code} }
	for name, c := range map[string]struct{ err, want error }{
		"too many connections":                 {fails("FATAL", "53300"), store.ErrFull},
		"too many connections, in a statement": {fails("ERROR", "53300"), store.ErrFull},
		"the database starts":                  {fails("FATAL", "57P03"), store.ErrUnavailable},
		"the database starts, says a pooler":   {fails("ERROR", "57P03"), store.ErrUnavailable},
		"ended by an administrator":            {fails("FATAL", "57P01"), store.ErrUnavailable},
		"crashed":                              {fails("FATAL", "57P02"), store.ErrUnavailable},
		"the protocol broke":                   {fails("ERROR", "08P01"), store.ErrUnavailable},
		"a pooler without a server":            {fails("ERROR", "08006"), store.ErrUnavailable},
		"a standby":                            {fails("ERROR", "25006"), store.ErrUnavailable},
		"no memory":                            {fails("ERROR", "53200"), store.ErrUnavailable},
		"the disk is full":                     {fails("ERROR", "53100"), store.ErrNoSpace},
		"damaged data":                         {fails("ERROR", "XX001"), store.ErrCorrupt},
		"a damaged index":                      {fails("ERROR", "XX002"), store.ErrCorrupt},
		"no connection":                        {&net.OpError{Op: "dial", Err: errors.New("refused")}, store.ErrUnavailable},
		"a connection that ended":              {io.ErrUnexpectedEOF, store.ErrUnavailable},
		"one that ended before anything":       {unsent{errors.New("conn closed")}, store.ErrUnavailable},
		"a row that is there":                  {fails("ERROR", "23505"), nil},
		"a statement that is wrong":            {fails("ERROR", "42601"), nil},
		"a statement that took too long":       {fails("ERROR", "57014"), nil},
		"a row that isn't there":               {pgx.ErrNoRows, nil},
		"a caller who left":                    {fmt.Errorf("%w: %w", context.Canceled, &net.OpError{Op: "read", Err: errors.New("timeout")}), nil},
		"a caller who waited long enough":      {context.DeadlineExceeded, nil},
		"a defect":                             {errors.New("can't scan"), nil},
		"nothing":                              {nil, nil},
	} {
		got := classifyError(classifyError(c.err)) // twice is once
		if !errors.Is(got, c.err) {
			t.Errorf("%s: %v is lost in %v", name, c.err, got)
		}
		for _, k := range known {
			if errors.Is(got, k) != errors.Is(c.want, k) {
				t.Errorf("%s is %v, want %v", name, got, c.want)
			}
		}
	}
}
