package sqldb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// The frame of the binary format, written down once more from the manual of PostgreSQL.
var (
	copyHead = append([]byte("PGCOPY\n\xff\r\n\x00"), 0, 0, 0, 0, 0, 0, 0, 0)
	copyEnd  = []byte{0xff, 0xff}
)

// copyRow encodes a row; a nil value is NULL.
func copyRow(values ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	}
	return b
}

// copiedRows are rows with a key of three whole numbers, and what makes a parser stumble: NULLs, empty values,
// long ones, and such as look like the end of everything.
func copiedRows(n int) (rows [][]byte, keys [][]any) {
	for i := range int64(n) {
		big := binary.BigEndian.AppendUint64(nil, uint64(-i))
		middle := binary.BigEndian.AppendUint32(nil, uint32(-1-i))
		small := binary.BigEndian.AppendUint16(nil, uint16(i))
		value := [][]byte{nil, {}, copyEnd, copyHead, []byte(strings.Repeat("x", int(i)*37)), {0xff, 0xff, 0xff, 0xff}}
		rows = append(rows, copyRow(small, value[i%6], middle, value[(i+1)%6], big))
		keys = append(keys, []any{-i, i, -1 - i})
	}
	return rows, keys
}

func TestAStreamOfCopyIsCutBetweenRowsHoweverItArrives(t *testing.T) {
	t.Parallel()
	rows, keys := copiedRows(40)
	stream := slices.Concat(copyHead, bytes.Join(rows, nil), copyEnd)
	ways := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
		"by halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
	}
	for way, arrives := range ways {
		for size := 1; size <= len(rows)+1; size++ {
			for _, room := range []int{4, 5, 64, 65531} {
				c := sqldb.NewCopyCutter(arrives(bytes.NewReader(stream)), []int{4, 0, 2})
				if key, err := c.Last(); key != nil || err != nil {
					t.Fatal("there is a key before the first row", key, err)
				}
				for from := 0; !c.Ended(); from += size {
					to := min(from+size, len(rows))
					got, err := readBy(c.Part(size), room)
					want := slices.Concat(copyHead, bytes.Join(rows[from:to], nil), copyEnd)
					if err != nil || !bytes.Equal(got, want) {
						t.Fatalf("%s: rows %d to %d of %d bytes at a time are\n%x, not\n%x: %v",
							way, from, to, room, got, want, err)
					}
					if key, err := c.Last(); err != nil || !slices.Equal(key, keys[to-1]) {
						t.Fatalf("%s: the key of row %d is %v, not %v: %v", way, to-1, key, keys[to-1], err)
					}
					if full := from+size <= len(rows); c.Ended() == full {
						t.Fatalf("%s: after rows %d to %d it has ended: %t", way, from, to, c.Ended())
					}
				}
			}
		}
	}
}

func readBy(from io.Reader, room int) (all []byte, err error) {
	b := make([]byte, room)
	for {
		n, err := from.Read(b)
		all = append(all, b[:n]...)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

func TestAStreamOfCopyThatBreaksOffIsAnError(t *testing.T) {
	t.Parallel()
	rows, _ := copiedRows(7)
	stream := slices.Concat(copyHead, bytes.Join(rows, nil), copyEnd)
	for size := range stream {
		c := sqldb.NewCopyCutter(bytes.NewReader(stream[:size]), []int{0})
		if _, err := io.ReadAll(c.Part(100)); err == nil || c.Ended() {
			t.Fatalf("%d of %d bytes were taken for all", size, len(stream))
		}
	}
	broken := errors.New("broken")
	c := sqldb.NewCopyCutter(io.MultiReader(bytes.NewReader(stream[:100]), iotest.ErrReader(broken)), []int{0})
	if _, err := io.ReadAll(c.Part(100)); !errors.Is(err, broken) {
		t.Errorf("the error of the source is lost: %v", err)
	}
	stream[3] = 'X'
	if _, err := io.ReadAll(sqldb.NewCopyCutter(bytes.NewReader(stream), []int{0}).Part(1)); err == nil {
		t.Error("another format is accepted")
	}
}

// FuzzACutStreamOfCopyNeverLosesAByte cuts anything that follows the head of a stream.
func FuzzACutStreamOfCopyNeverLosesAByte(f *testing.F) {
	rows, _ := copiedRows(9)
	f.Add(slices.Concat(bytes.Join(rows, nil), copyEnd), uint8(2))
	f.Add(copyRow(), uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, size uint8) {
		stream := slices.Concat(copyHead, body)
		c := sqldb.NewCopyCutter(bytes.NewReader(stream), []int{0, 3})
		var all []byte
		for parts := 0; !c.Ended(); parts++ {
			part, err := io.ReadAll(c.Part(int(size) + 1))
			if err != nil {
				return
			}
			part, framed := bytes.CutPrefix(part, copyHead)
			part, ended := bytes.CutSuffix(part, copyEnd)
			if !framed || !ended {
				t.Fatal("a part has no frame")
			}
			all = append(all, part...)
			if key, err := c.Last(); err == nil && key != nil && len(key) != 2 {
				t.Fatalf("the key is %v", key)
			}
		}
		if !bytes.HasPrefix(body, slices.Concat(all, copyEnd)) {
			t.Fatalf("%x became %x", body, all)
		}
	})
}
