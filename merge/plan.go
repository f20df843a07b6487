package merge

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Plan says what is merged into what, and how. It is written as YAML, see [Load] and [Plan.Save].
type Plan struct {
	// Version is the version of this format: 1.
	Version int `yaml:"version" json:"version"`
	// Layout is the layout of the IDs.
	Layout Layout `yaml:"layout" json:"layout"`
	// Servers are the sources. Their order matters: where one of several rows stays, it is the row of the first
	// server, unless the policy says otherwise.
	Servers []Server `yaml:"servers" json:"servers"`
	// Target is the database that the rows are copied to.
	Target Target `yaml:"target" json:"target"`
	// Conserve lists sums that must be the same before and after.
	Conserve []ConservedSum `yaml:"conserve,omitempty" json:"conserve,omitempty"`
	// GivesUp has the number of rows that the target does not get, for each table that loses some. Check
	// prints the lines, and nothing runs unless they say what happens.
	GivesUp map[string]GivenUp `yaml:"gives_up,omitempty" json:"gives_up,omitempty"`
	// Identities has, for each table to which others refer, the columns that do so, unless the databases
	// declare it by foreign keys.
	Identities map[string]*Identity `yaml:"identities,omitempty" json:"identities,omitempty"`
	// Plain lists columns, written as table.column, whose values look like keys of a table and are none.
	Plain []string `yaml:"plain,omitempty,flow" json:"plain,omitempty"`
	// Apart says which servers get other keys in tables with renumber: apart: all, the default, or others, all
	// but the first one. With all, keys that websites and logs know of the first server change as well, and a
	// forgotten reference leads nowhere on every server.
	Apart string `yaml:"apart,omitempty" json:"apart,omitempty"`
	// Tables has an entry for every table of every source and of the target.
	Tables map[string]*TablePlan `yaml:"tables,omitempty" json:"tables"`
	// LeftOut lists what the databases hold besides those tables and what a merge does not copy: views,
	// tables of other schemas, foreign tables, sequences of no column, triggers and the like. Check reports
	// what is neither there nor here.
	LeftOut []LeftOut `yaml:"left_out,omitempty" json:"left_out,omitempty"`
	// Fires lists the triggers of the target, and the events of MySQL and MariaDB there, that may act while the
	// merge writes. Check refuses all others that are enabled.
	Fires []string `yaml:"fires,omitempty" json:"fires,omitempty"`
}

// LeftOut is something in a database that a merge does not copy.
type LeftOut struct {
	// Kind is what it is, in the words of Check: view, sequence, trigger, foreign table and so on.
	Kind string `yaml:"kind" json:"kind"`
	// Name is its name, with its schema in front where that is not the schema that is merged.
	Name string `yaml:"name" json:"name"`
	// Note says why it is left out, for those who review the plan.
	Note string `yaml:"note,omitempty" json:"-"`
}

// Server is a source.
type Server struct {
	// Name identifies the server in reports and logs.
	Name string `yaml:"name" json:"name"`
	// Number is the server number in the IDs made there.
	Number int64 `yaml:"number" json:"number"`
	// Also lists the numbers of servers that were merged into this one before.
	Also []int64 `yaml:"also,omitempty" json:"also,omitempty"`
	// DSN is for the Opener; $NAME stands for an environment variable. It is never logged.
	DSN string `yaml:"dsn" json:"-"`
}

// numbers returns the number of the server, and those of servers that were merged into it before.
func (s Server) numbers() []int64 { return append([]int64{s.Number}, s.Also...) }

// Target is the database that the servers are merged into.
type Target struct {
	// Name is the name of the merged server.
	Name string `yaml:"name" json:"name"`
	// Number is the server number of the IDs that the merged server makes. The other numbers are never used
	// again.
	Number int64 `yaml:"number" json:"number"`
	// DSN is for the Opener; $NAME stands for an environment variable. It is never logged.
	DSN string `yaml:"dsn" json:"-"`
	// LeaseTables are the tables of node leases, as package gormlease makes them, in which the numbers of
	// merged servers are retired. By default it is the one table of the target that has their shape, whatever
	// its name. If there are several, the plan must name those that are for the node numbers of the merged
	// servers.
	LeaseTables []string `yaml:"lease_tables,omitempty" json:"lease_tables,omitempty"`
}

// ConservedSum is a sum that must be the same before and after.
type ConservedSum struct {
	// Name is what reports call it.
	Name string `yaml:"name" json:"name"`
	// Table is the table it is over.
	Table string `yaml:"table" json:"table"`
	// Expression is SQL for one number, such as SUM(gold), that every database involved understands. A name
	// in braces is quoted in the words of each of them: SUM({Gold}).
	Expression string `yaml:"expression" json:"expression"`
}

// Policy says what happens to the rows of a table.
type Policy string

// The policies; the documentation of the package says what they do.
const (
	Copy      Policy = "copy"
	Rename    Policy = "rename"
	Sum       Policy = "sum"
	KeepFirst Policy = "keep_first"
	Newest    Policy = "newest"
	Rebuild   Policy = "rebuild"
	Skip      Policy = "skip"
	// NotDecided is what Draft writes where only somebody who knows the game can tell what becomes of rows.
	// Check reports each such table, with the policies to choose from, and Run refuses the plan.
	NotDecided Policy = "undecided"
)

// copies reports whether rows are copied to the target.
func (p Policy) copies() bool { return p != Rebuild && p != Skip && p != NotDecided }

// collapses reports whether rows with an equal key become one row.
func (p Policy) collapses() bool { return p == Sum || p == KeepFirst || p == Newest }

// TablePlan is the policy of one table.
type TablePlan struct {
	Policy Policy `yaml:"policy" json:"policy"`
	// Note says why, for those who review the plan.
	Note string `yaml:"note,omitempty" json:"-"`
	// Rename belongs to the policy rename.
	Rename *RenamePlan `yaml:"rename,omitempty" json:"rename,omitempty"`
	// Key are the columns by which rows are equal, for sum, keep_first and newest, which need them. A column
	// that a database counts cannot be one of them.
	Key []string `yaml:"key,omitempty" json:"key,omitempty"`
	// Sum lists the columns that the policy sum adds up. Min and Max list columns of which the least or the
	// greatest value stays. Other columns keep the value of the first server.
	Sum []string `yaml:"sum,omitempty" json:"sum,omitempty"`
	Min []string `yaml:"min,omitempty" json:"min,omitempty"`
	Max []string `yaml:"max,omitempty" json:"max,omitempty"`
	// By is the column that the policy newest compares.
	By string `yaml:"by,omitempty" json:"by,omitempty"`
	// Where is an SQL condition for the rows that are copied, such as "level > 5 OR paid > 0". A row that
	// refers to a row that is not copied is an orphan.
	Where string `yaml:"where,omitempty" json:"where,omitempty"`
	// Orphans says what happens to rows that refer to a row that is not in the target: refuse (the default),
	// drop the row, or null, which copies the row without the reference.
	Orphans string `yaml:"orphans,omitempty" json:"orphans,omitempty"`
	// References are foreign keys that are not declared in the databases. Those of one column are shorter under
	// Identities.
	References []Reference `yaml:"references,omitempty" json:"references,omitempty"`
	// Undecided are columns that may hold keys of a table. Check reports each of them, and Run refuses the
	// plan, until it stands under Identities or Plain of the plan in place of this.
	Undecided []OpenColumn `yaml:"undecided,omitempty" json:"undecided,omitempty"`
	// Absent lists servers that may lack the table.
	Absent []string `yaml:"absent,omitempty" json:"absent,omitempty"`
	// Ignore lists columns of sources that are not copied because the target lacks them.
	Ignore []string `yaml:"ignore,omitempty" json:"ignore,omitempty"`
	// Convert lists columns that may be of another type in a source; values are converted or refused.
	Convert []string `yaml:"convert,omitempty" json:"convert,omitempty"`
	// ForeignIDs allows IDs that other servers made. The keys are then compared one by one.
	ForeignIDs bool `yaml:"foreign_ids,omitempty" json:"foreign_ids,omitempty"`
	// Renumber gives new values to keys that the databases counted, so that they do not collide, and changes
	// the references to them.
	Renumber Renumbering `yaml:"renumber,omitempty" json:"renumber,omitempty"`
	// Set gives columns a value of their own: an SQL expression over the row in the source, in whose place
	// {server} is the number of the source and {target} the number of the target. "{target}" alone sets a
	// column such as server_id. With the policy rename, {renamed} is 1 in a row that gets a new name, and 0 in
	// the others, so "flags | {renamed}" can ask its player for another one.
	Set map[string]string `yaml:"set,omitempty" json:"set,omitempty"`
	// BadRows is stop, the default, or quarantine.
	BadRows string `yaml:"bad_rows,omitempty" json:"bad_rows,omitempty"`
}

// RenamePlan says which row keeps a name that several rows have, and how the others are named.
type RenamePlan struct {
	// Column is the column of the name.
	Column string `yaml:"column" json:"column"`
	// Keep says which row keeps the name: older (the default), the row with the smallest primary key; first,
	// the row of the first server; highest, the row with the greatest value in the column By; or none.
	Keep string `yaml:"keep,omitempty" json:"keep,omitempty"`
	By   string `yaml:"by,omitempty" json:"by,omitempty"`
	// When is an SQL condition over the row in the source, such as name <> ''. Rows that do not meet it keep
	// their names, however many have the same.
	When string `yaml:"when,omitempty" json:"when,omitempty"`
	// Format is the new name, with the placeholders {name} and {server}. The default is {name}.s{server}. If
	// the result is too long, {name} is shortened. If it is taken, -2, -3 and so on are appended.
	Format string `yaml:"format,omitempty" json:"format,omitempty"`
	// Max is the maximum length of a name in characters, for columns whose type has no limit, such as text
	// columns that GORM makes in SQLite.
	Max int `yaml:"max,omitempty" json:"max,omitempty"`
	// Copies are columns of other tables that repeat the name.
	Copies []NameCopy `yaml:"copies,omitempty" json:"copies,omitempty"`
	// Derived are columns of the same table that are computed from the name.
	Derived []DerivedName `yaml:"derived,omitempty" json:"derived,omitempty"`
}

// writes returns the columns that a new name changes.
func (r *RenamePlan) writes() (names []string) {
	if r != nil {
		names = append(names, r.Column)
		for _, d := range r.Derived {
			names = append(names, d.Column)
		}
	}
	return names
}

// changes reports whether a new name changes a column, or what a key consists of.
func (r *RenamePlan) changes(k sqldb.UniqueKey) bool {
	return slices.ContainsFunc(r.writes(), k.Covers)
}

// DerivedName is a column that is computed from the name beside it. Rows that are renamed get a new value;
// all other rows keep theirs.
type DerivedName struct {
	Column string `yaml:"column" json:"column"`
	// As is how it is computed: lower, upper, or same.
	As string `yaml:"as" json:"as"`
}

// NameCopy is a column that repeats a name.
type NameCopy struct {
	Table string `yaml:"table" json:"table"`
	// Column holds the name of the row that the column Ref refers to. Without Ref it is that of any row of the
	// same server, as the server compares names.
	Column string `yaml:"column" json:"column"`
	Ref    string `yaml:"ref,omitempty" json:"ref,omitempty"`
}

// Reference is a foreign key that no database declares.
type Reference struct {
	// Column holds the primary key of the table, which then has one column.
	Column string `yaml:"column,omitempty" json:"column,omitempty"`
	Table  string `yaml:"table" json:"table"`
	// Columns are in place of Column for a reference of several columns, and Target are the columns of the
	// table that they hold, in the same order. By default that is its primary key.
	Columns []string `yaml:"columns,omitempty" json:"columns,omitempty"`
	Target  []string `yaml:"target,omitempty" json:"target,omitempty"`
	// When is an SQL condition over the row in the source; the reference exists only in rows that meet it,
	// such as owner_type = 'pet'.
	When string `yaml:"when,omitempty" json:"when,omitempty"`
	// Path leads to the keys inside a JSON column: $.pet.id, or $.items[*].id for all elements of an array.
	Path string `yaml:"path,omitempty" json:"path,omitempty"`
	// List is the separator of a column that holds several keys as text, such as 17,18,19. The list of a
	// PostgreSQL array is "array".
	List string `yaml:"list,omitempty" json:"list,omitempty"`
	// Bits are the first and the last bit of a whole number in which the key is, such as 24-47. Columns then
	// are several that hold parts of one key in these bits, the lowest part first.
	Bits string `yaml:"bits,omitempty" json:"bits,omitempty"`
	// Note says what speaks for the reference, for those who review the plan.
	Note string `yaml:"note,omitempty" json:"-"`
}

// OpenColumn is a column of which only somebody who knows the game can tell whether it is a reference.
type OpenColumn struct {
	Column string `yaml:"column" json:"column"`
	// Candidate is the column whose keys the values may be, such as characters.id.
	Candidate string `yaml:"candidate" json:"candidate"`
	// As says where in the column the keys may be: bits 24-47, path $.id, list ",", or names that may change.
	// With is the column that has their higher half.
	As   string `yaml:"as,omitempty" json:"as,omitempty"`
	With string `yaml:"with,omitempty" json:"with,omitempty"`
	// When is the condition for the rows in which they may be.
	When string `yaml:"when,omitempty" json:"when,omitempty"`
	// Evidence says what speaks for it and what against it.
	Evidence string `yaml:"evidence,omitempty" json:"-"`
}

// key returns the column of the candidate.
func (o OpenColumn) key() LockedKey {
	index := strings.LastIndex("."+o.Candidate, ".")
	return LockedKey{Table: strings.TrimSuffix(o.Candidate[:index], "."), Column: o.Candidate[index:]}
}

// columns returns the columns of the reference.
func (r Reference) columns() []string {
	if len(r.Columns) > 0 {
		return r.Columns
	}
	return []string{r.Column}
}

// planFile is a plan as it stands in its file: tables with the same settings share an entry, and columns
// about which nobody has decided are listed by the keys that they may hold.
type planFile struct {
	Plan      `yaml:",inline"`
	Groups    []tableGroup        `yaml:"groups,omitempty"`
	Undecided map[string][]string `yaml:"undecided,omitempty"`
}

// tableGroup is the entry of tables with the same settings.
type tableGroup struct {
	Names     []string `yaml:"tables"`
	TablePlan `yaml:",inline"`
}

const heading = `# Policies: copy, rename, sum, keep_first, newest, rebuild (leave empty), skip. Where
# something is kept, it is what the first server has. Nothing runs while something is undecided: check says
# what to choose from, and plan.lock what speaks for a column, which goes under in: of its identity, or under
# plain: if it holds no keys. apart: all gives new keys to the rows of every server, so that a reference that
# nobody knows of leads to no row; merge_offsets in the target says by how much, for websites and logs.
`

// Load reads a plan from a YAML file. The error wraps [ErrPlan] if the file is no plan.
func Load(path string) (*Plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("merge: the plan cannot be read: %w", err)
	}
	return Parse(text)
}

// Parse reads a plan from YAML. An unknown field is an error, because it may be a misspelled one. The
// error wraps [ErrPlan].
func Parse(text []byte) (*Plan, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	file := &planFile{}
	err := d.Decode(file)
	if err == nil && !errors.Is(d.Decode(&planFile{}), io.EOF) {
		err = errors.New("the file goes on after the plan")
	}
	if err == nil {
		err = file.readNulls(text)
	}
	if err == nil {
		err = file.expand()
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the file is empty", ErrPlan)
	case err != nil:
		return nil, fmt.Errorf("%w: %s", ErrPlan, withoutGo(err.Error()))
	}
	return &file.Plan, file.Validate()
}

var (
	yamlMismatch = regexp.MustCompile(`cannot unmarshal !!(\w+)(.*) into (\S+)`)
	yamlUnknown  = regexp.MustCompile(` not found in type \S+`)
)

// withoutGo says without the types of Go what the decoder of YAML complains of.
func withoutGo(message string) string {
	message = yamlUnknown.ReplaceAllString(message, " is not known here")
	return yamlMismatch.ReplaceAllStringFunc(message, func(text string) string {
		part := yamlMismatch.FindStringSubmatch(text)
		found := map[string]string{"map": "a mapping", "seq": "a list"}[part[1]]
		if found == "" {
			found = "the value" + part[2]
		}
		switch goType := part[3]; {
		case strings.HasPrefix(goType, "[]"):
			return found + " stands in place of a list"
		case strings.HasPrefix(goType, "int"):
			return found + " stands in place of a whole number"
		case goType == "bool":
			return found + " stands in place of true or false"
		}
		return found + " cannot stand here"
	})
}

// readNulls makes "orphans: null" mean the text null. YAML reads it as no value, which would be the default.
func (f *planFile) readNulls(text []byte) error {
	type table struct {
		Orphans yaml.Node `yaml:"orphans"`
	}
	var raw struct {
		Tables map[string]table `yaml:"tables"`
		Groups []table          `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return err
	}
	read := func(t table, into *TablePlan) {
		if into != nil && t.Orphans.Tag == "!!null" && strings.EqualFold(t.Orphans.Value, "null") {
			into.Orphans = "null"
		}
	}
	for name, t := range raw.Tables {
		read(t, f.Tables[name])
	}
	for i, t := range raw.Groups {
		read(t, &f.Groups[i].TablePlan)
	}
	return nil
}

// expand gives each table of a group an entry of its own, and each column that is undecided a place there.
func (f *planFile) expand() error {
	if f.Tables == nil {
		f.Tables = map[string]*TablePlan{}
	}
	for _, g := range f.Groups {
		for _, name := range g.Names {
			if f.Tables[name] != nil {
				return fmt.Errorf("the table %s has two policies", name)
			}
			own := g.TablePlan
			f.Tables[name] = &own
		}
	}
	for candidate, columns := range sorted(f.Undecided) {
		for _, text := range columns {
			e, err := parseHolder(text)
			t := f.Tables[e.table]
			if err == nil && t == nil {
				err = fmt.Errorf("there is no table %q in the plan", e.table)
			}
			if err != nil {
				return fmt.Errorf("undecided: %s: %w", candidate, err)
			}
			t.Undecided = append(t.Undecided, e.open(candidate))
		}
	}
	return nil
}

// fold is the opposite of expand.
func (p *Plan) fold() (*planFile, error) {
	f := &planFile{Plan: *p, Undecided: map[string][]string{}}
	f.Tables = map[string]*TablePlan{}
	alike := map[string]int{} // the positions of the groups, by the text of the entry
	for name, t := range sorted(p.Tables) {
		if t == nil {
			continue
		}
		own := *t
		own.Undecided = slices.DeleteFunc(slices.Clone(own.Undecided), func(o OpenColumn) bool {
			e := o.holder(name)
			written := e.plain()
			if written {
				f.Undecided[o.Candidate] = append(f.Undecided[o.Candidate], e.String())
			}
			return written
		})
		text, err := yaml.Marshal(own)
		if err != nil {
			return nil, err
		}
		index, known := alike[string(text)]
		if !known {
			index, alike[string(text)] = len(f.Groups), len(f.Groups)
			f.Groups = append(f.Groups, tableGroup{TablePlan: own})
		}
		f.Groups[index].Names = append(f.Groups[index].Names, name)
	}
	f.Groups = slices.DeleteFunc(f.Groups, func(g tableGroup) bool {
		if len(g.Names) == 1 {
			f.Tables[g.Names[0]] = &g.TablePlan
		}
		return len(g.Names) == 1
	})
	return f, nil
}

// oneLine is a part of a plan as it stands in its file.
func oneLine(v any) string {
	n := &yaml.Node{}
	err := n.Encode(v)
	n.Style |= yaml.FlowStyle
	text, err2 := yaml.Marshal(n)
	if err = errors.Join(err, err2); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// YAML writes the plan.
func (p *Plan) YAML() ([]byte, error) {
	f, err := p.fold()
	root := &yaml.Node{}
	if err == nil {
		err = root.Encode(f)
	}
	var text bytes.Buffer
	if err == nil {
		f.compact(root)
		e := yaml.NewEncoder(&text)
		e.SetIndent(2)
		err = errors.Join(e.Encode(root), e.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it cannot be written: %w", ErrPlan, err)
	}
	return []byte(heading + wrapped(text.String())), nil
}

// compact puts each entry of the parts of a plan on a line of its own, and lists of words on one line. Above
// each identity it says what speaks for its columns.
func (f *planFile) compact(root *yaml.Node) {
	for i, part := range root.Content {
		if len(part.Content) == 0 {
			continue
		}
		entries := []*yaml.Node{part}
		if first := part.Content[min(1, len(part.Content)-1)]; first.Kind != yaml.ScalarNode {
			entries = part.Content
		}
		for _, n := range entries {
			if n.Kind != yaml.ScalarNode {
				n.Style |= yaml.FlowStyle
			} else if id := f.Identities[n.Value]; id != nil && root.Content[i-1].Value == "identities" {
				n.HeadComment = id.note
			}
		}
	}
}

// wrapped breaks lines that are too long behind commas, which YAML allows within brackets: at the last one
// before so many bytes, or else at the next one. A comma of a quoted text is none.
func wrapped(text string) string {
	const longest = 110
	pieces := regexp.MustCompile(`(?:[\[{]|[,:?-] )(?:"(?:\\.|[^"\\])*"|'(?:''|[^'])*')|,`)
	var out strings.Builder
	for line := range strings.Lines(text) {
		indent, begin, end, width := len(line)-len(strings.TrimLeft(line, " ")), 0, 0, longest
		breakLine := func() {
			out.WriteString(strings.TrimRight(line[begin:end], " ") + "\n" + strings.Repeat(" ", indent+4))
			begin, width = end, longest-indent-4
		}
		if open := strings.IndexAny(line, "[{"); open >= 0 && line[indent] != '#' {
			for _, piece := range pieces.FindAllStringIndex(line[open:], -1) {
				next := open + piece[0] + 2
				if line[next-2] != ',' || next > len(line) || line[next-1] != ' ' {
					continue
				}
				if end > begin && next-begin > width {
					breakLine()
				}
				end = next
			}
			if end > begin && len(line)-begin > width+1 {
				breakLine()
			}
		}
		out.WriteString(line[begin:])
	}
	return out.String()
}

// Save writes the plan to a new file that only its owner can read, since a DSN may contain a password. It
// does not overwrite a file.
func (p *Plan) Save(path string) (err error) {
	text, err := p.YAML()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("merge: the plan cannot be written: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(text)
	return err
}

// catalog returns the reference in the form of a catalog.
func (r Reference) catalog() sqldb.Reference {
	ref := sqldb.Reference{Columns: r.columns(), Parent: r.Table, Target: r.Target, When: r.When, Path: r.Path,
		List: r.List, Bits: r.Bits}
	if r.Bits != "" {
		ref.Columns, ref.Rest = ref.Columns[:1], ref.Columns[1:]
	}
	return ref
}

// Hash identifies what the plan does. It does not cover DSNs and notes.
func (p *Plan) Hash() string { return hashOf(p) }

// hashOf returns a hash of what JSON writes of a value, with maps in the order of their keys.
func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Validate returns an error wrapping [ErrPlan] that lists all faults of the plan itself.
func (p *Plan) Validate() error {
	errs := &planErrors{}
	errs.check(p.Version == 1, "version is %d, this program reads version 1", p.Version)
	maxNumber := int64(0)
	if decode, err := p.Layout.decoder(); err != nil {
		errs.add("layout: %v", err)
	} else {
		maxNumber = decode.mask
	}
	p.validateServers(errs, maxNumber)
	for name, t := range sorted(p.Tables) {
		if t == nil {
			errs.add("table %s has no policy", name)
			continue
		}
		errs.prefix = "table " + name + ": "
		t.validate(errs, p)
		errs.prefix = ""
	}
	errs.check(slices.Contains([]string{"", apartAll, apartOthers}, p.Apart), "apart is %q, not %s or %s",
		p.Apart, apartAll, apartOthers)
	p.validateIdentities(errs)
	for name := range sorted(p.GivesUp) {
		errs.check(p.Tables[name] != nil, "gives_up: there is no table %q in the plan", name)
	}
	for _, l := range p.LeftOut {
		errs.check(l.Kind != "" && l.Name != "", "left_out: each entry needs a kind and a name")
	}
	for _, s := range p.Conserve {
		t := p.Tables[s.Table]
		errs.check(s.Name != "" && s.Expression != "",
			"conserve: each entry needs a name, a table and an expression")
		errs.check(t != nil && t.Policy.copies(), "conserve %s: the table %q is not copied", s.Name, s.Table)
	}
	if len(errs.all) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrPlan, strings.Join(errs.all, "; "))
}

func (p *Plan) validateServers(errs *planErrors, maxNumber int64) {
	errs.check(len(p.Servers) > 0, "servers: there is none")
	errs.check(p.Target.Name != "", "target: it has no name")
	names, numbers, own := map[string]bool{}, map[int64]string{}, false
	for i, s := range p.Servers {
		errs.check(s.Name != "", "servers: the one at position %d has no name", i+1)
		errs.check(!names[s.Name], "servers: two are called %s", s.Name)
		names[s.Name] = true
		for _, n := range s.numbers() {
			if other, taken := numbers[n]; taken {
				errs.add("servers: %s and %s both have the number %d: IDs made by two servers of one number are not "+
					"different. If both really ran with it, give one of them a number that was never used, and its "+
					"tables foreign_ids: true", other, s.Name, n)
			}
			errs.check(n >= 0 && (maxNumber == 0 || n <= maxNumber),
				"servers: %s: the number %d does not fit into the layout, which ends at %d", s.Name, n, maxNumber)
			numbers[n] = s.Name
			own = own || n == p.Target.Number
		}
	}
	errs.check(own || p.Target.Number >= 0 && p.Target.Number <= maxNumber,
		"target: the number %d does not fit into the layout, which ends at %d", p.Target.Number, maxNumber)
}

func (t *TablePlan) validate(errs *planErrors, p *Plan) {
	all := []Policy{Copy, Rename, Sum, KeepFirst, Newest, Rebuild, Skip, NotDecided}
	errs.check(slices.Contains(all, t.Policy), "the policy %q is none of %v", t.Policy, all)
	errs.check((t.Policy == Rename) == (t.Rename != nil),
		"the policy rename and the entry rename belong together")
	errs.check((t.Policy == Newest) == (t.By != ""), "the policy newest and the entry by belong together")
	errs.check(t.Policy == Sum || len(t.Sum)+len(t.Min)+len(t.Max) == 0,
		"sum, min and max belong to the policy sum")
	errs.check(t.Policy != Sum || len(t.Sum) > 0, "the policy sum needs the entry sum, the columns to add")
	errs.check(t.Policy.collapses() || len(t.Key) == 0, "key belongs to sum, keep_first and newest")
	errs.check(slices.Contains([]string{"", "refuse", "drop", "null"}, t.Orphans),
		"orphans is %q, not refuse, drop or null", t.Orphans)
	errs.check(slices.Contains([]string{"", "stop", "quarantine"}, t.BadRows),
		"bad_rows is %q, not stop or quarantine", t.BadRows)
	errs.check(t.Renumber == "" || t.Policy.copies(),
		"renumber goes with copy, rename, sum, keep_first and newest only")
	errs.check(t.Renumber != Apart || t.Policy == Copy || t.Policy == Rename,
		"renumber: apart goes with copy and rename only; with the other policies that copy it is renumber: true")
	errs.check(slices.Contains([]Renumbering{"", Behind, Apart}, t.Renumber),
		"renumber is %q, not true or apart", t.Renumber)
	for column, expression := range t.Set {
		errs.check(column != "" && expression != "", "set: each entry needs a column and an expression")
		errs.check(t.Policy == Rename || !strings.Contains(expression, wordRenamed),
			"set: %s belongs to the policy rename", wordRenamed)
	}
	for _, r := range t.References {
		errs.check(p.Tables[r.Table] != nil, "references: there is no table %q in the plan", r.Table)
		errs.check((r.Column == "") != (len(r.Columns) == 0), "references: each needs either column or columns")
		_, err := parseBits(r.Bits, r.columns())
		errs.check(err == nil, "references: %v", err)
		errs.check(len(r.Target) == 0 || len(r.Target) == len(r.columns()) || r.Bits != "" && len(r.Target) == 1,
			"references: target needs as many columns as the reference")
		errs.check(r.Path == "" && r.List == "" || r.Path == "" && r.Bits == "" || r.List == "" && r.Bits == "",
			"references: path, list and bits exclude each other")
		errs.check(r.Path == "" && r.List == "" || len(r.columns()) == 1,
			"references: path and list need one column")
	}
	if t.Rename == nil {
		return
	}
	r := t.Rename
	errs.check(r.Column != "", "rename: it needs a column")
	errs.check(slices.Contains([]string{"", "older", "first", "highest", "none"}, r.Keep),
		"rename: keep is %q, not older, first, highest or none", r.Keep)
	errs.check((r.Keep == "highest") == (r.By != ""), "rename: keep: highest and by belong together")
	named, numbered := strings.Count(r.Format, "{name}") == 1, strings.Contains(r.Format, "{server}")
	errs.check(r.Format == "" || named && numbered,
		"rename: the format %q needs {name} once, and {server}", r.Format)
	for _, d := range r.Derived {
		errs.check(d.Column != "" && slices.Contains([]string{"lower", "upper", "same"}, d.As),
			"rename: derived: each needs a column, and as: lower, upper or same")
	}
	for _, c := range r.Copies {
		errs.check(p.Tables[c.Table] != nil, "rename: copies: there is no table %q in the plan", c.Table)
		errs.check(c.Column != "", "rename: copies: each needs a table and a column")
		other := p.Tables[c.Table]
		errs.check(other == nil || other.Rename == nil || other.Rename.Column != c.Column,
			"rename: copies: %s.%s has a rename of its own, so it cannot follow another one", c.Table, c.Column)
		for _, owner := range p.Tables {
			if owner == nil || owner.Rename == nil || owner.Rename == r {
				continue
			}
			too := func(o NameCopy) bool {
				return o.Table == c.Table && o.Column == c.Column && (o.Ref == "" || c.Ref == "")
			}
			errs.check(!slices.ContainsFunc(owner.Rename.Copies, too),
				"rename: copies: %s.%s repeats names of two tables, so it needs a ref for each", c.Table, c.Column)
		}
	}
}

// planErrors collects the faults of a plan.
type planErrors struct {
	prefix string // of those that are found now
	all    []string
}

func (errs *planErrors) add(format string, args ...any) {
	errs.all = append(errs.all, errs.prefix+fmt.Sprintf(format, args...))
}

func (errs *planErrors) check(ok bool, format string, args ...any) {
	if !ok {
		errs.add(format, args...)
	}
}

// Identity is what identifies the rows of a table, and the columns everywhere that refer to them by it.
type Identity struct {
	// Table is the table. By default it is called like the identity.
	Table string `yaml:"table,omitempty" json:"table,omitempty"`
	// Key is the column of the table that the others hold. By default it is the primary key.
	Key string `yaml:"key,omitempty" json:"key,omitempty"`
	// In lists these columns: mail.receiver; mail.sender when messageType = 0, with an SQL condition over the
	// row in the source; auras.caster bits 24-47, items.card1+card2 bits 0-15, scrolls.props path $.owner or
	// circles.members list , where the key is a part of what is there, as Bits, Path and List of a [Reference]
	// have it; and character_*.guid for all tables with such a name and a column of this name and kind, as
	// path.Match has it, without those columns that another reference of the plan names.
	In []string `yaml:"in" json:"in"`
	// note is a comment, for those who review the plan.
	note string
}

// table returns the table of an identity of a name.
func (id *Identity) table(name string) string { return cmp.Or(id.Table, name) }

// asNames is how a column may refer that repeats names which may change. They may also be computed from the
// name beside them, or stand in lists or among the words of sentences, where nothing changes them.
const (
	asNames     = "names"
	asComputed  = "names as "
	asLists     = "names in lists"
	asSentences = "names in sentences"
)

// holder is a text under in: of an identity, or under undecided:. Several columns have + between them. Where
// the key is only a part of what is there, as says which: bits 24-47, path $.id, list , or names by a column
// that leads to the row of the name.
type holder struct{ table, column, as, when string }

// parseHolder reads "table.column bits 24-47 when condition".
func parseHolder(text string) (e holder, err error) {
	name, when, conditional := strings.Cut(text, " when ")
	for _, kind := range []string{" bits ", " path ", " list ", " number ", " " + asNames + " by "} {
		if before, how, ok := strings.Cut(name, kind); ok {
			name, e.as = before, kind[1:]+how
		}
	}
	for _, kind := range []string{asNames, asLists, asSentences} {
		if before, names := strings.CutSuffix(name, " "+kind); names {
			name, e.as = before, kind
		}
	}
	dot := strings.LastIndex(name, ".")
	if dot < 1 || dot == len(name)-1 || conditional && strings.TrimSpace(when) == "" {
		return e, fmt.Errorf("%q is not written as table.column, table.column when condition, or table.column "+
			"bits 24-47", text)
	}
	e.table, e.column, e.when = name[:dot], strings.TrimSpace(name[dot+1:]), strings.TrimSpace(when)
	for _, pattern := range []string{e.table, e.column} {
		if _, err := path.Match(pattern, ""); errors.Is(err, path.ErrBadPattern) {
			return e, fmt.Errorf("%q is no pattern that can be read", pattern)
		}
	}
	return e, nil
}

func (e holder) String() string {
	text := e.table + "." + e.column
	if e.as != "" {
		text += " " + e.as
	}
	if e.when != "" {
		text += " when " + e.when
	}
	return text
}

// reference returns what an entry of an identity says, without the table that it is about.
func (e holder) reference() (r Reference, err error) {
	r = Reference{Column: e.column, When: e.when}
	switch kind, where, _ := strings.Cut(e.as, " "); {
	case e.as == "":
	case kind == "bits" && where != "":
		if r.Bits = where; strings.Contains(e.column, "+") {
			r.Column, r.Columns = "", strings.Split(e.column, "+")
		}
		_, err = parseBits(where, r.columns())
	case kind == "path":
		r.Path = where
		_, err = parsePath(where)
	case kind == "list" && where != "":
		r.List = where
	default:
		err = fmt.Errorf("%q is not in whole columns, bits, documents or lists", e.String())
	}
	return r, err
}

// many reports whether the entry is a pattern.
func (e holder) many() bool { return strings.ContainsAny(e.table+e.column, `*?[\`) }

// plain reports whether the entry names just one column, once it is written.
func (e holder) plain() bool {
	read, err := parseHolder(e.String())
	return err == nil && read == e && !e.many()
}

// covers reports whether the entry is about a column, of several the first.
func (e holder) covers(table, column string) bool {
	first, _, _ := strings.Cut(e.column, "+")
	if !e.many() {
		return e.table == table && first == column
	}
	ofTable, err := path.Match(e.table, table)
	ofColumn, err2 := path.Match(first, column)
	return err == nil && err2 == nil && ofTable && ofColumn
}

// holder returns the column in the form in which it stands in the file of a plan.
func (o OpenColumn) holder(table string) holder {
	e := holder{table: table, column: o.Column, as: o.As, when: o.When}
	switch {
	case o.With == "":
	case o.As == asNames:
		e.as += " by " + o.With
	default:
		e.column += "+" + o.With
	}
	return e
}

// open is the opposite of holder.
func (e holder) open(candidate string) OpenColumn {
	o := OpenColumn{Column: e.column, Candidate: candidate, As: e.as, When: e.when}
	if names, leads, found := strings.Cut(e.as, " by "); found && names == asNames {
		o.As, o.With = names, leads
	} else if strings.HasPrefix(e.as, "bits ") {
		o.Column, o.With, _ = strings.Cut(e.column, "+")
	}
	return o
}

// validateIdentities looks at the identities and at the plain columns.
func (p *Plan) validateIdentities(errs *planErrors) {
	for name, id := range sorted(p.Identities) {
		if id == nil {
			errs.add("identities: %s is empty", name)
			continue
		}
		errs.check(p.Tables[id.table(name)] != nil, "identities: %s: there is no table %q in the plan", name,
			id.table(name))
		for _, text := range id.In {
			e, err := parseHolder(text)
			if err == nil {
				_, err = e.reference()
			}
			if err != nil {
				errs.add("identities: %s: %v", name, err)
				continue
			}
			errs.check(e.many() || p.Tables[e.table] != nil, "identities: %s: there is no table %q in the plan",
				name, e.table)
		}
	}
	for _, text := range p.Plain {
		names := func(table string) bool { return strings.HasPrefix(text, table+".") && len(text) > len(table)+1 }
		errs.check(slices.ContainsFunc(slices.Collect(maps.Keys(p.Tables)), names),
			"plain: %q is no column of a table of the plan, written as table.column", text)
	}
}

// Renumbering says which new values the keys of a table get that the servers have counted.
type Renumbering string

const (
	// Behind puts the keys of each server behind those of the servers before it, so those of the first server
	// stay. A reference that the plan forgets leads to a row of another server. In YAML it is written true.
	Behind Renumbering = "behind"
	// Apart puts the keys of the servers, side by side, into a range in which no value lies of any column that
	// holds keys of the table more often than by chance. A reference that the plan forgets leads to no row.
	Apart Renumbering = "apart"
)

// UnmarshalYAML also reads true, which is behind, and false. Validate refuses other words.
func (r *Renumbering) UnmarshalYAML(node *yaml.Node) error {
	err := node.Decode((*string)(r))
	switch *r {
	case "true":
		*r = Behind
	case "false":
		*r = ""
	}
	return err
}

// MarshalYAML writes true for Behind.
func (r Renumbering) MarshalYAML() (any, error) {
	if r == Behind {
		return true, nil
	}
	return string(r), nil
}

// Which servers get other keys where a table is renumbered apart.
const (
	apartAll    = "all"
	apartOthers = "others"
)

// GivenUp counts the rows of a table that the target does not get, by the reason. For each table, the rows
// of all servers are those of the target and these.
type GivenUp struct {
	// Collapsed rows became one with another row. Differing says how many of them had another value than the
	// row that stayed, besides the primary key, the columns by which they are equal, the reference of a row to
	// its own table, and what the plan adds up or compares: nobody finds these values again.
	Collapsed int64 `yaml:"collapsed,omitempty" json:"collapsed,omitempty"`
	Differing int64 `yaml:"differing,omitempty" json:"differing,omitempty"`
	// Orphans were dropped because the target does not have the row that they refer to.
	Orphans int64 `yaml:"orphans,omitempty" json:"orphans,omitempty"`
	// Filtered rows do not meet the condition of the plan.
	Filtered int64 `yaml:"filtered,omitempty" json:"filtered,omitempty"`
	// Skipped and Rebuilt are all rows of a table with the policy skip or rebuild. A table that is skipped
	// needs no number if the target has the rows that each server has, and no others.
	Skipped int64 `yaml:"skipped,omitempty" json:"skipped,omitempty"`
	Rebuilt int64 `yaml:"rebuilt,omitempty" json:"rebuilt,omitempty"`
	// Quarantined rows were refused by the target.
	Quarantined int64 `yaml:"quarantined,omitempty" json:"quarantined,omitempty"`
}

// rows returns how many rows are given up. Those that differ are among those that became one.
func (g GivenUp) rows() int64 {
	return g.Collapsed + g.Orphans + g.Filtered + g.Skipped + g.Rebuilt + g.Quarantined
}

func (g *GivenUp) add(o GivenUp) {
	g.Collapsed += o.Collapsed
	g.Differing += o.Differing
	g.Orphans += o.Orphans
	g.Filtered += o.Filtered
	g.Skipped += o.Skipped
	g.Rebuilt += o.Rebuilt
	g.Quarantined += o.Quarantined
}

// String returns the numbers as they stand in a plan.
func (g GivenUp) String() string { return oneLine(g) }

// line is the line of a table under gives_up.
func line(table string, g GivenUp) string { return oneLine(table) + ": " + oneLine(g) }

// wordRenamed stands in an expression of the plan for 1 in a row that gets a new name, and for 0 in others.
const wordRenamed = "{renamed}"
