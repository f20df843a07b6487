package verify

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// far are values of a reference of one whole number that the own server of a row does not decide about.
type far struct {
	there []map[int64]bool // by server: they lead to a row that only another server has
	gone  []map[int64]bool // by server: they lead to no row of a table that the plan skips
	any   map[int64]bool   // those of there, of all servers
}

// in returns the condition that a value is one of some, or "" if there are none.
func in(value string, some map[int64]bool) string {
	var texts []string
	for _, n := range slices.Sorted(maps.Keys(some)) {
		texts = append(texts, strconv.FormatInt(n, 10))
	}
	if len(texts) == 0 {
		return ""
	}
	return value + " IN (" + strings.Join(texts, ", ") + ")"
}

// at returns the values for one server, which may be the target, or nil.
func at(all []map[int64]bool, server int) map[int64]bool {
	if server < 0 || server >= len(all) {
		return nil
	}
	return all[server]
}

// leadsFar reports whether a row refers to a row that only another server has. Beside it, that server does
// not show what is in it.
func (r reference) leadsFar(value any) bool {
	if len(r.far.any) == 0 {
		return false
	}
	n, err := strconv.ParseInt(plainNumber(textOf(value)), 10, 64)
	return err == nil && r.far.any[n]
}
