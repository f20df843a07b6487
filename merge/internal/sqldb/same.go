package sqldb

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
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
	if strings.HasPrefix(c.Declared, "set(") { // Its members are shown in the order of the column.
		return sameMembers(a, b)
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

func sameMembers(a, b string) bool {
	left, right := strings.Split(a, ","), strings.Split(b, ",")
	slices.Sort(left)
	slices.Sort(right)
	return slices.Equal(left, right)
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

// parseJSON reads a document. An object is the list of values of each name, because a text may repeat a name.
func parseJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := parseValue(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errAfterJSON
	}
	return v, nil
}

var errAfterJSON = errors.New("something follows the document")

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	delimiter, opens := token.(json.Delim)
	if err != nil || !opens {
		return token, err
	}
	var list []any
	object := map[string][]any{}
	for d.More() {
		var name json.Token
		if delimiter == '{' {
			if name, err = d.Token(); err != nil {
				return nil, err
			}
		}
		v, err := parseValue(d)
		if err != nil {
			return nil, err
		}
		if text, named := name.(string); named {
			object[text] = append(object[text], v)
		} else {
			list = append(list, v)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if delimiter == '{' {
		return object, nil
	}
	return list, nil
}

func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		n, ok := b.(json.Number)
		return ok && sameNumber(a.String(), n.String())
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, sameJSON)
	case map[string][]any:
		object, ok := b.(map[string][]any)
		return ok && maps.EqualFunc(a, object, func(x, y []any) bool { return slices.EqualFunc(x, y, sameJSON) })
	}
	if _, ok := b.([]any); ok {
		return false
	}
	if _, ok := b.(map[string][]any); ok {
		return false
	}
	return a == b
}
