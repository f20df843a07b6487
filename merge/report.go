package merge

import (
	"fmt"
	"time"
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
	CodeNameCopy        Code = "name_copy"        // a declared copy of a name does not exist
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
	at := ""
	for _, part := range []string{p.Server, p.Table, p.Column} {
		if part != "" {
			at += part + ": "
		}
	}
	switch {
	case p.Count == 1:
		at += "1 row: "
	case p.Count > 1:
		at += fmt.Sprintf("%d rows: ", p.Count)
	}
	if p.Remedy != "" {
		return at + p.Message + ": " + p.Remedy
	}
	return at + p.Message
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
	// Conflicts lists up to WithMaxConflicts of each table.
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

// table finds the report of a table, or makes it.
func (r *CheckReport) table(name string, policy Policy) *TableReport {
	for i := range r.Tables {
		if r.Tables[i].Name == name {
			return &r.Tables[i]
		}
	}
	r.Tables = append(r.Tables, TableReport{Name: name, Policy: policy,
		Rows: map[string]int64{}, Left: map[string]int64{}})
	return &r.Tables[len(r.Tables)-1]
}

func (r *CheckReport) problem(p Problem) { r.Problems = append(r.Problems, p) }

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

// skip counts rows that an earlier run has done.
func (p *progress) skip(n int64) { p.Done += n }

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

// end reports the last rows.
func (p *progress) end() { p.report() }

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
	// "columns", "tables", "sum", "empty", "balance", "catalog" or "lists".
	What   string `json:"what"`
	Table  string `json:"table"`
	Server string `json:"server,omitempty"`
	Detail string `json:"detail,omitempty"`
	Want   string `json:"want"`
	Got    string `json:"got"`
	OK     bool   `json:"ok"`
}
