package web

import (
	"errors"
	"io"
	"net"
	"net/http"
)

var (
	errSlowBody = errors.New("the body did not arrive in time")
	errNoBody   = errors.New("the body could not be read")
)

// body is the body of a request. If it does not arrive as it should, its connection ends with the answer,
// because what the client sends next cannot be told from the rest of the body. The error names no address.
type body struct {
	io.ReadCloser

	answer http.ResponseWriter
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case errors.As(err, &tooLarge):
	case errors.As(err, &network) && network.Timeout():
		err = errSlowBody
	default:
		err = errNoBody
	}
	b.answer.Header().Set("Connection", "close")
	return n, err
}
