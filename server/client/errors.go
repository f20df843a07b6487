package client

import (
	"errors"

	"connectrpc.com/connect"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

var (
	// ErrUnavailable is returned when no replica gave IDs within the time of the call. Every replica was
	// asked at least once if the time allowed it. Try again later. It is snowflakeplugin.ErrUnavailable as
	// well, so snowflakeplugin.Retryable is true unless the context of the call was canceled.
	ErrUnavailable = errs.Unavailable("client: no replica gave IDs")

	// ErrRefused is returned when a replica refused the request for good: the token is missing or wrong,
	// the source is unknown or has no number left, or the count is beyond the limit of the server.
	ErrRefused = errors.New("client: the request was refused")

	// ErrClosed is returned after Close. It is snowflakeplugin.ErrClosed as well.
	ErrClosed = errs.Closed("client: closed")

	// ErrOption is returned by [New] for endpoints or options that are wrong.
	ErrOption = errors.New("client: invalid option")
)

// lasting says whether another attempt would fail in the same way.
func lasting(err error) bool {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeUnauthenticated,
		connect.CodePermissionDenied, connect.CodeResourceExhausted, connect.CodeUnimplemented:
		return connect.IsWireError(err)
	default:
		return false
	}
}
