package merge

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
)

// copyRows is rows as COPY reads them. They are put into that form while the server is at work on those
// before them.
type copyRows struct {
	rows   [][]any
	add    func(b []byte, values []any) []byte // appends a row
	end    string                              // what follows the last row
	buffer []byte
	read   int // how much of buffer
}

// copyBuffer is how much there is at a time: as much as the driver sends at once.
const copyBuffer = 64 << 10

// copyIn sends rows by COPY, if the driver can.
func (w *writer) copyIn(ctx context.Context, rows [][]any) (bool, error) {
	text := "COPY " + w.table + " (" + w.d.kind.list(namesOf(w.columns)) + ") FROM STDIN"
	in := &copyRows{rows: rows, add: newTextRow(w.columns).append}
	// The server takes binary values faster. They have to be of exactly its types, else it is to say itself
	// what is wrong with the text.
	if r := newBinaryRow(w.columns); r != nil && r.takes(rows) {
		text += " (FORMAT binary)"
		in.buffer, in.add, in.end = []byte(binaryHead), r.append, binaryEnd
	}
	_, err := w.d.copyFrom(ctx, in, text)
	if errors.Is(err, errNoCopy) {
		return false, nil
	}
	return true, err
}

// Read is that of an io.Reader.
func (r *copyRows) Read(p []byte) (int, error) {
	if r.read == len(r.buffer) {
		r.buffer, r.read = r.buffer[:0], 0
	}
	for len(r.rows) > 0 && len(r.buffer) < copyBuffer {
		r.buffer = r.add(r.buffer, r.rows[0])
		if r.rows = r.rows[1:]; len(r.rows) == 0 {
			r.buffer = append(r.buffer, r.end...)
		}
	}
	if r.read == len(r.buffer) {
		return 0, io.EOF
	}
	n := copy(p, r.buffer[r.read:])
	r.read += n
	return n, nil
}

// textRow is the text form of rows.
type textRow struct {
	columns []*column
	zoned   []bool
}

func newTextRow(columns []*column) *textRow {
	r := &textRow{columns: columns, zoned: make([]bool, len(columns))}
	for i, c := range columns {
		r.zoned[i] = c.zoned()
	}
	return r
}

func (r *textRow) append(b []byte, values []any) []byte {
	for i, v := range values {
		if i > 0 {
			b = append(b, '\t')
		}
		switch v := v.(type) {
		case nil:
			b = append(b, `\N`...)
			continue
		case int64:
			if r.columns[i].family == familyInt {
				b = strconv.AppendInt(b, v, 10)
				continue
			}
		case []byte:
			if r.columns[i].family == familyBytes {
				b = hex.AppendEncode(append(b, `\\x`...), v)
				continue
			}
		case string:
			if r.columns[i].family != familyBytes && !r.zoned[i] {
				b = appendEscaped(b, v)
				continue
			}
		}
		b = appendEscaped(b, postgresText(v, r.columns[i]))
	}
	return append(b, '\n')
}

// appendEscaped appends a text as COPY reads it.
func appendEscaped(b []byte, text string) []byte {
	from := 0
	for i := range len(text) {
		var letter byte
		switch text[i] {
		case '\\':
			letter = '\\'
		case '\t':
			letter = 't'
		case '\n':
			letter = 'n'
		case '\r':
			letter = 'r'
		default:
			continue
		}
		b = append(append(b, text[from:i]...), '\\', letter)
		from = i + 1
	}
	return append(b, text[from:]...)
}
