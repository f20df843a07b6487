// Package sqldb reads and writes databases of every kind that can be merged: SQLite, MySQL or MariaDB, and
// PostgreSQL. It holds their kinds and connections, their catalogs, the conversion of values, cursors, and
// writers with their bulk copies.
//
// It works on database/sql and imports no driver. It knows nothing of plans and policies: those are the
// subject of package merge.
package sqldb

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

// Quote returns a name as a quoted identifier.
func (k Kind) Quote(name string) string {
	if k == MySQL {
		return "`" + strings.ReplaceAll(name, "`", "``") + "`"
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// QuoteAll returns the quoted names with commas between them.
func (k Kind) QuoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = k.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// maxParams returns how many values one statement may bind.
func (k Kind) maxParams() int {
	if k == SQLite {
		return 32_000
	}
	return 65_000
}

// Statement is SQL under construction: its text and the values that it binds. A value never becomes part
// of the text.
type Statement struct {
	kind Kind
	text strings.Builder
	args []any
}

// NewStatement returns a statement that begins with the given text.
func NewStatement(k Kind, text ...string) *Statement {
	s := &Statement{kind: k}
	return s.Add(text...)
}

// Add appends text as it is.
func (s *Statement) Add(text ...string) *Statement {
	for _, t := range text {
		s.text.WriteString(t)
	}
	return s
}

// Bind appends a placeholder and its value.
func (s *Statement) Bind(v any) *Statement {
	s.args = append(s.args, v)
	s.text.WriteString(placeholder(s.kind, len(s.args)))
	return s
}

// Text appends a placeholder for a text where nothing else says its type to PostgreSQL.
func (s *Statement) Text(v string) *Statement {
	if s.Bind(v); s.kind == PostgreSQL {
		s.Add("::text")
	}
	return s
}

// BindAll appends placeholders with commas between them, and their values.
func (s *Statement) BindAll(values ...any) *Statement {
	for i, v := range values {
		if i > 0 {
			s.Add(", ")
		}
		s.Bind(v)
	}
	return s
}

// In appends the condition that what stands before it is one of several texts.
func (s *Statement) In(texts []string) *Statement {
	if s.kind == PostgreSQL {
		// One value of an array takes the server a fraction of the time that thousands of values take.
		escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
		var b strings.Builder
		for i, text := range texts {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"` + escape.Replace(text) + `"`)
		}
		return s.Add(" = ANY (CAST(").Bind("{" + b.String() + "}").Add(" AS text[]))")
	}
	s.Add(" IN (")
	for i, text := range texts {
		if i > 0 {
			s.Add(", ")
		}
		s.Bind(text)
	}
	return s.Add(")")
}

// String returns the text of the statement, with placeholders.
func (s *Statement) String() string { return s.text.String() }

func placeholder(k Kind, n int) string {
	if k == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}
