package authority

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// A column with numbers of counters has a note of its own under the subject "numbers TABLE.COLUMN", in the
// schema of the table: the identity of the store of counters, or, if each of several stores has a remainder
// of its own, their modulus. Then every remainder has a note as well, with the identity of its store, under
// that subject and the residue: "numbers orders.serial 1 mod 2". Each of them is decided by the primary key,
// and the first one decides what the others are.

const subjectNumbers = "numbers "

// idResidues is the authority of a column whose numbers come from several stores.
const idResidues = "several counters"

// Share is the numbers of one store of counters that leave a remainder when they are divided by the modulus.
// The modulus is 1 for all of its numbers.
type Share struct {
	Origin

	Remainder, Modulus int64
}

// External is the origin of numbers of something that has no identity.
func External(source any) Origin {
	return Origin{ID: idExternal, Place: fmt.Sprintf("a store or a source of type %T", source)}
}

// Counted is the origin of numbers of a counter in a store that has an identity.
func Counted(id, counter, place string) Origin {
	return Origin{ID: id, Place: fmt.Sprintf("%s%q, %s", counterMark, counter, place)}
}

// counterMark begins the place of numbers of a counter.
const counterMark = "counter "

// counter returns the counter that a place names, if it names one.
func (o Origin) counter() (name string, is bool) {
	text, is := strings.CutPrefix(o.Place, counterMark)
	quoted, err := strconv.QuotedPrefix(text)
	if !is || err != nil {
		return "", false
	}
	name, err = strconv.Unquote(quoted)
	return name, err == nil
}

// Numbered is a column and where its numbers come from.
type Numbered struct {
	Column string
	Shares []Share // all have one modulus
	// Field and Source are what the program calls the column and where its numbers come from.
	Field, Source string
	// Unique means that no two rows may have one number. Then all come from one counter of the store.
	Unique bool
}

// numbersNote is a row of the table, as it should be.
type numbersNote struct {
	subject string
	residue string // which of the numbers of the column it is about, for messages
	origin  Origin
}

// notes are the rows of a column, in the order in which they are written.
func (n Numbered) notes(table string) (notes []numbersNote) {
	subject := subjectOf(table, n.Column)
	for i, share := range n.Shares {
		if share.Modulus == 1 {
			return []numbersNote{{subject, "", share.Origin}}
		}
		if i == 0 {
			residues := Origin{ID: idResidues, Layout: fmt.Sprintf("mod %d", share.Modulus)}
			notes = append(notes, numbersNote{subject, "", residues})
		}
		residue := fmt.Sprintf(" %d mod %d", share.Remainder, share.Modulus)
		notes = append(notes, numbersNote{subject + residue, residue, share.Origin})
	}
	return notes
}

// subjectOf is the subject of a column. Names that are too long are told apart by a checksum.
func subjectOf(table, column string) string {
	const longest = maxText - 60
	subject := subjectNumbers + table + "." + column
	if len(subject) > longest {
		sum := sha256.Sum256([]byte(subject))
		subject = fmt.Sprintf("%s %x", strings.ToValidUTF8(subject[:longest-40], ""), sum[:16])
	}
	return subject
}

// ClaimNumbers notes from which stores the columns of a table get their numbers, unless that is noted
// already. It returns an error wrapping errs.ErrAuthority if it is noted that they come from others. Like
// [Database.Claim] it notes nothing in a database in memory, and refuses one that is read-only. It takes one
// statement if all is noted, and the place is known.
func ClaimNumbers(ctx context.Context, d Database, table string, columns []Numbered) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	d, notes, err := d.enter(ctx)
	if !notes {
		return err
	}
	var subjects []any
	for _, column := range columns {
		for _, note := range column.notes(table) {
			subjects = append(subjects, note.subject)
		}
	}
	rows, err := d.rows(ctx, subjects...)
	if err != nil {
		return d.failed(ctx, err)
	}
	for _, column := range columns {
		for _, want := range column.notes(table) {
			noted, is := rows[want.subject]
			if !is {
				all, err := d.ensure(ctx, want.subject, func(map[string]Note) (Note, error) {
					return newNote(want.origin), nil
				})
				if errors.Is(err, ErrReadOnly) {
					err = fmt.Errorf("%w: the column %s.%s gets no number until it can be noted in the database that "+
						"they come from %s", err, table, column.Column, counters(want.origin))
				}
				if err != nil {
					return err
				}
				noted = all[want.subject]
			}
			if !noted.sameAs(want.origin) {
				return otherNumbers(d, table, column.Column, noted, want)
			}
			has, is := noted.counter()
			if wants, ours := want.origin.counter(); column.Unique && is && ours && has != wants {
				return otherCounter(d, table, column, noted, want)
			}
		}
	}
	return nil
}

// counters describes where numbers come from.
func counters(o Origin) string {
	switch {
	case o.ID == idResidues:
		return "several counters with remainders of their own (" + o.Layout + ")"
	case o.Place == "":
		return "the counters " + o.ID
	}
	return fmt.Sprintf("the counters %s (%s)", o.ID, o.Place)
}

// otherNumbers is the error when the numbers of a column come from somewhere else.
func otherNumbers(d Database, table, column string, noted Note, want numbersNote) error {
	hint := ""
	if noted.Place == want.origin.Place && noted.Place != "" && noted.ID != want.origin.ID {
		hint = " Both are called the same, so perhaps the first counters were emptied or replaced, and begin " +
			"again."
	}
	return fmt.Errorf("%w: the numbers%s of the column %s of the table %s come from %s (%s), and this plugin "+
		"takes them from %s: they would repeat.%s Take them from the first counters, or give each store a "+
		"remainder of its own (segment.SetResidues, or \"snowflake segments residues\", and WithResidue). %s",
		errs.ErrAuthority, want.residue, column, table, counters(noted.Origin), noted.since(),
		counters(want.origin), hint, moveColumn(d, table, column))
}

// otherCounter is the error when the numbers of a unique column come from another counter of the same store.
func otherCounter(d Database, table string, column Numbered, noted Note, want numbersNote) error {
	return fmt.Errorf("%w: %s (the column %s of the table %s): no two rows may have one number, its numbers%s "+
		"come from %s (%s), and the source %q of this plugin takes them from %s: they would repeat. Take them "+
		"from one counter, or add what each counter is for, such as the tenant, to the unique index in the "+
		"model and in the table. %s",
		errs.ErrAuthority, column.Field, column.Column, table, want.residue, counters(noted.Origin),
		noted.since(), column.Source, counters(want.origin), moveColumn(d, table, column.Column))
}

// moveColumn says how a column gets its numbers from somewhere else, with the statement at the end.
func moveColumn(d Database, table, column string) string {
	return fmt.Sprintf("If the column has moved, or its residues were changed: stop all programs that fill "+
		"it, make sure that each counter is above all numbers in use (\"snowflake segments raise\"), and run "+
		"this:\n\nDELETE FROM %s WHERE %[2]s = '%[3]s' OR %[2]s LIKE '%[3]s %%';",
		d.quoted(), d.Quote("subject"), subjectOf(table, column))
}
