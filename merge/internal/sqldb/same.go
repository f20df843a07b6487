package sqldb

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Same reports whether a column has given back the value that was written to it. Databases write numbers,
// JSON and UUIDs in forms of their own, and that is no difference.
func Same(wrote, got any, c *Column, raw bool) bool {
	if wrote == nil || got == nil {
		return wrote == nil && got == nil
	}
	a, b := Text(wrote), Text(got)
	if a == b && (!raw || isBytes(wrote) == isBytes(got)) {
		return true
	}
	if raw {
		return isNumber(wrote) && isNumber(got) && sameNumber(a, b)
	}
	switch c.Family {
	case FamilyInt, FamilyBool, FamilyDecimal:
		n, err := Integer(got)
		return sameNumber(a, b) || err == nil && Text(n) == a
	case FamilyFloat:
		x, err := strconv.ParseFloat(a, 64)
		y, wrong := strconv.ParseFloat(b, 64)
		return err == nil && wrong == nil && (x == y || math.IsNaN(x) && math.IsNaN(y))
	case FamilyTime, FamilyDate, FamilyClock:
		read, err := Canonical(got, c, false)
		return err == nil && trimZeros(Text(read)) == trimZeros(a)
	case FamilyUUID:
		return strings.EqualFold(a, b)
	case FamilyJSON:
		x, err := parseJSON(a)
		y, wrong := parseJSON(b)
		return err == nil && wrong == nil && sameJSON(x, y)
	case FamilyOther:
		return true // the column has a form that only its database knows
	}
	return false
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, uint64, float64:
		return true
	}
	return false
}

// sameNumber compares two numbers by their value. A number with an exponent of more digits than this is only
// equal to itself, because its digits would fill the memory.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	const maxExponent = 4
	for _, text := range []string{a, b} {
		if at := strings.IndexAny(text, "eE"); at >= 0 && len(text)-at > maxExponent+1 {
			return false
		}
	}
	x, ok := new(big.Rat).SetString(a)
	y, fine := new(big.Rat).SetString(b)
	return ok && fine && x.Cmp(y) == 0
}

func parseJSON(text string) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	return v, d.Decode(&v)
}

func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && sameNumber(a.String(), n.String())
	case []any:
		list, ok := b.([]any)
		if !ok || len(a) != len(list) {
			return false
		}
		for i := range a {
			if !sameJSON(a[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := b.(map[string]any)
		if !ok || len(a) != len(object) {
			return false
		}
		for name, v := range a {
			other, found := object[name]
			if !found || !sameJSON(v, other) {
				return false
			}
		}
		return true
	}
	return a == b
}
