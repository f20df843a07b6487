package merge

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
)

// Verdict is the result of a check.
type Verdict int

// The verdicts.
const (
	// Clean: nothing collides.
	Clean Verdict = 0
	// Resolved: there are conflicts, and the plan decides all of them.
	Resolved Verdict = 2
	// Undecided: there are problems that must be solved before a run.
	Undecided Verdict = 3
)

func (v Verdict) String() string {
	switch v {
	case Clean:
		return "clean"
	case Resolved:
		return "resolved"
	}
	return "undecided"
}

// MarshalText writes the verdict as a word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Code identifies a kind of problem, for programs.
type Code string

// The codes of problems.
const (
	CodePlan            Code = "plan"             // the plan names something that does not exist
	CodeUnknownTable    Code = "unknown_table"    // a table is not in the plan
	CodeUndecided       Code = "undecided"        // the plan does not say what becomes of a table
	CodeMissingTable    Code = "missing_table"    // a database lacks a table of the plan
	CodeMissingColumn   Code = "missing_column"   // one side lacks a column
	CodeColumnType      Code = "column_type"      // a column is of another type
	CodeTooLong         Code = "too_long"         // a text is too long for the column of the target
	CodeNull            Code = "null"             // NULL in a column that is NOT NULL in the target
	CodeRefused         Code = "refused"          // the target refuses a value or a row
	CodeChanged         Code = "changed"          // the target would change a value
	CodeNotEmpty        Code = "not_empty"        // a table of the target holds rows
	CodeServerNumber    Code = "server_number"    // IDs with the number of another server
	CodePlainKeys       Code = "plain_keys"       // keys that were counted, not made by a generator
	CodePrimaryKey      Code = "primary_key"      // rows with an equal primary key
	CodeUniqueKey       Code = "unique_key"       // rows with an equal unique key
	CodeOrphan          Code = "orphan"           // rows that refer to a row that does not exist
	CodeCircle          Code = "circle"           // foreign keys in a circle
	CodeSelfReference   Code = "self_reference"   // a table that refers to itself
	CodeRename          Code = "rename"           // a new name cannot be made
	CodeTrigger         Code = "trigger"          // triggers and events of the target
	CodeEngine          Code = "engine"           // a table of the target has no transactions
	CodeNoKey           Code = "no_key"           // a table without a primary key
	CodeNotQuiet        Code = "not_quiet"        // a source is written to
	CodeUncheckable     Code = "uncheckable"      // something that cannot be checked beforehand
	CodeAlreadyBegun    Code = "already_begun"    // the target belongs to a merge
	CodeTotal           Code = "total"            // a sum is too large for its column
	CodeNameCopy        Code = "name_copy"        // a declared copy of a name does not exist, or is none
	CodeCollapsedParent Code = "collapsed_parent" // a reference to merged rows
	CodeLeases          Code = "leases"           // node numbers cannot be retired
	CodeLeftOut         Code = "left_out"         // a merge does not copy something that the plan does not name
	CodeHiddenRows      Code = "hidden_rows"      // rows that the login cannot see
	CodeUndeclared      Code = "undeclared"       // a column may be a reference that is not declared
	CodeLock            Code = "lock"             // a column is not what it was when the lock was written
	CodeGivesUp         Code = "gives_up"         // the plan has another number of rows that are given up
)

// Problem is something that must be solved before a run or, as a warning, something to know.
type Problem struct {
	Code   Code   `json:"code"`
	Server string `json:"server,omitempty"`
	Table  string `json:"table,omitempty"`
	Column string `json:"column,omitempty"`
	// Count is the number of rows, where it is about rows.
	Count   int64  `json:"count,omitempty"`
	Message string `json:"message"`
	// Remedy is what to do.
	Remedy string `json:"remedy,omitempty"`
}

func (p Problem) String() string {
	text := ""
	for _, part := range []string{p.Server, p.Table, p.Column} {
		if part != "" {
			text += part + ": "
		}
	}
	switch {
	case p.Count == 1:
		text += "1 row: "
	case p.Count > 1:
		text += fmt.Sprintf("%d rows: ", p.Count)
	}
	if p.Remedy != "" {
		return text + p.Message + ": " + p.Remedy
	}
	return text + p.Message
}

// findings are problems with single rows.
type findings []Problem

// add counts a row. The first one with a problem is the example of it.
func (f *findings) add(p Problem) {
	i := slices.IndexFunc(*f, func(o Problem) bool {
		return o.Code == p.Code && o.Server == p.Server && o.Table == p.Table && o.Column == p.Column
	})
	if i < 0 {
		i, *f = len(*f), append(*f, p)
	}
	(*f)[i].Count++
}

// RowRef names a row.
type RowRef struct {
	Server string `json:"server"`
	// Key is the primary key; if it is not one number, a JSON array of its parts.
	Key string `json:"key"`
}

// Conflict is a pair of rows with an equal key, and what becomes of them.
type Conflict struct {
	Table string `json:"table"`
	Key   string `json:"key"`
	// Value is what the second row has in the key.
	Value  string `json:"value"`
	Keeper RowRef `json:"keeper"`
	Other  RowRef `json:"other"`
	// Resolution is "undecided", "renamed", "dropped" or "added".
	Resolution string `json:"resolution"`
	// NewName is the new name of the other row.
	NewName string `json:"new_name,omitempty"`
}

// TableReport is what becomes of a table.
type TableReport struct {
	Name   string `json:"name"`
	Policy Policy `json:"policy"`
	// Rows counts the rows that are copied, by server. Left counts the rows that are left out, because of a
	// condition or as orphans.
	Rows map[string]int64 `json:"rows,omitempty"`
	Left map[string]int64 `json:"left,omitempty"`
	// Dropped rows are merged into another row. Renamed rows get a new name.
	Dropped int64 `json:"dropped,omitempty"`
	Renamed int64 `json:"renamed,omitempty"`
	// Conflicts is the number of rows that have an equal key with an earlier one.
	Conflicts int64 `json:"conflicts,omitempty"`
}

// CheckReport says what Check found.
type CheckReport struct {
	Plan string `json:"plan"` // the hash
	// Verdict is Clean, Resolved or Undecided.
	Verdict  Verdict       `json:"verdict"`
	Problems []Problem     `json:"problems,omitempty"`
	Warnings []Problem     `json:"warnings,omitempty"`
	Tables   []TableReport `json:"tables"` // in the order in which they are copied
	// Conflicts lists up to 10,000 of each table. The reports of tables count them all.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// GivesUp is what the plan has to have under gives_up. It is there if there is no other problem.
	GivesUp map[string]GivenUp `json:"gives_up,omitempty"`
	// Gaps are the ranges to which keys move where the plan says renumber: apart.
	Gaps []Gap `json:"gaps,omitempty"`
	// Lock is what the servers hold now. It is nil if nothing had to be looked at, because no key changes.
	Lock *Lock `json:"-"`
	// Rows is how many rows will be in the target.
	Rows int64 `json:"rows"`
	// Estimate is how long copying may take, from a sample.
	Estimate time.Duration `json:"estimate_ns"`
	Took     time.Duration `json:"took_ns"`
}

// table returns the report of a table that is copied.
func (r *CheckReport) table(name string) *TableReport {
	return &r.Tables[slices.IndexFunc(r.Tables, func(t TableReport) bool { return t.Name == name })]
}

func (r *CheckReport) problem(p Problem) { r.Problems = append(r.Problems, p) }

// problemIf reports something that must be solved, if it is so.
func (r *CheckReport) problemIf(so bool, p Problem) {
	if so {
		r.problem(p)
	}
}

func (r *CheckReport) warn(p Problem) { r.Warnings = append(r.Warnings, p) }

// Renamed is a row that has another name now.
type Renamed struct {
	Table   string `json:"table"`
	Column  string `json:"column"`
	Server  int64  `json:"server"`
	Key     string `json:"key"` // on its server
	OldName string `json:"old_name"`
	NewName string `json:"new_name"`
	// NewKey is its key in the target, which differs where keys are renumbered or follow others.
	NewKey string `json:"new_key"`
}

// MergedServer says where an old server is now.
type MergedServer struct {
	Number     int64  `json:"number"`
	Name       string `json:"name"`
	MergedInto int64  `json:"merged_into"`
	Target     string `json:"target"`
}

// RunReport says what Run did.
type RunReport struct {
	Plan string `json:"plan"`
	// Already is true if the target was complete before.
	Already bool `json:"already,omitempty"`
	// Resumed is true if the run went on where another one had ended.
	Resumed bool `json:"resumed,omitempty"`
	// Check is the report of the check before, unless the run was resumed.
	Check *CheckReport `json:"check,omitempty"`
	// Rows is how many rows this run wrote.
	Rows          int64          `json:"rows"`
	RowsPerSecond float64        `json:"rows_per_second"`
	Tables        []CopyReport   `json:"tables"`
	Renamed       int64          `json:"renamed"`
	Dropped       int64          `json:"dropped"`
	Quarantined   int64          `json:"quarantined"`
	Servers       []MergedServer `json:"servers"`
	Took          time.Duration  `json:"took_ns"`
}

// CopyReport is what was copied from one table of one server.
type CopyReport struct {
	Table  string `json:"table"`
	Server string `json:"server"`
	Rows   int64  `json:"rows"`
	// Way is how the rows went: "attach", "insert-select", "copy" or "rows".
	Way string `json:"way,omitempty"`
}

// Progress is how far a call is.
type Progress struct {
	// Phase is "check", "decide", "copy", "fill" or "verify".
	Phase  string `json:"phase"`
	Table  string `json:"table"`
	Server string `json:"server"`
	// Done and Total count rows over the whole phase.
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
	// RowsPerSecond is over the time since the phase began in this process.
	RowsPerSecond float64       `json:"rows_per_second"`
	Elapsed       time.Duration `json:"elapsed_ns"`
	// Left is the remaining time at that speed; 0 if it is not known.
	Left time.Duration `json:"left_ns"`
}

// progress counts rows and reports them about ten times a second.
type progress struct {
	Progress
	onProgress func(Progress)
	began      time.Time
	reportedAt time.Time
	here       int64 // rows of this process, without those of an earlier run
}

// add counts rows.
func (p *progress) add(table, server string, n int) {
	p.Table, p.Server = table, server
	p.Done += int64(n)
	p.here += int64(n)
	if now := time.Now(); now.Sub(p.reportedAt) >= 100*time.Millisecond {
		p.reportedAt = now
		p.report()
	}
}

// report tells how far the rows are. At the end it is called once more.
func (p *progress) report() {
	if p.onProgress == nil {
		return
	}
	p.Elapsed = time.Since(p.began)
	p.RowsPerSecond = float64(p.here) / max(p.Elapsed.Seconds(), 1e-6)
	p.Left = 0
	if p.RowsPerSecond > 0 && p.Total > p.Done {
		p.Left = time.Duration(float64(p.Total-p.Done) / p.RowsPerSecond * float64(time.Second))
	}
	p.onProgress(p.Progress)
}

// VerifyReport says what Verify found.
type VerifyReport struct {
	Plan   string       `json:"plan"`
	OK     bool         `json:"ok"`
	Checks []Comparison `json:"checks"`
	// Failed lists those of Checks that failed.
	Failed []Comparison  `json:"failed,omitempty"`
	Took   time.Duration `json:"took_ns"`
	// Seal is a hash of all other fields except Took. Keep it as evidence.
	Seal string `json:"seal"`
}

// Comparison is one thing that was verified.
type Comparison struct {
	// What is "rows", "checksum", "parents", "orphans", "duplicates", "names", "keeper", "totals", "counter",
	// "columns", "tables", "sum", "empty", "balance", "catalog", "lists" or "apart". It is "chance" for a
	// reference of the plan whose values are keys no more often than other numbers, which is no difference.
	What   string `json:"what"`
	Table  string `json:"table"`
	Server string `json:"server,omitempty"`
	Detail string `json:"detail,omitempty"`
	Want   string `json:"want"`
	Got    string `json:"got"`
	OK     bool   `json:"ok"`
	// Column is that of a "chance". Otherwise it held keys of the table Parent, which have changed, and no
	// reference of the plan follows them. Rows is how many of its rows have a number. Where a reference does
	// follow those rows that meet a condition, Except is the condition, and only the other rows count. They are
	// empty in other comparisons.
	Column string `json:"column,omitempty"`
	Except string `json:"except,omitempty"`
	Parent string `json:"parent,omitempty"`
	Rows   int64  `json:"rows,omitempty"`
}

// GivesUpLines returns the lines of the plan for what is given up.
func (r *CheckReport) GivesUpLines() string {
	text := "gives_up:\n"
	for name, given := range sorted(r.GivesUp) {
		text += "  " + line(name, given) + "\n"
	}
	return text
}

// Gap is a range of numbers to which keys move apart.
type Gap struct {
	Tables []string `json:"tables"`
	// From and To are the first and the last number that new keys may take.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Room is how many numbers are free behind To, up to the next value or the end of the narrowest column.
	Room int64 `json:"room"`
}

// Lock is what the program has found in each column of each table of the servers. It lies beside the plan, as
// plan.lock beside plan.yaml, and no person writes it: the plan says what was decided, and the lock what the
// data was like then. [Draft] makes the first one, and Check a new one when the data has changed. With
// [WithLock], Check and Run refuse columns that are new, or of which the data says something else now.
type Lock struct {
	// Version is the version of this format: 2.
	Version int `yaml:"version"`
	// Sum is the Hash. LoadLock compares it.
	Sum string `yaml:"hash"`
	// Data is a hash of all data that it was made from. As long as that is the same, Check believes it. It is
	// "" where a server cannot tell whether it has changed, as SQLite.
	Data   string                 `yaml:"data,omitempty"`
	Tables map[string]LockedTable `yaml:"tables"`
}

const lockVersion = 2

// LockedTable is a table in a [Lock].
type LockedTable struct {
	// Rows has, for each server with such a table, the number of its rows and the ends of their keys. A run
	// looks again into tables in which they have changed.
	Rows    map[string]string       `yaml:"rows"`
	Columns map[string]LockedColumn `yaml:"columns"`
}

// LockedColumn is a column in a [Lock].
type LockedColumn struct {
	// Type is the type of the column. If the servers differ in it, there are several, with "or" between them.
	Type string `yaml:"type"`
	// Verdict is reference, if the values are keys of a table almost certainly; possible, if they may be;
	// plain, if they are not; and none, if there are no whole numbers to judge by, 0 aside.
	Verdict string `yaml:"verdict"`
	// Of are the keys that the column refers to, or may refer to.
	Of []LockedKey `yaml:"of,omitempty,flow"`
	// Hits has, for each key that was compared with all values and has more of them than by chance, how many
	// different values of each server are such a key, and how many are not.
	Hits map[string]string `yaml:"hits,omitempty,flow"`
}

// LockedKey is a column of keys in a [Lock].
type LockedKey struct {
	Table  string `yaml:"table"`
	Column string `yaml:"column"`
	// When is the condition for the rows that refer; "" means all.
	When string `yaml:"when,omitempty"`
	// As says where in the column the keys may be, such as bits 24-47 or path $.id, and With is the column that
	// has their higher half.
	As   string `yaml:"as,omitempty"`
	With string `yaml:"with,omitempty"`
	// Evidence says what speaks for it and what against it, if it is only possible.
	Evidence string `yaml:"evidence,omitempty"`
}

// says is the verdict, with the tables that a reference leads to and the parts of the column that may hold
// keys.
func (c LockedColumn) says() string {
	text := c.Verdict
	var parents, parts []string
	for _, k := range c.Of {
		if k.As != "" {
			parts = append(parts, k.As)
		} else {
			parents = append(parents, k.Table+"."+k.Column)
		}
	}
	if len(parents) > 0 && text == census.Reference.String() {
		text += " of " + strings.Join(parents, " and ")
	}
	if slices.Sort(parts); len(parts) > 0 {
		text += ", perhaps with keys in " + strings.Join(slices.Compact(parts), " and ")
	}
	return text
}

// holds reports whether the column holds values of a key, more often than by chance.
func (c LockedColumn) holds(key LockedKey) bool {
	_, hit := c.Hits[key.Table+"."+key.Column]
	return hit || c.refers(key)
}

// refers reports whether the column refers to a key, or may.
func (c LockedColumn) refers(key LockedKey) bool {
	return slices.ContainsFunc(c.Of, func(known LockedKey) bool {
		return known.Table == key.Table && known.Column == key.Column && known.As == ""
	})
}

// Hash identifies the tables, the columns, their types and the verdicts. It does not cover counts: these are
// evidence, and differ between a server that runs, a copy of it, and the night of the merge.
func (l *Lock) Hash() string {
	said := map[string]map[string][2]string{}
	for table, t := range l.Tables {
		said[table] = map[string][2]string{}
		for name, c := range t.Columns {
			said[table][name] = [2]string{c.Type, c.says()}
		}
	}
	return hashOf(said)
}

// LoadLock reads a lock from a file. The error wraps fs.ErrNotExist if there is none, and [ErrPlan] if it is
// no lock, or if its verdicts were changed by hand.
func LoadLock(path string) (*Lock, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("merge: the lock of the plan cannot be read: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	l := &Lock{}
	err = d.Decode(l)
	switch {
	case err == nil && l.Version != lockVersion:
		err = fmt.Errorf("its version is %d, and this program reads version %d", l.Version, lockVersion)
	case err == nil && l.Sum != l.Hash():
		err = errors.New("it does not have its own hash, so somebody has changed it")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the lock %s: %w; remove it, and check makes a new one", ErrPlan, path, err)
	}
	return l, nil
}

// Save writes the lock to a file, in the place of an older one. It holds no values of rows but the ends of
// keys.
func (l *Lock) Save(path string) error {
	var text bytes.Buffer
	text.WriteString("# What a merge has found in the data of its servers. The program writes this file and " +
		"reads it\n# again; what people decide stands in the plan beside it.\n")
	locked := *l
	locked.Sum = l.Hash()
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	err := e.Encode(locked)
	if err == nil {
		err = os.WriteFile(path, text.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("merge: the lock of the plan cannot be written: %w", err)
	}
	return nil
}

// add puts down what a census has found.
func (l *Lock) add(found []census.Finding) {
	seen := map[census.Column]bool{}
	for _, f := range found {
		c := l.Tables[f.Table].Columns[f.Name]
		if !seen[f.Column] && f.As == "" {
			c.Verdict, seen[f.Column] = f.Verdict.String(), true
		}
		if f.Verdict >= census.Possible {
			key := LockedKey{Table: f.Parent.Table, Column: f.Parent.Name, When: f.When, As: f.As, With: f.With}
			if f.Verdict == census.Possible {
				key.Evidence = f.Evidence
			}
			c.Of = append(c.Of, key)
		}
		if c.Hits == nil {
			c.Hits = map[string]string{}
		}
		for key, hits := range f.Hits {
			c.Hits[key.String()] = hits
		}
		l.Tables[f.Table].Columns[f.Name] = c
	}
}

// against reports the columns of a table of which an earlier lock says something else.
func (l *Lock) against(earlier *Lock, table string, problem func(Problem)) {
	const remedy = "see whether the plan is still right; then remove the lock, the file plan.lock beside " +
		"plan.yaml, and check writes a new one"
	is, was := l.Tables[table].Columns, earlier.Tables[table].Columns
	columns := map[string]LockedColumn{}
	maps.Copy(columns, is)
	maps.Copy(columns, was)
	for name := range sorted(columns) {
		now, here := is[name]
		then, there := was[name]
		message := ""
		switch {
		case !there:
			message = "it was not there when the lock was written, and now it is " + now.Type + ", " + now.says()
		case !here:
			message = "it was there when the lock was written, and no server has it now"
		case now.Type != then.Type:
			message = "it was " + then.Type + " when the lock was written, and now it is " + now.Type
		case now.says() != then.says():
			message = "by its values it was " + then.says() + " when the lock was written, and now it is " +
				now.says()
		default:
			continue
		}
		problem(Problem{Code: CodeLock, Table: table, Column: name, Message: message, Remedy: remedy})
	}
}
