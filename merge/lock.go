package merge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// Lock is what the program has found in each column of each table of the servers. It lies beside the plan, as
// plan.lock beside plan.yaml, and no person writes it: the plan says what was decided, and the lock what the
// data was like then. [Draft] makes the first one, and Check a new one each time. With [WithLock], Check and
// Run refuse columns that are new, or of which the data says something else now.
type Lock struct {
	// Version is the version of this format: 2.
	Version int `yaml:"version"`
	// Sum is the Hash. LoadLock compares it.
	Sum    string                 `yaml:"hash"`
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
	var of, parts []string
	for _, k := range c.Of {
		if k.As != "" {
			parts = append(parts, k.As)
		} else {
			of = append(of, k.Table+"."+k.Column)
		}
	}
	if len(of) > 0 && text == census.Reference.String() {
		text += " of " + strings.Join(of, " and ")
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
	return slices.ContainsFunc(c.Of, func(of LockedKey) bool {
		return of.Table == key.Table && of.Column == key.Column && of.As == ""
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
	text, err := json.Marshal(said) // maps are written in the order of their keys
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
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

// surveyor looks at what is in the columns of all servers.
type surveyor struct{ ws *workspace }

// take finds references in the data, in the columns of the tables for which looks is true.
func (s surveyor) take(ctx context.Context, looks func(table string) bool) ([]census.Finding, error) {
	sources := make([]*sqldb.DB, len(s.ws.servers))
	for i, server := range s.ws.servers {
		sources[i] = server.db
	}
	return census.Take(ctx, sources, s.ws.minGenerated, looks)
}

// survey says what is in the columns of the servers now. With an earlier lock it looks only into tables that
// have another number of rows, or other ends of their keys, and takes its word for the others. An UPDATE
// escapes that, as it escapes the comparison of the sources at the end of a check and during a run; verify
// finds it.
func (s surveyor) survey(ctx context.Context, earlier *Lock) (*Lock, error) {
	now, err := s.outline(ctx)
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for name, t := range now.Tables {
		var was LockedTable
		if earlier != nil {
			was = earlier.Tables[name]
		}
		types := func(a, b LockedColumn) bool { return a.Type == b.Type }
		if maps.Equal(t.Rows, was.Rows) && maps.EqualFunc(t.Columns, was.Columns, types) {
			now.Tables[name] = was
		} else {
			changed[name] = true
		}
	}
	if len(changed) == 0 {
		return now, nil
	}
	found, err := s.take(ctx, func(table string) bool { return changed[table] })
	now.add(found)
	return now, err
}

// known returns what the servers have in their columns.
func (s surveyor) known(ctx context.Context) (*Lock, error) {
	if s.ws.survey != nil {
		return s.ws.survey, nil
	}
	return s.survey(ctx, s.ws.lock)
}

// outline returns a lock without verdicts.
func (s surveyor) outline(ctx context.Context) (*Lock, error) {
	l := &Lock{Version: lockVersion, Tables: map[string]LockedTable{}}
	for i, server := range s.ws.servers {
		for _, name := range slices.Sorted(maps.Keys(server.db.Tables)) {
			t := server.db.Tables[name]
			rows, _, err := newSelection(s.ws, i).fingerprint(ctx,
				&sourceTable{ws: s.ws, server: i, from: t, order: t.Order(server.db.Kind)})
			if err != nil {
				return nil, err
			}
			if l.Tables[name].Rows == nil {
				l.Tables[name] = LockedTable{Rows: map[string]string{}, Columns: map[string]LockedColumn{}}
			}
			l.Tables[name].Rows[server.Name] = rows
			for _, c := range t.Columns {
				known := l.Tables[name].Columns[c.Name]
				known.Verdict = census.None.String()
				if known.Type == "" {
					known.Type = c.Declared
				} else if !slices.Contains(strings.Split(known.Type, " or "), c.Declared) {
					known.Type += " or " + c.Declared
				}
				l.Tables[name].Columns[c.Name] = known
			}
		}
	}
	return l, nil
}

// add puts down what a census has found.
func (l *Lock) add(found []census.Finding) {
	seen := map[census.Column]bool{}
	for _, f := range found {
		c := l.Tables[f.Table].Columns[f.Name]
		if !seen[f.Column] && f.As == "" {
			c = LockedColumn{Type: c.Type, Verdict: f.Verdict.String(), Hits: map[string]string{}}
			seen[f.Column] = true
		}
		if f.Verdict >= census.Possible {
			of := LockedKey{Table: f.Parent.Table, Column: f.Parent.Name, When: f.When, As: f.As, With: f.With}
			if f.Verdict == census.Possible {
				of.Evidence = f.Evidence
			}
			c.Of = append(c.Of, of)
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
	for _, name := range slices.Sorted(maps.Keys(columns)) {
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
