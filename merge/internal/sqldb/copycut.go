package sqldb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// CopyCutter cuts what COPY TO sends in the binary format into parts, between rows. Each part can go to a
// COPY FROM of its own. It also tells the key of the last row of a part, which must consist of whole numbers.
//
// Source of the format: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format".
type CopyCutter struct {
	in     *bufio.Reader
	begun  bool
	ended  bool
	fields int // how many fields of the row are still to come
	field  int // the next one, or the one that is read
	rest   int // how many bytes of its value are still to come
	key    []int
	values [][]byte // those of the key in the last row, at the numbers of their fields; the others are nil
	rows   int      // how many there were
}

// NewCopyCutter returns a cutter. key has the numbers of the fields of the key, from 0.
func NewCopyCutter(from io.Reader, key []int) *CopyCutter {
	c := &CopyCutter{in: bufio.NewReaderSize(from, 256<<10), key: key}
	for _, field := range key {
		c.values = append(c.values, make([][]byte, max(0, field+1-len(c.values)))...)
		c.values[field] = make([]byte, 0, 8)
	}
	return c
}

// errCopyFormat says that the server sent something else than the format has.
var errCopyFormat = errors.New("merge: COPY did not send its binary format")

// Ended reports whether all rows were read.
func (c *CopyCutter) Ended() bool { return c.ended }

// Last returns the key of the last row that was read. It is nil if there was none.
func (c *CopyCutter) Last() ([]any, error) {
	if c.rows == 0 {
		return nil, nil
	}
	key := make([]any, len(c.key))
	for i, field := range c.key {
		switch value := c.values[field]; len(value) {
		case 2:
			key[i] = int64(int16(binary.BigEndian.Uint16(value))) //nolint:gosec // the sign is part of it
		case 4:
			key[i] = int64(int32(binary.BigEndian.Uint32(value))) //nolint:gosec // the sign is part of it
		case 8:
			key[i] = int64(binary.BigEndian.Uint64(value)) //nolint:gosec // the sign is part of it
		default:
			return nil, errCopyFormat
		}
	}
	return key, nil
}

// Part returns a reader of the next rows, at most so many, with the frame that COPY FROM needs. It must be
// read to its end before the next part.
func (c *CopyCutter) Part(rows int) io.Reader {
	return &copyPart{from: c, rows: rows, frame: []byte(binaryHead)}
}

// copyPart is a part of what a cutter reads.
type copyPart struct {
	from  *CopyCutter
	rows  int    // how many may still come
	frame []byte // what comes before anything else
	over  bool
}

// Read implements io.Reader.
func (p *copyPart) Read(to []byte) (int, error) {
	for {
		switch {
		case len(p.frame) > 0:
			n := copy(to, p.frame)
			p.frame = p.frame[n:]
			return n, nil
		case p.over:
			return 0, io.EOF
		}
		n, rows, err := p.from.read(to, p.rows)
		if p.rows -= rows; p.rows == 0 || p.from.ended {
			p.frame, p.over = []byte(binaryEnd), true
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// read copies the bytes of at most so many rows. It returns how many bytes it copied, and how many rows ended
// in them.
func (c *CopyCutter) read(to []byte, rows int) (n, ended int, err error) {
	if !c.begun {
		head := make([]byte, len(binaryHead))
		if _, err := io.ReadFull(c.in, head); err != nil {
			return 0, 0, cutShort(err)
		}
		if string(head) != binaryHead {
			return 0, 0, errCopyFormat
		}
		c.begun = true
	}
	if len(to) < 4 {
		return 0, 0, io.ErrShortBuffer // a number would not fit
	}
	if _, err := c.in.Peek(c.needed()); err != nil {
		return 0, 0, cutShort(err)
	}
	b, err := c.in.Peek(min(c.in.Buffered(), len(to)))
	if err != nil {
		return 0, 0, err
	}
	n, ended, err = c.walk(b, rows)
	copy(to, b[:n])
	if _, err := c.in.Discard(n); err != nil {
		return 0, 0, err
	}
	if c.ended {
		_, err = c.in.Discard(len(binaryEnd))
	}
	return n, ended, err
}

// needed returns how many bytes must be there to go on.
func (c *CopyCutter) needed() int {
	switch {
	case c.rest > 0:
		return 1
	case c.fields > 0:
		return 4
	}
	return 2
}

// walk goes over bytes until these end, or the rows do, or a number is not there as a whole.
func (c *CopyCutter) walk(b []byte, rows int) (n, ended int, err error) {
	for ended < rows && len(b)-n >= c.needed() {
		switch {
		case c.rest > 0:
			size := min(c.rest, len(b)-n)
			if c.inKey() {
				c.values[c.field] = append(c.values[c.field], b[n:n+size]...)
			}
			n += size
			if c.rest -= size; c.rest > 0 {
				continue
			}
		case c.fields > 0:
			size := binary.BigEndian.Uint32(b[n:])
			n += 4
			if c.inKey() {
				c.values[c.field] = c.values[c.field][:0]
			}
			switch {
			case size == math.MaxUint32: // NULL
			case size > math.MaxInt32:
				return n, ended, errCopyFormat
			case size > 0:
				c.rest = int(size)
				continue
			}
		default:
			count := binary.BigEndian.Uint16(b[n:])
			if count == math.MaxUint16 {
				c.ended = true
				return n, ended, nil
			}
			n += 2
			if c.fields, c.field = int(count), 0; count > 0 {
				continue
			}
			c.fields = 1 // a row without columns ends here
		}
		c.field++
		if c.fields--; c.fields == 0 {
			ended++
			c.rows++
		}
	}
	return n, ended, nil
}

// inKey reports whether the field is one of the key.
func (c *CopyCutter) inKey() bool { return c.field < len(c.values) && c.values[c.field] != nil }

// cutShort is an error of reading in the middle of the rows.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
