package merge

import (
	"strconv"
	"strings"
)

// Kind is a kind of database.
type Kind string

// The kinds of databases. MySQL stands for MariaDB too.
const (
	SQLite     Kind = "sqlite"
	MySQL      Kind = "mysql"
	PostgreSQL Kind = "postgres"
)

// quote makes an identifier of a name.
func (k Kind) quote(name string) string {
	if k == MySQL {
		return "`" + strings.ReplaceAll(name, "`", "``") + "`"
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// list makes a list of identifiers of names.
func (k Kind) list(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = k.quote(name)
	}
	return strings.Join(quoted, ", ")
}

// maxParams is how many values one statement may bind.
func (k Kind) maxParams() int {
	if k == SQLite {
		return 32_000
	}
	return 65_000
}

// statement is SQL under construction: text, and values that are bound and never part of the text.
type statement struct {
	kind Kind
	text strings.Builder
	args []any
}

func newStatement(k Kind, text ...string) *statement {
	s := &statement{kind: k}
	return s.add(text...)
}

// add appends text as it is.
func (s *statement) add(text ...string) *statement {
	for _, t := range text {
		s.text.WriteString(t)
	}
	return s
}

// bind appends a placeholder and its value.
func (s *statement) bind(v any) *statement {
	s.args = append(s.args, v)
	s.text.WriteString(placeholder(s.kind, len(s.args)))
	return s
}

// bindList appends placeholders with commas between them.
func (s *statement) bindList(values ...any) *statement {
	for i, v := range values {
		if i > 0 {
			s.add(", ")
		}
		s.bind(v)
	}
	return s
}

func (s *statement) String() string { return s.text.String() }

func placeholder(k Kind, n int) string {
	if k == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// literal writes a key as text, for the statements that cannot bind: COPY of PostgreSQL.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		return "'" + strings.ReplaceAll(strings.ReplaceAll(textOf(v), "\x00", ""), "'", "''") + "'"
	}
}
