package verify

import (
	"database/sql"
	"fmt"
	"strings"
)

// Plan is what the user was promised.
type Plan struct {
	Servers []Server
	Target  Server
	// An ID has its server number at ID >> Shift & Mask. Keys from 0 to below Counted were counted by a
	// database.
	Shift   int
	Mask    int64
	Counted int64
	Tables  map[string]*Table
	Sums    []Sum
	// Watched are columns that hold keys which change, although the plan does not lead them along.
	Watched []Watched
	// Own are the tables of the merge itself, which are not compared.
	Own []string
	// Progress is called with numbers of rows that were read.
	Progress func(table, server string, rows int)
}

// Server is a source or the target.
type Server struct {
	Name    string
	Number  int64
	Numbers []int64 // Number, and those of servers that were merged into this one before
	// Pool has one more connection, and is not closed at the end.
	Pool *sql.DB
}

// Watched is a column that holds numbers which are keys of some tables, or of any table if Of is empty. Of
// several tables, that is told whose keys most rows hold. Likely means that it may refer to it, and Plain
// that somebody has said that it does not. Rows for which the condition Except holds are led along.
type Watched struct {
	Table, Column string
	Of            []string
	Likely, Plain bool
	Except        string
}

// Sum is a sum that is the same before and after.
type Sum struct{ Name, Table, Expression string }

// Table is the plan of a table.
type Table struct {
	Policy        string
	Where         string
	Orphans       string // "", "refuse", "drop" or "null"
	Key           []string
	Sum, Min, Max []string
	By            string
	Rename        *Rename
	References    []Reference
	Ignore        []string
	Convert       []string
	Renumber      bool
	Counted       string // the column that is renumbered, unless a unique key says so
	First         bool   // the keys of the first server move, too
	GivesUp       GivenUp
	// Set has SQL expressions over the row of the source, with {server} and {target} in place of numbers, and
	// {renamed} in place of 1 in a row with a new name and 0 in the others.
	Set map[string]string
}

// GivenUp counts the rows of a table that the target does not get. Differing are those of the collapsed rows
// that have other values than the row that stays.
type GivenUp struct{ Collapsed, Differing, Orphans, Filtered, Skipped, Rebuilt, Quarantined int64 }

// String returns the numbers as they stand in a plan.
func (g GivenUp) String() string {
	var parts []string
	for _, part := range []struct {
		name string
		rows int64
	}{
		{"collapsed", g.Collapsed}, {"differing", g.Differing}, {"orphans", g.Orphans}, {"filtered", g.Filtered},
		{"skipped", g.Skipped}, {"rebuilt", g.Rebuilt}, {"quarantined", g.Quarantined},
	} {
		if part.rows != 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", part.name, part.rows))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Rename says how names change.
type Rename struct {
	Column, Keep, By, Format string
	When                     string // an SQL condition over the row of the source: others keep their names
	Max                      int
	Copies                   []NameCopy
	Derived                  []Derived
}

// Derived is a column that is computed from a new name: "lower", "upper" or "same".
type Derived struct{ Column, As string }

// NameCopy is a column that repeats the name of the row that the column Ref refers to, or of any row of the
// same server if Ref is empty.
type NameCopy struct{ Table, Column, Ref string }

// Reference are columns that hold the key of another table: its primary key, if Target is empty.
type Reference struct {
	Columns, Target []string
	Table           string
	When            string // an SQL condition over the row of the source
	Path, List      string // where the keys are inside the column
	Bits            string // the first and the last bit of the key in a number, or of its parts in several
}

// The policies.
const (
	policySum       = "sum"
	policyKeepFirst = "keep_first"
	policyNewest    = "newest"
	policyRebuild   = "rebuild"
	policySkip      = "skip"
)

func (t *Table) copied() bool { return t.Policy != policyRebuild && t.Policy != policySkip }

// joins reports whether equal rows become one.
func (t *Table) joins() bool {
	return t.Policy == policySum || t.Policy == policyKeepFirst || t.Policy == policyNewest
}

// The tables in which the merge tells what it has done.
const (
	listOfRenames = "merge_renames"
	listOfRefused = "merge_quarantine"
	listOfDrops   = "merge_drops"
	listOfValues  = "merge_values"
	listOfServers = "merge_servers"
	listOfOffsets = "merge_offsets"
	listOfCopies  = "merge_journal"
)

// Finding is one comparison.
type Finding struct {
	What, Table, Server, Detail string
	Want, Got                   string
	OK                          bool
	// Of a column that held keys of Parent, which have changed, and of which so many rows have a number: only
	// of those rows that do not meet Except, if there is such a condition.
	Column, Except, Parent string
	Rows                   int64
}
