package dialect

import "strings"

// SQL is a statement under construction: its text and the values that it binds. A value never becomes part
// of the text.
type SQL struct {
	Kind Kind
	Args []any
	text strings.Builder
}

// Write returns a statement that begins with the given text.
func Write(k Kind, text ...string) *SQL {
	s := &SQL{Kind: k}
	return s.Add(text...)
}

// Add appends text as it is.
func (s *SQL) Add(text ...string) *SQL {
	for _, t := range text {
		s.text.WriteString(t)
	}
	return s
}

// Bind appends a placeholder and its value.
func (s *SQL) Bind(v any) *SQL {
	s.Args = append(s.Args, v)
	s.text.WriteString(s.Kind.Bind(len(s.Args)))
	return s
}

// Text appends a placeholder for a text where nothing else says its type to PostgreSQL.
func (s *SQL) Text(v string) *SQL {
	if s.Bind(v); s.Kind == PostgreSQL {
		s.Add("::text")
	}
	return s
}

// BindAll appends placeholders with commas between them, and their values.
func (s *SQL) BindAll(values ...any) *SQL {
	for i, v := range values {
		if i > 0 {
			s.Add(", ")
		}
		s.Bind(v)
	}
	return s
}

// In appends the condition that what stands before it is one of several texts.
func (s *SQL) In(texts []string) *SQL {
	if s.Kind == PostgreSQL {
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
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i] = text
	}
	return s.Add(" IN (").BindAll(values...).Add(")")
}

// String returns the text of the statement, with placeholders.
func (s *SQL) String() string { return s.text.String() }
