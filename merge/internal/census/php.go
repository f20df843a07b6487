package census

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// php is how the documents begin that serialize() of PHP writes.
var php = regexp.MustCompile(`^(a:[0-9]+:\{|O:[0-9]+:")`)

// unserializer reads a document of PHP, or the beginning of one.
type unserializer struct {
	text string // what is left
	all  []Value
}

// next returns the text before an end, and leaves what is behind it: nothing if the end was cut off.
func (u *unserializer) next(end string) (text string) {
	text, u.text, _ = strings.Cut(u.text, end)
	return text
}

// scalar reads a value, or the beginning of one that has members.
func (u *unserializer) scalar() (value any, members bool) {
	kind := u.text[:min(2, len(u.text))]
	u.text = u.text[len(kind):]
	switch kind {
	case "i:", "b:", "d:":
		return json.Number(u.next(";")), false
	case "s:":
		n, err := strconv.Atoi(u.next(`:"`))
		if err != nil || n < 0 || n > len(u.text)-2 {
			break
		}
		value, u.text = u.text[:n], u.text[n+2:]
		return value, false
	case "a:", "O:":
		u.next(":{")
		return nil, true
	case "N;":
		return nil, false
	}
	u.text = ""
	return nil, false
}

// walk adds the values in the next value to those that are known. What has a number in an array stands at
// that number, too, since the rows of a table are such arrays.
func (u *unserializer) walk(path, member string) {
	value, members := u.scalar()
	if !members {
		u.all = append(u.all, Value{path, member, value})
		return
	}
	for u.text != "" && u.text[0] != '}' {
		key, _ := u.scalar()
		inner, name, before := path+"[*]", member, len(u.all)
		_, number := key.(json.Number)
		if number {
			u.all = append(u.all, Value{namesOf + path, member, key})
			before++
		} else {
			name = fmt.Sprint(key)
			inner = path + "." + name
		}
		u.walk(inner, name)
		if number && len(u.all) > before && u.all[before].Path == inner {
			u.all = append(u.all, Value{fmt.Sprintf("%s[%v]", path, key), member, u.all[before].Value})
		}
	}
	u.text = strings.TrimPrefix(u.text, "}")
}
