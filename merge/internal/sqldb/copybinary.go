package sqldb

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"time"
)

// The frame of the binary form of COPY.
const (
	binaryHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" // no flags, no extension
	binaryEnd  = "\xff\xff"
	// binaryFormat is the option of COPY.
	binaryFormat = " (FORMAT binary)"
)

// binaryRow encodes rows in the binary format of COPY.
type binaryRow struct{ forms []binaryForm }

// binaryForm is the binary format of one type.
type binaryForm int

const (
	binaryNone binaryForm = iota
	binaryInt2
	binaryInt4
	binaryInt8
	binaryBool
	binaryFloat
	binaryText
	binaryBytes
	binaryJSONB
	binaryUUID
	binaryTime
	binaryDate
)

// binaryFormOf returns the format of a column. Lengths and precisions are checked by the server.
func binaryFormOf(c *Column) binaryForm {
	name, rest, _ := strings.Cut(c.Declared, "(")
	if _, behind, ok := strings.Cut(rest, ")"); ok {
		name += behind
	}
	switch name {
	case "smallint":
		return binaryInt2
	case "integer":
		return binaryInt4
	case "bigint":
		return binaryInt8
	case "boolean":
		return binaryBool
	case "double precision":
		return binaryFloat
	case "text", "character varying", "character", "json":
		return binaryText
	case "bytea":
		return binaryBytes
	case "jsonb":
		return binaryJSONB
	case "uuid":
		return binaryUUID
	case "timestamp with time zone", "timestamp without time zone":
		return binaryTime
	case "date":
		return binaryDate
	}
	return binaryNone
}

// newBinaryRow returns nil if the format of a column is not known.
func newBinaryRow(columns []*Column) *binaryRow {
	r := &binaryRow{forms: make([]binaryForm, len(columns))}
	for i, c := range columns {
		if r.forms[i] = binaryFormOf(c); r.forms[i] == binaryNone {
			return nil
		}
	}
	return r
}

// takesAll reports whether all values of rows can be encoded for their columns.
func (r *binaryRow) takesAll(rows [][]any) bool {
	for _, values := range rows {
		if !r.takes(values) {
			return false
		}
	}
	return true
}

// takes reports whether the values of a row can be encoded for their columns.
func (r *binaryRow) takes(values []any) bool {
	for i, v := range values {
		if v != nil && !r.forms[i].takes(v) {
			return false
		}
	}
	return true
}

func (f binaryForm) takes(v any) bool {
	switch v := v.(type) {
	case int64:
		switch f {
		case binaryInt8:
			return true
		case binaryInt4:
			return int64(int32(v)) == v
		case binaryInt2:
			return int64(int16(v)) == v
		case binaryBool:
			return v == 0 || v == 1
		}
	case string:
		switch f {
		case binaryText, binaryJSONB:
			return true
		case binaryUUID:
			_, ok := uuidOf(v)
			return ok
		case binaryTime:
			_, ok := instantOf(v)
			return ok
		case binaryDate:
			_, ok := instantOf(v)
			return ok && len(v) == len(time.DateOnly)
		}
	case []byte:
		return f == binaryBytes
	case float64:
		return f == binaryFloat
	}
	return false
}

func (r *binaryRow) append(b []byte, values []any) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for i, v := range values {
		if v == nil {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
			continue
		}
		length := len(b)
		b = r.forms[i].append(append(b, 0, 0, 0, 0), v)
		binary.BigEndian.PutUint32(b[length:], uint32(len(b)-length-4))
	}
	return b
}

// append appends a value for which takes is true.
func (f binaryForm) append(b []byte, v any) []byte {
	switch v := v.(type) {
	case int64:
		switch f {
		case binaryInt8:
			return binary.BigEndian.AppendUint64(b, uint64(v))
		case binaryInt4:
			return binary.BigEndian.AppendUint32(b, uint32(v))
		case binaryInt2:
			return binary.BigEndian.AppendUint16(b, uint16(v))
		}
		return append(b, byte(v)) // a boolean
	case string:
		switch f {
		case binaryJSONB:
			b = append(b, 1) // the version of the format
		case binaryUUID:
			id, _ := uuidOf(v)
			return append(b, id[:]...)
		case binaryTime:
			at, _ := instantOf(v)
			return binary.BigEndian.AppendUint64(b, uint64(at))
		case binaryDate:
			at, _ := instantOf(v)
			return binary.BigEndian.AppendUint32(b, uint32(at/(24*time.Hour).Microseconds()))
		}
		return append(b, v...)
	case []byte:
		return append(b, v...)
	case float64:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// uuidOf parses a UUID in its usual form with hyphens.
func uuidOf(text string) (id [16]byte, ok bool) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return id, false
	}
	var digits [32]byte
	n := 0
	for _, part := range [...]string{text[:8], text[9:13], text[14:18], text[19:23], text[24:]} {
		n += copy(digits[n:], part)
	}
	_, err := hex.Decode(id[:], digits[:])
	return id, err == nil
}

// instantOf parses a time or a date in the form of [Canonical] and returns microseconds since the year 2000,
// the epoch of PostgreSQL. It refuses infinity and dates that do not exist; the server judges those as text.
func instantOf(text string) (int64, bool) {
	const shape = "0000-00-00 00:00:00.000000"
	if len(text) > len(shape) || len(text) != 10 && len(text) != 19 && len(text) < 21 {
		return 0, false
	}
	var fields [7]int
	field, digits := 0, 0
	for i := range len(text) {
		c := text[i]
		if shape[i] != '0' {
			if c != shape[i] {
				return 0, false
			}
			field, digits = field+1, 0
			continue
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		fields[field] = fields[field]*10 + int(c-'0')
		digits++
	}
	if field == 6 {
		for ; digits < 6; digits++ {
			fields[6] *= 10
		}
	}
	year, month, day := fields[0], fields[1], fields[2]
	if year == 0 || fields[3] > 23 || fields[4] > 59 || fields[5] > 59 {
		return 0, false
	}
	at := time.Date(year, time.Month(month), day, fields[3], fields[4], fields[5], 0, time.UTC)
	if at.Month() != time.Month(month) || at.Day() != day { // there is no such day
		return 0, false
	}
	const year2000 = 946_684_800
	return (at.Unix()-year2000)*1e6 + int64(fields[6]), true
}
