package web

import (
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// How many bytes an ID takes at most, and what is around all of them.
const (
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
