package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// keyText returns a primary key as the lists of the merge name it, by the columns of the target: the number
// of an integer, and otherwise a JSON array. In the array 0n stands for NULL, 0x is before the digits of
// bytes, and 0t before those of a text that is not UTF-8 or begins like one of these marks. A hash stands for
// the end of a long key. If exact, a value counts as what SQLite stores it as.
func keyText(values []any, columns []*column, exact bool) string {
	parts := make([]string, len(values))
	for i, v := range values {
		c, text := columns[i], textOf(v)
		_, binary := v.([]byte)
		switch {
		case v == nil:
			parts[i] = "0n"
		case integer(v, c, exact):
			if parts[i] = text; len(values) == 1 {
				return text
			}
		case binary && (exact || c.class == classBytes):
			parts[i] = "0x" + hex.EncodeToString([]byte(text))
		case !utf8.ValidString(text) || marked(text):
			parts[i] = "0t" + hex.EncodeToString([]byte(text))
		case c.class == classUUID && !exact:
			parts[i] = strings.ToLower(text)
		case c.class == classNumber && !exact && strings.Contains(text, "."):
			parts[i] = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		default:
			parts[i] = text
		}
	}
	list, err := json.Marshal(parts)
	if err != nil {
		return strings.Join(parts, "|")
	}
	return shortened(string(list))
}

// integer reports whether a value is a whole number by its column, and not only a decimal without a fraction.
func integer(v any, c *column, exact bool) bool {
	decimal := strings.Contains(c.declared, "dec") || strings.Contains(c.declared, "num")
	switch v.(type) {
	case int64, uint64:
		return exact && c.class != classText || !exact && c.class == classNumber && !decimal
	case []byte, string:
		return !exact && c.class == classNumber && !decimal && !strings.Contains(textOf(v), ".")
	}
	return false
}

// marked reports whether a text begins like one of the marks.
func marked(text string) bool {
	return len(text) > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 't' || text[1] == 'n')
}

func shortened(text string) string {
	const most, kept = 400, 60
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return string([]rune(text)[:kept]) + "#" + hex.EncodeToString(sum[:])
}

// keyValue returns the value of a key of one column that a list names.
func keyValue(text string) any {
	var parts []string
	if err := json.Unmarshal([]byte(text), &parts); err != nil || len(parts) != 1 {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		return text
	}
	if !marked(parts[0]) {
		return parts[0]
	}
	raw, err := hex.DecodeString(parts[0][2:])
	switch {
	case parts[0] == "0n":
		return nil
	case err != nil:
		return parts[0]
	case parts[0][1] == 'x':
		return raw
	}
	return string(raw)
}
