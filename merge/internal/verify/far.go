package verify

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// far are values of a reference that the own server of a row does not decide about, as statements list them.
type far struct {
	there []string        // by server: they lead to a row that only another server has; "" if there are none
	gone  []string        // by server: they lead to no row of a table that the plan skips
	any   map[string]bool // those of there, of all servers
}

const (
	// farMost is how many of these values there may be, and farBatch how many the target is asked for at once.
	farMost, farBatch = 20_000, 40
)

// listed returns the condition that a row has one of the listed values of a reference, or "" if there are
// none. A value is one text: numbers stay as they are, and of other columns it has the digits of the bytes.
func (r reference) listed(d *database, from *relation, alias string, lists []string, server int) string {
	if server < 0 || server >= len(lists) || lists[server] == "" {
		return ""
	}
	return d.spelled(from, r.columns, alias) + " IN (" + lists[server] + ")"
}

// unspelled returns the values of columns out of the text of [database.spelled]. It returns nil if a number
// is none that a key has.
func unspelled(columns []*column, text string) []any {
	var values []any
	for i, part := range strings.Split(text, ",") {
		if columns[i].class == classNumber {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				return nil
			}
			values = append(values, n)
			continue
		}
		b, err := hex.DecodeString(part)
		switch {
		case err != nil:
			return nil
		case columns[i].class == classBytes:
			values = append(values, b)
		default:
			values = append(values, string(b))
		}
	}
	return values
}

func (r reference) columnsOf(from *relation) (all []*column) {
	for _, name := range r.columns {
		all = append(all, from.column(name))
	}
	return all
}

// key returns the values of a reference in one form for all databases.
func (r reference) key(v *verifier, values []any) string {
	var b []byte
	for i, value := range values {
		b = form{class: v.target.tables[r.parent].column(r.targets[i]).class, digits: -1}.append(b, value)
	}
	return string(b)
}

// holdsKeys reports whether a column is of a type that keys have.
func (c *column) holdsKeys() bool {
	return c.class == classNumber && strings.Contains(c.declared, "int") ||
		c.class == classText || c.class == classBytes || c.class == classUUID
}
