package shardmap

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// The table of a shard carries the rule of the shard as CHECK constraints: one on its key, and one on each
// column that holds the key of a colocated row. So no program can store a row where nobody looks for it,
// not even one that does not use this library.

// Check is a CHECK constraint of one column in the table of a shard.
type Check struct {
	// Name is unique within a database, as MySQL requires. It tells the table, the column, the shard and
	// the number of shards. So the tables of two numbers of shards can be in one database, and a
	// constraint that was made for another number is recognized.
	Name string
	// Expression is the condition, without its parentheses.
	Expression string
	// Quoted is the name in the quotes of the dialect, and column is that of the column.
	Quoted, Column string

	Begin string // the part of the name that does not depend on the number of shards
	Class
}

// newShardCheck returns the constraint of a column in the table of a shard. The table has the name that
// it is used under: a table that is built under another name and renamed later is made with the
// constraint of its final name.
func newShardCheck(k dialect.Kind, table, column string, refers bool, l generator.Layout, class Class) Check {
	c := Check{Begin: checkNameBegin(table, column), Class: class, Column: k.Quote(column)}
	c.Name = fmt.Sprintf("%s_shard_%d_of_%d", c.Begin, c.Residue, c.Modulus)
	c.Quoted = k.Quote(c.Name)
	sequence := c.Column
	if c.Modulus&(c.Modulus-1) != 0 {
		sequence = fmt.Sprintf("(%s & %d)", c.Column, l.MaxSequence())
	}
	// A negative number is not an ID, but its remainder may be that of an ID.
	c.Expression = fmt.Sprintf("%s > 0 AND %s = %d", c.Column, k.Remainder(sequence, c.Modulus), c.Residue)
	if refers {
		c.Expression += " OR " + c.Column + " = 0"
	}
	return c
}

// Definition is the constraint as it stands in CREATE TABLE, and after ADD in ALTER TABLE.
func (c Check) Definition() string {
	return "CONSTRAINT " + c.Quoted + " CHECK (" + c.Expression + ")"
}

// Tag is the constraint as GORM reads it from the tag of a field.
func (c Check) Tag() string { return c.Name + "," + c.Expression }

// Fits returns an error if another constraint on the same column contradicts this one. A constraint for
// fewer shards may say less, but never something else.
func (c Check) Fits(name string) error {
	begin, other, ok := ReadCheckName(name)
	if !ok || begin != c.Begin || c.Modulus%other.Modulus == 0 && c.Residue%other.Modulus == other.Residue {
		return nil
	}
	return fmt.Errorf("%w: its constraint %s is for shard %s, and this router has it as shard %s: set Shards "+
		"to the number that the table was made for", errs.ErrSharding, name, other, c.Class)
}

// checkNameBegin is the part of the name that does not depend on the number of shards. It is made of letters,
// digits and underscores, which is what GORM accepts, and short enough for the end never to be cut off.
func checkNameBegin(table, column string) string {
	_, name := dialect.Split(table)
	whole := name + "_" + column
	const longest = dialect.MaxName - len("_shard_65535_of_65536")
	return dialect.Abridged(notInName.ReplaceAllString(whole, "_"), whole, longest)
}

var (
	notInName    = regexp.MustCompile(`[^A-Za-z0-9_]`)
	checkNameEnd = regexp.MustCompile(`_shard_(\d{1,9})_of_([1-9]\d{0,8})$`)
)

// ReadCheckName returns what the name of a constraint tells. ok is false for a constraint that is not the
// router's.
func ReadCheckName(name string) (begin string, class Class, ok bool) {
	found := checkNameEnd.FindStringSubmatch(name)
	if found == nil {
		return "", class, false
	}
	class.Residue, _ = strconv.Atoi(found[1])
	class.Modulus, _ = strconv.Atoi(found[2])
	return strings.TrimSuffix(name, found[0]), class, true
}

// isIntegerColumn reports whether the remainder of a column can be computed in SQL. An ID may also be
// kept as text or as bytes.
func isIntegerColumn(field *schema.Field) bool {
	switch field.DataType {
	case schema.Int, schema.Uint:
		return true
	default:
		return strings.Contains(strings.ToLower(string(field.DataType)), "int")
	}
}
