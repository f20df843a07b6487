package resp

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// The limits of a command. With them a connection needs a fixed amount of memory, whatever it sends.
const (
	maxArgs    = 16
	maxArg     = 1024
	maxLine    = 1024 // of an inline command; a header of RESP is far shorter
	readBuffer = 4096
)

// protocolError says why something is no command. The connection cannot go on after one.
type protocolError string

// Error has the wording of Redis.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// reader reads commands.
type reader struct {
	buf  *bufio.Reader
	args []string
}

func newReader(r io.Reader) *reader {
	return &reader{buf: bufio.NewReaderSize(r, readBuffer)}
}

// command reads a command: an array of bulk strings, or a line of words. An empty line is a command
// without arguments. What it returns is valid until the next call.
func (r *reader) command() ([]string, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	r.args = r.args[:0]
	if !strings.HasPrefix(line, "*") {
		// Lines are for people at a terminal. What looks otherwise is another protocol, such as TLS, and its next
		// line must not become a command.
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }) {
			return nil, protocolError("unprintable characters in a line of words")
		}
		words := strings.Fields(line)
		if len(words) > maxArgs {
			return nil, protocolError("too many arguments")
		}
		return append(r.args, words...), nil
	}
	count, ok := length(line[1:], maxArgs)
	if !ok {
		return nil, protocolError("invalid multibulk length")
	}
	for range count {
		arg, err := r.bulk()
		if err != nil {
			return nil, err
		}
		r.args = append(r.args, arg)
	}
	return r.args, nil
}

func (r *reader) bulk() (string, error) {
	line, err := r.line()
	if err != nil {
		return "", unexpected(err)
	}
	if !strings.HasPrefix(line, "$") {
		return "", protocolError("expected '$'")
	}
	n, ok := length(line[1:], maxArg)
	if !ok {
		return "", protocolError("invalid bulk length")
	}
	var text [maxArg + 2]byte
	if _, err := io.ReadFull(r.buf, text[:n+2]); err != nil {
		return "", unexpected(err)
	}
	if string(text[n:n+2]) != "\r\n" {
		return "", protocolError("a bulk string does not end with its length")
	}
	return string(text[:n]), nil
}

// line reads a line without its end.
func (r *reader) line() (string, error) {
	line, err := r.buf.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || len(line) > maxLine:
		return "", protocolError("too big request")
	case err != nil && len(line) > 0:
		return "", unexpected(err)
	case err != nil:
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
}

// length reads a length from 0 to most. Redis sends -1 for an array that is null; as a command it is
// empty, but clients send neither.
func length(text string, most int) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n <= most && text[0] != '+'
}

// unexpected is the error of a connection that ends within a command.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
