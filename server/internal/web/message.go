package web

import (
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// How many bytes an ID takes at most, and what is around all of them.
const (
	maxJSON  = 22 // 19 digits, two quotes and a comma
	maxProto = 10
	envelope = 32
)

// The numbers of the fields of the messages.
const (
	fieldCount  = 1
	fieldSource = 2
	fieldIDs    = 1
)

// unset is the count of a request that does not say one.
const unset = 1

// parseJSON reads a request in its usual form. It returns false for everything else, right or wrong.
func parseJSON(text []byte) (count int64, source string, ok bool) {
	count = unset
	p := jsonReader{text}
	if !p.take('{') {
		return 0, "", false
	}
	var hasCount, hasSource bool
	if p.take('}') {
		return count, "", p.ended()
	}
	for {
		name, ok := p.plain()
		if !ok || !p.take(':') {
			return 0, "", false
		}
		switch {
		case string(name) == "count" && !hasCount:
			hasCount = true
			if count, ok = p.integer(); !ok {
				return 0, "", false
			}
		case string(name) == "source" && !hasSource:
			hasSource = true
			value, ok := p.plain()
			if !ok {
				return 0, "", false
			}
			source = string(value)
		default:
			return 0, "", false
		}
		if p.take('}') {
			return count, source, p.ended()
		}
		if !p.take(',') {
			return 0, "", false
		}
	}
}

// jsonReader reads the part of JSON that plain requests have.
type jsonReader struct{ rest []byte }

func (p *jsonReader) skip() {
	for len(p.rest) > 0 {
		switch p.rest[0] {
		case ' ', '\t', '\r', '\n':
			p.rest = p.rest[1:]
		default:
			return
		}
	}
}

func (p *jsonReader) take(c byte) bool {
	p.skip()
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *jsonReader) ended() bool {
	p.skip()
	return len(p.rest) == 0
}

// plain reads a text of printable ASCII without escapes.
func (p *jsonReader) plain() ([]byte, bool) {
	if !p.take('"') {
		return nil, false
	}
	for i, c := range p.rest {
		switch {
		case c == '"':
			text := p.rest[:i]
			p.rest = p.rest[i+1:]
			return text, true
		case c == '\\' || c < ' ' || c > '~':
			return nil, false
		}
	}
	return nil, false
}

// integer reads an integer of 32 bits without an exponent.
func (p *jsonReader) integer() (int64, bool) {
	p.skip()
	end := 0
	for end < len(p.rest) && (p.rest[end] == '-' || '0' <= p.rest[end] && p.rest[end] <= '9') {
		end++
	}
	text := p.rest[:end]
	p.rest = p.rest[end:]
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil {
		return 0, false
	}
	// JSON has no leading zeros, and whoever sends -0 may ask Connect what that is.
	if digits := text; digits[0] == '0' && len(digits) > 1 || digits[0] == '-' && digits[1] == '0' {
		return 0, false
	}
	return n, true
}

// parseProto reads a request in its usual form. It returns false for everything else, right or wrong.
func parseProto(text []byte) (count int64, source string, ok bool) {
	count = unset
	for len(text) > 0 {
		field, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return 0, "", false
		}
		text = text[n:]
		switch {
		case field == fieldCount && kind == protowire.VarintType:
			value, n := protowire.ConsumeVarint(text)
			if n < 0 || value > math.MaxInt32 {
				return 0, "", false
			}
			count, text = int64(value), text[n:]
		case field == fieldSource && kind == protowire.BytesType:
			value, n := protowire.ConsumeBytes(text)
			if n < 0 || !utf8.Valid(value) {
				return 0, "", false
			}
			source, text = string(value), text[n:]
		default:
			return 0, "", false
		}
	}
	return count, source, true
}

// appendJSON writes an answer as protojson does.
func appendJSON(text []byte, ids []int64) []byte {
	text = append(text, `{"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = strconv.AppendInt(text, id, 10)
		text = append(text, '"')
	}
	return append(text, `]}`...)
}

// appendProto writes an answer as proto does.
func appendProto(text []byte, ids []int64) []byte {
	size := 0
	for _, id := range ids {
		size += protowire.SizeVarint(uint64(id)) //nolint:gosec // it is how a negative number is written, too
	}
	text = protowire.AppendTag(text, fieldIDs, protowire.BytesType)
	text = protowire.AppendVarint(text, uint64(size)) //nolint:gosec // it is positive
	for _, id := range ids {
		text = protowire.AppendVarint(text, uint64(id)) //nolint:gosec // as above
	}
	return text
}
