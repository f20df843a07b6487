package sqldb

import (
	"bytes"
	"context"
	"io"
	"strings"
)

// A Pack is rows in the binary format of COPY. It is one piece of memory without pointers, so the garbage
// collector need not look at the values of the rows.
type Pack struct {
	row  *binaryRow
	data []byte
	rows int
}

// NewPack returns a pack for the rows of a writer. It is nil if the target has no COPY, or if the binary
// format of a column is not known.
func (w *Writer) NewPack() *Pack {
	row := newBinaryRow(w.columns)
	if row == nil || !CanCopy(w.d) {
		return nil
	}
	p := &Pack{row: row}
	p.Reset()
	return p
}

// Reset empties a pack.
func (p *Pack) Reset() { p.data, p.rows = append(p.data[:0], binaryHead...), 0 }

// Rows is how many rows a pack has.
func (p *Pack) Rows() int { return p.rows }

// Add appends a row. It reports false, and leaves the pack as it is, if a value has not exactly the type of
// its column.
func (p *Pack) Add(values []any) bool {
	if !p.row.takes(values) {
		return false
	}
	p.data = p.row.append(p.data, values)
	p.rows++
	return true
}

// WritePack inserts the rows of a pack of [Writer.NewPack].
func (w *Writer) WritePack(ctx context.Context, p *Pack) error {
	if p.rows == 0 {
		return nil
	}
	_, err := CopyFrom(ctx, w.d, io.MultiReader(bytes.NewReader(p.data), strings.NewReader(binaryEnd)),
		w.copyText()+binaryFormat)
	return err
}
