package resp

import (
	"errors"
	"io"
)

// The limits, for the tests of them.
const (
	MaxArgs = maxArgs
	MaxArg  = maxArg
)

// Commands reads commands until the first error, and tells whether that is one of the protocol.
func Commands(r io.Reader) (all [][]string, wrong bool, err error) {
	in := newReader(r)
	for {
		args, err := in.command()
		if err != nil {
			return all, errors.As(err, new(protocolError)), err
		}
		all = append(all, append([]string{}, args...))
	}
}
