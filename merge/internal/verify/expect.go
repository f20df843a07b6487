package verify

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// expecter computes what the target has to hold for the rows of a source.
type expecter struct {
	v      *verifier
	j      *job
	s      *stream
	server int
	key    []*column // of the primary key
	at     map[string]int
	forms  []form
	buffer []byte
	met    int64 // rows of the list of renames
	copies []copied

	changes map[int]any       // of the current row, by column
	passed  map[int][]passage // by column of the current row, from where references lead
}

func (v *verifier) newExpecter(s *stream) *expecter {
	e := &expecter{v: v, j: s.j, s: s, server: s.server, at: map[string]int{}, forms: v.forms(s.j, s.columns),
		changes: map[int]any{}, passed: map[int][]passage{}}
	for i, c := range s.columns {
		e.at[c.name] = i
	}
	for _, name := range s.j.to.primary {
		if s.from.column(name) != nil {
			e.key = append(e.key, s.j.to.column(name))
		}
	}
	e.findCopies()
	return e
}

// copied is a column that repeats the name of the row to which another column refers.
type copied struct {
	owner   *job
	key     []*column // of the owner
	ref, at int
}

func (e *expecter) findCopies() {
	for _, owner := range e.v.jobs {
		if owner.names == nil {
			continue
		}
		for _, c := range owner.plan.Rename.Copies {
			ref, has := e.at[c.Ref]
			at, hasToo := e.at[c.Column]
			if c.Table == e.j.name && has && hasToo {
				key := []*column{owner.to.column(owner.to.primary[0])}
				e.copies = append(e.copies, copied{owner, key, ref, at})
			}
		}
	}
}

// keyOf returns the key of a row on its server, as the lists of the merge name it.
func (e *expecter) keyOf(values []any) string {
	key := make([]any, len(e.s.key))
	for i, at := range e.s.key {
		key[i] = values[at]
	}
	return keyText(key, e.key, e.v.exactly(e.server))
}

// at identifies a row of a server in an index.
func rowAt(server int, key string) sum {
	return sumOf([]byte("row " + strconv.Itoa(server) + " " + key))
}

// moveKey identifies values that children of a server refer to.
func moveKey(server int, targets []string, values []byte) sum {
	return sumOf(append([]byte(strconv.Itoa(server)+" "+strings.Join(targets, "\x00")+"\x00\x00"), values...))
}

// row changes the values of a row to those that it has to have in the target. It returns false if the row is
// not there.
func (e *expecter) row(ctx context.Context, values []any) (bool, error) {
	key := ""
	if e.j.refused != nil || e.j.names != nil { // for nothing else it is needed
		key = e.keyOf(values)
	}
	if e.j.refused != nil {
		if _, refused, err := e.j.refused.get(rowAt(e.server, key)); refused || err != nil {
			return false, err
		}
	}
	clear(e.changes)
	if err := e.follow(values, e.changes); err != nil {
		return false, err
	}
	if e.j.offsets != nil && len(e.s.key) == 1 {
		if name := e.j.to.primary[0]; e.at[name] == e.s.key[0] {
			e.changes[e.s.key[0]] = e.v.shifted(e.j, e.server, values[e.s.key[0]])
		}
	}
	if err := e.rename(key, values, e.changes); err != nil {
		return false, err
	}
	for at, value := range e.changes {
		values[at] = value
	}
	if e.j.plan.Policy == policyCustom {
		return e.custom(ctx, values)
	}
	return true, nil
}

// shifted returns a counted key after its table was renumbered.
func (v *verifier) shifted(parent *job, server int, value any) any {
	n, err := strconv.ParseInt(plainNumber(textOf(value)), 10, 64) // a column with decimals shows 2 as 2.00
	if value == nil || err != nil || n < 0 || n >= v.plan.Counted || n == 0 && !parent.zeros[server] {
		return value
	}
	return n + parent.offsets[server]
}

// follow makes the references of a row follow their parents.
func (e *expecter) follow(values []any, changes map[int]any) error {
	clear(e.passed)
	for n, r := range e.s.links {
		if e.s.when[n] >= 0 && textOf(values[e.s.when[n]]) != "1" {
			continue
		}
		parent := e.v.jobs[r.parent]
		held := !slices.ContainsFunc(r.columns, func(name string) bool {
			at, ok := e.at[name]
			return !ok || values[at] == nil
		})
		if !held {
			continue
		}
		if there := e.s.there[n]; there >= 0 && e.j.plan.Orphans == "null" && textOf(values[there]) != "1" {
			for _, name := range r.columns {
				if e.j.to.column(name).nullable {
					changes[e.at[name]] = nil
				}
			}
			continue
		}
		if parent == nil {
			continue
		}
		if r.path != "" || r.list != "" {
			if err := e.inside(r, parent, values, changes); err != nil {
				return err
			}
			continue
		}
		if err := e.moved(r, parent, values, changes); err != nil {
			return err
		}
	}
	return nil
}

// moved looks up where the parent of a row is now.
func (e *expecter) moved(r reference, parent *job, values []any, changes map[int]any) error {
	if parent.moved != nil {
		e.buffer = e.buffer[:0]
		for i, name := range r.columns {
			f := form{class: parent.to.column(r.targets[i]).class, digits: -1}
			e.buffer = f.append(e.buffer, values[e.at[name]])
		}
		text, ok, err := parent.moved.get(moveKey(e.server, r.targets, e.buffer))
		if err != nil || !ok {
			return err
		}
		var now [][]byte
		if err := json.Unmarshal([]byte(text), &now); err != nil {
			return err
		}
		for i, name := range r.columns {
			changes[e.at[name]] = e.stored(e.at[name], unpacked(now[i]))
		}
		return nil
	}
	for i, name := range r.columns {
		at := e.at[name]
		switch {
		case parent.offsets != nil && r.targets[i] == parent.to.primary[0]:
			changes[at] = e.stored(at, e.v.shifted(parent, e.server, values[at]))
		case parent.names != nil && r.targets[i] == parent.plan.Rename.Column:
			text, ok, err := parent.names.get(
				sumOf([]byte("name " + strconv.Itoa(e.server) + " " + textOf(values[at]))),
			)
			if err != nil {
				return err
			}
			if ok {
				changes[at] = text
			}
		default:
			if err := e.onward(r, i, parent, values, changes); err != nil {
				return err
			}
		}
	}
	return nil
}

// stored returns a key as SQLite stores it in a column: a column of numbers makes a number of a text that is
// one, and a column of texts the other way round.
func (e *expecter) stored(at int, key any) any {
	f := e.forms[at]
	if !f.exact {
		return key
	}
	switch key := key.(type) {
	case int64:
		if f.class == classText {
			return strconv.FormatInt(key, 10)
		}
	case string:
		if n, err := strconv.ParseInt(key, 10, 64); err == nil && f.class == classNumber {
			return n
		}
	}
	return key
}

// onward follows a column of a reference that leads to a column which itself is a reference, such as the key
// of a profile that is the key of its role.
func (e *expecter) onward(r reference, i int, parent *job, values []any, changes map[int]any) error {
	for _, next := range parent.links {
		far := e.v.jobs[next.parent]
		if far == nil || far == parent || len(next.columns) != 1 || next.columns[0] != r.targets[i] ||
			next.path+next.list+next.when != "" || slices.Contains(r.passed, parent.name) {
			continue
		}
		l := link{columns: r.columns[i : i+1], parent: next.parent, targets: next.targets}
		passed := append(slices.Clone(r.passed), parent.name)
		return e.moved(reference{link: l, passed: passed}, far, values, changes)
	}
	return nil
}

// rename gives a row its new name, and the names of others that it repeats.
func (e *expecter) rename(key string, values []any, changes map[int]any) error {
	if r := e.j.plan.Rename; r != nil && e.j.names != nil {
		text, ok, err := e.j.names.get(rowAt(e.server, key))
		if err != nil {
			return err
		}
		if at, has := e.at[r.Column]; ok && has {
			before, name, _ := strings.Cut(text, "\x00")
			if textOf(values[at]) == before {
				e.met++
			}
			changes[at] = name
			for _, d := range r.Derived {
				if at, has := e.at[d.Column]; has {
					changes[at] = derived(d.As, name)
				}
			}
		}
	}
	for _, c := range e.copies {
		if values[c.ref] == nil {
			continue
		}
		owner := keyText([]any{values[c.ref]}, c.key, e.v.exactly(e.server))
		text, ok, err := c.owner.names.get(rowAt(e.server, owner))
		if err != nil {
			return err
		}
		if ok {
			_, name, _ := strings.Cut(text, "\x00")
			changes[c.at] = name
		}
	}
	return nil
}

func derived(as, name string) string {
	switch as {
	case "lower":
		return strings.ToLower(name)
	case "upper":
		return strings.ToUpper(name)
	}
	return name
}

// custom asks the function of the plan.
func (e *expecter) custom(ctx context.Context, values []any) (bool, error) {
	if e.j.plan.Func == nil {
		return true, nil
	}
	names, row := make([]string, len(e.s.columns)), make([]any, len(e.s.columns))
	for i, c := range e.s.columns {
		names[i], row[i] = c.name, e.forms[i].goValue(values[i])
	}
	keep, err := e.j.plan.Func(ctx, e.server, names, row)
	copy(values, row)
	return keep, err
}
