package merge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Plan says what is merged into what, and how. It is written as YAML, see [Load] and [Plan.Save].
type Plan struct {
	// Version is the version of this format: 1.
	Version int `yaml:"version" json:"version"`
	// Layout is the layout of the IDs.
	Layout Layout `yaml:"layout" json:"layout"`
	// Servers are the sources. Their order counts: where something is kept, it is what the first server
	// has, if the policy says nothing else.
	Servers []Server `yaml:"servers" json:"servers"`
	// Target is where all goes.
	Target Target `yaml:"target" json:"target"`
	// Conserve lists sums that must be the same before and after.
	Conserve []Sum `yaml:"conserve,omitempty" json:"conserve,omitempty"`
	// Tables has an entry for every table of every source and of the target.
	Tables map[string]*TablePlan `yaml:"tables" json:"tables"`
}

// Server is a source.
type Server struct {
	// Name is what reports and logs call it.
	Name string `yaml:"name" json:"name"`
	// Number is the server number in the IDs made there.
	Number int64 `yaml:"number" json:"number"`
	// Also are the numbers of servers that were merged into it before.
	Also []int64 `yaml:"also,omitempty" json:"also,omitempty"`
	// DSN is for the Opener; $NAME stands for an environment variable. It is never logged.
	DSN string `yaml:"dsn" json:"-"`
}

// Target is the database that all is merged into.
type Target struct {
	// Name is that of the server that the players find afterwards.
	Name string `yaml:"name" json:"name"`
	// Number is the server number with which it goes on making IDs. The other numbers are never used again.
	Number int64 `yaml:"number" json:"number"`
	// DSN is for the Opener; $NAME stands for an environment variable. It is never logged.
	DSN string `yaml:"dsn" json:"-"`
}

// Sum is a sum that must be the same before and after.
type Sum struct {
	// Name is what reports call it.
	Name string `yaml:"name" json:"name"`
	// Table is the table it is over.
	Table string `yaml:"table" json:"table"`
	// Expression is SQL for one number, such as SUM(gold), that every database involved understands.
	Expression string `yaml:"expression" json:"expression"`
}

// Policy says what becomes of the rows of a table.
type Policy string

// The policies; the documentation of the package says what they do.
const (
	Copy       Policy = "copy"
	Rename     Policy = "rename"
	Add        Policy = "sum"
	KeepTarget Policy = "keep_target"
	Newest     Policy = "newest"
	Rebuild    Policy = "rebuild"
	Skip       Policy = "skip"
	Custom     Policy = "custom"
)

// copies tells whether rows go to the target.
func (p Policy) copies() bool { return p != Rebuild && p != Skip }

// collapses tells whether rows with an equal key become one.
func (p Policy) collapses() bool { return p == Add || p == KeepTarget || p == Newest }

// TablePlan is the policy of one table.
type TablePlan struct {
	Policy Policy `yaml:"policy" json:"policy"`
	// Note says why, for those who review the plan.
	Note string `yaml:"note,omitempty" json:"-"`
	// Rename belongs to the policy rename.
	Rename *RenamePlan `yaml:"rename,omitempty" json:"rename,omitempty"`
	// Key are the columns by which rows are equal, for sum, keep_target and newest. By default those of
	// the primary key and of every unique key.
	Key []string `yaml:"key,omitempty" json:"key,omitempty"`
	// Sum are the columns that the policy sum adds; Min and Max those of which the least and the greatest
	// stays. The other columns are those of the first server.
	Sum []string `yaml:"sum,omitempty" json:"sum,omitempty"`
	Min []string `yaml:"min,omitempty" json:"min,omitempty"`
	Max []string `yaml:"max,omitempty" json:"max,omitempty"`
	// By is the column that the policy newest compares.
	By string `yaml:"by,omitempty" json:"by,omitempty"`
	// Func is the name of the function of the policy custom.
	Func string `yaml:"func,omitempty" json:"func,omitempty"`
	// Where is SQL that a row must meet to be copied, such as "level > 5 OR paid > 0". Rows that refer
	// to a row that stays behind are orphans.
	Where string `yaml:"where,omitempty" json:"where,omitempty"`
	// Orphans says what becomes of rows that refer to a row that is not there: refuse, the default; drop
	// the row; or null, which keeps the row without the reference.
	Orphans string `yaml:"orphans,omitempty" json:"orphans,omitempty"`
	// References are foreign keys that the databases do not know of.
	References []Reference `yaml:"references,omitempty" json:"references,omitempty"`
	// Absent lists servers that may lack the table.
	Absent []string `yaml:"absent,omitempty" json:"absent,omitempty"`
	// Ignore lists columns of sources that the target lacks and that may be lost.
	Ignore []string `yaml:"ignore,omitempty" json:"ignore,omitempty"`
	// Convert lists columns that may be of another type in a source; values are converted or refused.
	Convert []string `yaml:"convert,omitempty" json:"convert,omitempty"`
	// ForeignIDs says that IDs of other servers are all right here: they are compared one by one.
	ForeignIDs bool `yaml:"foreign_ids,omitempty" json:"foreign_ids,omitempty"`
	// Renumber moves the keys of tables that count them out of each other's way, and the references to them.
	Renumber bool `yaml:"renumber,omitempty" json:"renumber,omitempty"`
	// BadRows is stop, the default, or quarantine.
	BadRows string `yaml:"bad_rows,omitempty" json:"bad_rows,omitempty"`
}

// RenamePlan says who keeps an equal name, and what the others are called.
type RenamePlan struct {
	// Column is the column of the name.
	Column string `yaml:"column" json:"column"`
	// Keep is who keeps the name: older, the default, has the smaller primary key; first belongs to the
	// server named first; highest has the greatest value in the column By; none renames all.
	Keep string `yaml:"keep,omitempty" json:"keep,omitempty"`
	By   string `yaml:"by,omitempty" json:"by,omitempty"`
	// Format makes the new name of {name} and {server}. By default it is {name}.s{server}. If the result is
	// too long, {name} is cut; if it is taken, -2, -3 and so on follow.
	Format string `yaml:"format,omitempty" json:"format,omitempty"`
	// Max is how many characters a name may have, where the column does not say it: a column of SQLite made
	// by GORM does not.
	Max int `yaml:"max,omitempty" json:"max,omitempty"`
	// Copies are columns of other tables that repeat the name.
	Copies []NameCopy `yaml:"copies,omitempty" json:"copies,omitempty"`
}

// NameCopy is a column that repeats a name.
type NameCopy struct {
	Table string `yaml:"table" json:"table"`
	// Column holds the name of the row that the column Ref refers to.
	Column string `yaml:"column" json:"column"`
	Ref    string `yaml:"ref" json:"ref"`
}

// Reference is a column that holds the primary key of another table.
type Reference struct {
	Column string `yaml:"column" json:"column"`
	Table  string `yaml:"table" json:"table"`
}

// Hash identifies what the plan does. DSNs and notes are no part of it.
func (p *Plan) Hash() string {
	text, err := json.Marshal(p) // maps are written in the order of their keys
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Validate returns an error wrapping [ErrPlan] that lists everything that is wrong with the plan itself.
func (p *Plan) Validate() error {
	f := &faults{}
	f.check(p.Version == 1, "version is %d, this program reads version 1", p.Version)
	maxNumber := int64(0)
	if decode, err := p.Layout.decoder(); err != nil {
		f.add("layout: %v", err)
	} else {
		maxNumber = decode.mask
	}
	p.validateServers(f, maxNumber)
	for _, name := range slices.Sorted(maps.Keys(p.Tables)) {
		if t := p.Tables[name]; t == nil {
			f.add("table %s has no policy", name)
		} else {
			t.validate(f, "table "+name+": ", p)
		}
	}
	for _, s := range p.Conserve {
		t := p.Tables[s.Table]
		f.check(s.Name != "" && s.Expression != "",
			"conserve: each entry needs a name, a table and an expression")
		f.check(t != nil && t.Policy.copies(), "conserve %s: the table %q is not copied", s.Name, s.Table)
	}
	return f.err()
}

func (p *Plan) validateServers(f *faults, maxNumber int64) {
	f.check(len(p.Servers) > 0, "servers: there is none")
	f.check(p.Target.Name != "", "target: it has no name")
	names, numbers, own := map[string]bool{}, map[int64]string{}, false
	for i, s := range p.Servers {
		f.check(s.Name != "", "servers: the one at position %d has no name", i+1)
		f.check(!names[s.Name], "servers: two are called %s", s.Name)
		names[s.Name] = true
		for _, n := range append([]int64{s.Number}, s.Also...) {
			if other, taken := numbers[n]; taken {
				f.add("servers: %s and %s both have the number %d: IDs made by two servers of one number are not "+
					"different. If both really ran with it, give one of them a number that was never used, and its "+
					"tables foreign_ids: true", other, s.Name, n)
			}
			f.check(n >= 0 && (maxNumber == 0 || n <= maxNumber), "servers: %s: the number %d does not fit into "+
				"the layout, which ends at %d", s.Name, n, maxNumber)
			numbers[n] = s.Name
			own = own || n == p.Target.Number
		}
	}
	f.check(own || p.Target.Number >= 0 && p.Target.Number <= maxNumber, "target: the number %d does not fit "+
		"into the layout, which ends at %d", p.Target.Number, maxNumber)
}

func (t *TablePlan) validate(f *faults, at string, p *Plan) {
	all := []Policy{Copy, Rename, Add, KeepTarget, Newest, Rebuild, Skip, Custom}
	f.check(slices.Contains(all, t.Policy), "%sthe policy %q is none of %v", at, t.Policy, all)
	f.check((t.Policy == Rename) == (t.Rename != nil),
		"%sthe policy rename and the entry rename belong together", at)
	f.check((t.Policy == Newest) == (t.By != ""), "%sthe policy newest and the entry by belong together", at)
	f.check((t.Policy == Custom) == (t.Func != ""), "%sthe policy custom and the entry func belong together",
		at)
	f.check(t.Policy == Add || len(t.Sum)+len(t.Min)+len(t.Max) == 0,
		"%ssum, min and max belong to the policy sum", at)
	f.check(t.Policy != Add || len(t.Sum) > 0, "%sthe policy sum needs the entry sum, the columns to add", at)
	f.check(t.Policy.collapses() || len(t.Key) == 0, "%skey belongs to sum, keep_target and newest", at)
	f.check(slices.Contains([]string{"", "refuse", "drop", "null"}, t.Orphans),
		"%sorphans is %q, not refuse, drop or null", at, t.Orphans)
	f.check(slices.Contains([]string{"", "stop", "quarantine"}, t.BadRows),
		"%sbad_rows is %q, not stop or quarantine", at, t.BadRows)
	f.check(!t.Renumber || t.Policy == Copy || t.Policy == Rename, "%srenumber goes with copy and rename only",
		at)
	for _, r := range t.References {
		f.check(p.Tables[r.Table] != nil, "%sreferences: there is no table %q in the plan", at, r.Table)
	}
	if t.Rename == nil {
		return
	}
	r := t.Rename
	f.check(r.Column != "", "%srename: it needs a column", at)
	f.check(slices.Contains([]string{"", "older", "first", "highest", "none"}, r.Keep),
		"%srename: keep is %q, not older, first, highest or none", at, r.Keep)
	f.check((r.Keep == "highest") == (r.By != ""), "%srename: keep: highest and by belong together", at)
	f.check(r.Format == "" || strings.Count(r.Format, "{name}") == 1 && strings.Contains(r.Format, "{server}"),
		"%srename: the format %q needs {name} once, and {server}", at, r.Format)
	for _, c := range r.Copies {
		f.check(p.Tables[c.Table] != nil, "%srename: copies: there is no table %q in the plan", at, c.Table)
		f.check(c.Column != "" && c.Ref != "", "%srename: copies: each needs a table, a column and a ref", at)
	}
}

// faults collects what is wrong.
type faults struct{ all []string }

func (f *faults) add(format string, args ...any) { f.all = append(f.all, fmt.Sprintf(format, args...)) }

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		f.add(format, args...)
	}
}

func (f *faults) err() error {
	if len(f.all) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrPlan, strings.Join(f.all, "; "))
}
