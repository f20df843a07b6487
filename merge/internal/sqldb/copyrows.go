package sqldb

import (
	"encoding/hex"
	"io"
	"strconv"
)

// copyRows is an io.Reader of rows in the text format of COPY. It encodes rows while the server works on
// those before them.
type copyRows struct {
	columns []*Column
	zoned   []bool
	rows    [][]any
	buffer  []byte
	read    int // how much of buffer
}

func newCopyRows(columns []*Column, rows [][]any) *copyRows {
	r := &copyRows{columns: columns, zoned: make([]bool, len(columns)), rows: rows}
	for i, c := range columns {
		r.zoned[i] = c.zoned()
	}
	return r
}

// copyBuffer is how many bytes are encoded at a time: as many as the driver sends at once.
const copyBuffer = 64 << 10

// Read implements io.Reader.
func (r *copyRows) Read(p []byte) (int, error) {
	if r.read == len(r.buffer) {
		r.buffer, r.read = r.buffer[:0], 0
	}
	for len(r.rows) > 0 && len(r.buffer) < copyBuffer {
		r.buffer = r.append(r.buffer, r.rows[0])
		r.rows = r.rows[1:]
	}
	if r.read == len(r.buffer) {
		return 0, io.EOF
	}
	n := copy(p, r.buffer[r.read:])
	r.read += n
	return n, nil
}

// append appends a row.
func (r *copyRows) append(b []byte, values []any) []byte {
	for i, v := range values {
		if i > 0 {
			b = append(b, '\t')
		}
		switch v := v.(type) {
		case nil:
			b = append(b, `\N`...)
			continue
		case int64:
			if r.columns[i].Family == FamilyInt {
				b = strconv.AppendInt(b, v, 10)
				continue
			}
		case []byte:
			if r.columns[i].Family == FamilyBytes {
				b = hex.AppendEncode(append(b, `\\x`...), v)
				continue
			}
		case string:
			if r.columns[i].Family != FamilyBytes && !r.zoned[i] {
				b = appendEscaped(b, v)
				continue
			}
		}
		b = appendEscaped(b, postgresText(v, r.columns[i]))
	}
	return append(b, '\n')
}

// appendEscaped appends a text with the escapes of COPY.
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
