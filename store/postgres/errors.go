package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"agentd/store"
)

// SQLSTATEs that the engine tells apart.
const (
	codeRejected         = "AG001" // raised by agentd.require
	codeUnique           = "23505"
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codeDiskFull         = "53100"
	codeOutOfMemory      = "53200"
	codeTooMany          = "53300" // connections
	codeUndefinedTable   = "42P01"
	codeLockNotAvailable = "55P03"
	codeQueryCanceled    = "57014"
	codeReadOnly         = "25006" // a standby, or a primary that became one
	codeNotNow           = "57P03" // it starts, stops or recovers
	codeDataCorrupted    = "XX001"
	codeIndexCorrupted   = "XX002"
)

// sqlState returns the code of an error that aborted a statement, or "".
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) && !connectionEnded(e) {
		return e.Code
	}
	return ""
}

// connectionEnded reports whether the server ended the connection with e.
func connectionEnded(e *pgconn.PgError) bool {
	return e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC"
}

// classifyError gives an error the port's meaning where it has one.
func classifyError(err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrFull),
		errors.Is(err, store.ErrAway), errors.Is(err, store.ErrRefused):
		return err // it has it already, or isn't the database's
	case isFull(err):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case isUnreachable(err):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	switch sqlState(err) {
	case codeReadOnly, codeNotNow, codeOutOfMemory:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case codeDiskFull:
		return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
	case codeDataCorrupted, codeIndexCorrupted:
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	default:
		return err
	}
}

// wrapFailed wraps the error of a call with its operation.
func wrapFailed(op string, err error) error {
	return fmt.Errorf("postgres: %s: %w", op, classifyError(err))
}

// unsent marks an error that came before anything was sent, in the way that
// pgconn.SafeToRetry looks for.
type unsent struct{ error }

// SafeToRetry reports that nothing was sent.
func (unsent) SafeToRetry() bool { return true }

// Unwrap returns the error itself.
func (e unsent) Unwrap() error { return e.error }

// committed says what is known about a write that was sent and met err: an error
// of the statement means that nothing was written, as does one that came before
// anything was sent. Everything else is open, also an error with which the
// server ended the connection, because it says nothing about the commit.
func committed(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) && !connectionEnded(e) {
		return classifyError(err)
	}
	if pgconn.SafeToRetry(err) {
		return classifyError(err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

// isFull reports whether the database has no connection left for who asked for one.
func isFull(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeTooMany
}

// isUnreachable reports whether there was no connection, or the one that there was ended. Unlike
// isConnection it is sure of it.
func isUnreachable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return connectionEnded(e) || strings.HasPrefix(e.Code, "08")
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, broken := errors.AsType[*net.OpError](err)
	return refused || broken || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}

// isConnection reports whether err is a failure of the connection and not of a
// statement, the caller's context, or a row that isn't there. A database without a
// connection to spare is none: those that there are work.
func isConnection(err error) bool {
	return err != nil && sqlState(err) == "" && !isFull(err) && !errors.Is(err, pgx.ErrNoRows) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}
