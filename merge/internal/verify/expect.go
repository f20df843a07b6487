package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// expecter computes what the target has to hold for the rows of a source.
type expecter struct {
	*stream
	keyColumns []*column // of the primary key that rows have on their server
	primary    []*column // of that which they have in the target
	buffer     []byte
	copies     []copied

	listed  *entry            // that of the current row
	changes map[int]any       // of the current row, by column
	passed  map[int][]passage // by column of the current row, from where references lead
}

func newExpecter(s *stream) *expecter {
	e := &expecter{stream: s, changes: map[int]any{}, passed: map[int][]passage{}}
	for _, name := range s.rowKey() {
		if s.table.column(name) != nil {
			e.keyColumns = append(e.keyColumns, s.target.column(name))
		}
	}
	for _, name := range s.target.primary {
		e.primary = append(e.primary, s.target.column(name))
	}
	e.findCopies()
	return e
}

// entry is what the list of renames says of a row.
type entry struct{ key, before, name string }

// entryOf takes an entry out of an index.
func entryOf(text string) *entry {
	key, names, _ := strings.Cut(text, "\x00")
	before, name, _ := strings.Cut(names, "\x00")
	return &entry{key, before, name}
}

// copied is a column that repeats the name of the row to which another column refers.
type copied struct {
	owner    *job
	key      []*column // of the owner
	ref, pos int       // ref is -1 if nothing leads to the row
}

func (e *expecter) findCopies() {
	for _, owner := range e.v.jobs {
		if owner.names == nil {
			continue
		}
		for _, c := range owner.plan.Rename.Copies {
			ref, has := e.positions[c.Ref]
			pos, hasToo := e.positions[c.Column]
			switch {
			case c.Table != e.name || !hasToo:
			case c.Ref == "":
				e.copies = append(e.copies, copied{owner, nil, -1, pos})
			case has:
				key := cmp.Or(owner.identity(), e.target.column(c.Ref)) // if the target has lost the key
				if len(owner.target.primary) == 1 {
					key = owner.target.column(owner.target.primary[0])
				}
				e.copies = append(e.copies, copied{owner, []*column{key}, ref, pos})
			}
		}
	}
}

// keyOf returns the key of a row on its server, as the lists of the merge name it.
func (e *expecter) keyOf(values []any) string {
	key := make([]any, len(e.key))
	for i, pos := range e.key {
		key[i] = values[pos]
	}
	return keyText(key, e.keyColumns, e.exactly())
}

// newKey returns the key that a row has in the target, as the list of renames names it.
func (e *expecter) newKey(values []any) string {
	key := make([]any, len(e.primary))
	for i, c := range e.primary {
		if pos, has := e.positions[c.name]; has {
			key[i] = values[pos]
		}
	}
	return keyText(key, e.primary, e.v.exact())
}

// moveKey identifies values that children of a server refer to.
func moveKey(server int, targets []string, values []byte) sum {
	return sumOf(append([]byte(strconv.Itoa(server)+" "+strings.Join(targets, "\x00")+"\x00\x00"), values...))
}

// row changes the values of a row to those that it has to have in the target. It returns false if the row is
// not there.
func (e *expecter) row(values []any) bool {
	key := ""
	if e.refused != nil || e.names != nil { // for nothing else it is needed
		key = e.keyOf(values)
		if _, refused := e.refused.get(rowAt(e.server, key)); refused {
			return false
		}
	}
	clear(e.changes)
	e.follow(values, e.changes)
	if e.moves {
		if pos, has := e.positions[e.identity().name]; has {
			e.changes[pos] = e.shifted(values[pos])
		}
	}
	e.rename(key, values, e.changes)
	for pos, value := range e.changes {
		values[pos] = value
	}
	if e.listed != nil && e.listed.key == e.newKey(values) {
		e.met++
	}
	return true
}

// follow makes the references of a row follow their parents.
func (e *expecter) follow(values []any, changes map[int]any) {
	clear(e.passed)
	for n := range e.edges {
		edge := &e.edges[n]
		r, parent := edge.reference, e.v.jobs[edge.parent]
		lacks := func(name string) bool {
			pos, ok := e.positions[name]
			return !ok || values[pos] == nil
		}
		if edge.applies >= 0 && textOf(values[edge.applies]) != "1" ||
			slices.ContainsFunc(r.columns, lacks) || slices.ContainsFunc(r.rest, lacks) {
			continue
		}
		if edge.there >= 0 && e.plan.Orphans == "null" && textOf(values[edge.there]) != "1" {
			for _, name := range r.columns {
				if e.target.column(name).nullable {
					changes[e.positions[name]] = nil
				}
			}
			continue
		}
		if parent == nil {
			continue
		}
		switch {
		case r.bits != "":
			e.packed(r, parent, values, changes)
		case r.inside():
			e.inside(r, parent, values, changes)
		default:
			e.follows(r, parent, values, changes)
		}
	}
}

// follows looks up where the parent of a row is now.
func (e *expecter) follows(r reference, parent *job, values []any, changes map[int]any) {
	if parent.moved != nil {
		e.buffer = e.buffer[:0]
		for i, name := range r.columns {
			c := parent.target.column(r.targets[i])
			if c == nil {
				return // the target lacks it or computes it, and no row became another one by it
			}
			e.buffer = form{class: c.class, digits: -1}.append(e.buffer, values[e.positions[name]])
		}
		text, _ := parent.moved.get(moveKey(e.server, r.targets, e.buffer))
		for i, now := range restored([]byte(text)) {
			pos := e.positions[r.columns[i]]
			changes[pos] = e.stored(pos, values[pos], now)
		}
		return
	}
	for i, name := range r.columns {
		pos := e.positions[name]
		switch {
		case parent.moves && r.targets[i] == parent.identity().name:
			changes[pos] = e.stored(pos, values[pos], parent.side(e.server).shifted(values[pos]))
		case parent.names != nil && r.targets[i] == parent.plan.Rename.Column:
			e.byName(parent, values, pos, changes)
		default:
			e.onward(r, i, parent, values, changes)
		}
	}
}

// byName gives a column that repeats the old name of a row of its server the new one.
func (e *expecter) byName(owner *job, values []any, pos int, changes map[int]any) {
	key := "name " + strconv.Itoa(e.server) + " " + textOf(values[pos])
	if text, ok := owner.names.get(sumOf([]byte(key))); ok {
		changes[pos] = text
	}
}

// stored returns a key as SQLite stores it in a column: a column of numbers makes a number of a text that is
// one, and a column of texts the other way round. A column without a type keeps what the value before it was.
func (e *expecter) stored(pos int, before, key any) any {
	f := e.forms[pos]
	if !f.exact {
		return key
	}
	_, number := before.(int64)
	keeps := number && e.columns[pos].declared == ""
	switch key := key.(type) {
	case int64:
		if f.class == classText && !keeps {
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
func (e *expecter) onward(r reference, i int, parent *job, values []any, changes map[int]any) {
	for _, next := range parent.links {
		far := e.v.jobs[next.parent]
		if far == nil || far == parent || len(next.columns) != 1 || next.columns[0] != r.targets[i] ||
			next.inside() || next.when != "" || slices.Contains(r.passed, parent.name) {
			continue
		}
		l := link{columns: r.columns[i : i+1], parent: next.parent, targets: next.targets}
		passed := append(slices.Clone(r.passed), parent.name)
		e.follows(reference{link: l, passed: passed}, far, values, changes)
		return
	}
}

// rename gives a row its new name, and the names of others that it repeats.
func (e *expecter) rename(key string, values []any, changes map[int]any) {
	e.listed = nil
	if r := e.plan.Rename; r != nil && e.names != nil {
		text, ok := e.names.get(rowAt(e.server, key))
		if pos, has := e.positions[r.Column]; ok && has {
			now := entryOf(text)
			if textOf(values[pos]) == now.before && (e.named < 0 || textOf(values[e.named]) == "1") {
				e.listed = now
			}
			changes[pos] = now.name
			for _, d := range r.Derived {
				if pos, has := e.positions[d.Column]; has {
					changes[pos] = derived(d.As, now.name)
				}
			}
			for pos, other := range e.renamed {
				changes[pos] = values[other]
			}
		}
	}
	for _, c := range e.copies {
		if values[c.pos] == nil || c.ref >= 0 && values[c.ref] == nil {
			continue
		}
		if c.ref < 0 {
			e.byName(c.owner, values, c.pos, changes)
			continue
		}
		owner := keyText([]any{values[c.ref]}, c.key, e.exactly())
		text, ok := c.owner.names.get(rowAt(e.server, owner))
		if now := entryOf(text); ok && strings.EqualFold(strings.TrimSpace(textOf(values[c.pos])),
			strings.TrimSpace(now.before)) {
			changes[c.pos] = now.name
		}
	}
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

// passage is what a reference made of the keys at one place of a column.
type passage struct {
	place string // the steps of the path; all lists are one place
	whole string // the column, if only this reference led out of it
}

// inside makes the keys inside a column follow their parents: those in a document or in a list. A key moves
// once, however many references lead from its place, and they have to agree where it is now.
func (e *expecter) inside(r reference, parent *job, values []any, changes map[int]any) {
	pos := e.positions[r.columns[0]]
	here := passage{place: "list"}
	if r.list == "" {
		here.place = "path\x00" + strings.Join(steps(r.path), "\x00")
	}
	alone, isDocument := e.followed(r, parent, textOf(values[pos]))
	if !isDocument {
		return
	}
	here.whole = alone
	for _, other := range e.passed[pos] {
		if other.place != here.place && other.place != "list" && here.place != "list" {
			continue // no key is at two places of a document
		}
		if other.whole != alone {
			e.v.fail(fmt.Errorf("column %s: two references lead the same keys to different rows", r.columns[0]))
		}
		return
	}
	now := alone
	if len(e.passed[pos]) > 0 { // by other references, which lead from other places
		now, _ = e.followed(r, parent, textOf(changes[pos]))
	}
	changes[pos] = now
	if _, isBytes := values[pos].([]byte); isBytes { // SQLite tells them from a text
		changes[pos] = []byte(now)
	}
	e.passed[pos] = append(e.passed[pos], here)
}

// followed returns a column after its keys have followed one reference. It returns false if the column should
// be a document and is none, so it stays.
func (e *expecter) followed(r reference, parent *job, text string) (string, bool) {
	if r.list != "" {
		return e.list(r, parent, text), true
	}
	document, _, is := readDocument(text)
	if !is {
		return "", false
	}
	now, err := json.Marshal(e.walk(r, parent, document, steps(r.path)))
	if err != nil { // a key that looks like a number is none in a document
		e.v.fail(fmt.Errorf("column %s: %w", r.columns[0], err))
	}
	return string(now), true
}

func (e *expecter) list(r reference, parent *job, text string) string {
	separator, begin, end := r.list, "", ""
	if r.list == "array" {
		separator, begin, end = ",", "{", "}"
		text = strings.TrimSuffix(strings.TrimPrefix(text, begin), end)
	}
	if text == "" {
		return begin + end
	}
	parts := strings.Split(text, separator)
	for i, part := range parts {
		if key := strings.TrimSpace(part); key != "" {
			parts[i] = strings.Replace(part, key, e.one(r, parent, key), 1)
		}
	}
	return begin + strings.Join(parts, separator) + end
}

func (e *expecter) one(r reference, parent *job, key string) string {
	whole := reference{link: link{columns: r.columns, parent: r.parent, targets: r.targets}}
	changes, values := map[int]any{}, make([]any, len(e.columns))
	pos := e.positions[r.columns[0]]
	values[pos] = key
	e.follows(whole, parent, values, changes)
	now, ok := changes[pos]
	switch {
	case !ok:
		return key
	case e.keys(r, parent) == classNumber:
		return plainNumber(textOf(now))
	}
	return textOf(now)
}

// packed makes the key in some bits of one number, or of several, follow its parent.
func (e *expecter) packed(r reference, parent *job, values []any, changes map[int]any) {
	var first, last int
	if _, err := fmt.Sscanf(r.bits, "%d-%d", &first, &last); err != nil {
		e.v.fail(err)
	}
	size := uint(last - first + 1)
	ones := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), size), big.NewInt(1))
	columns := slices.Concat(r.columns, r.rest)
	numbers, key := make([]*big.Int, len(columns)), new(big.Int)
	for i, name := range columns {
		n, ok := new(big.Int).SetString(plainNumber(textOf(values[e.positions[name]])), 10)
		if !ok {
			return // the target has to have what it was
		}
		numbers[i] = n
		part := new(big.Int).And(new(big.Int).Rsh(n, uint(first)), ones)
		key.Or(key, part.Lsh(part, uint(i)*size))
	}
	now := e.one(r, parent, key.String())
	next, ok := new(big.Int).SetString(now, 10)
	if !ok {
		e.v.fail(fmt.Errorf("column %s: the new key %q is no number", r.columns[0], now))
	}
	if !ok || next.Cmp(key) == 0 {
		return
	}
	for i, name := range columns {
		pos, whole := e.positions[name], numbers[i]
		if changed, ok := changes[pos]; ok { // other bits of it
			whole, _ = new(big.Int).SetString(plainNumber(textOf(changed)), 10)
		}
		old := new(big.Int).And(new(big.Int).Rsh(numbers[i], uint(first)), ones)
		part := new(big.Int).And(new(big.Int).Rsh(next, uint(i)*size), ones)
		difference := part.Sub(part, old)
		whole = new(big.Int).Add(whole, difference.Lsh(difference, uint(first)))
		if changes[pos] = whole.String(); whole.IsInt64() {
			changes[pos] = e.stored(pos, values[pos], whole.Int64())
		}
	}
}

// keys is what the keys that a reference holds are compared as.
func (e *expecter) keys(r reference, parent *job) class {
	if c := parent.target.column(r.targets[0]); c != nil {
		return c.class
	}
	return classText
}

// pathSteps are the steps of a path: all elements of a list, or a name that may be quoted.
var pathSteps = regexp.MustCompile(`\[\*\]|\."([^"]*)"|\.([^.\[]+)`)

// steps splits a path such as $.items[*]."a.b".
func steps(path string) (all []string) {
	for _, found := range pathSteps.FindAllStringSubmatch(path, -1) {
		name := found[1] + found[2]
		if found[0] == "[*]" {
			name = found[0]
		}
		all = append(all, name)
	}
	return all
}

// walk moves the keys that a path leads to.
func (e *expecter) walk(r reference, parent *job, document any, path []string) any {
	switch v := document.(type) {
	case json.Number:
		if len(path) == 0 {
			now := e.one(r, parent, v.String())
			n, broken := strconv.ParseInt(now, 10, 64)
			keys := e.keys(r, parent)
			if keys == classNumber || keys == classFloat || broken == nil && strconv.FormatInt(n, 10) == now {
				return json.Number(now)
			}
			return now // a text that is no number, or is one in another form
		}
	case string:
		if len(path) == 0 {
			return e.one(r, parent, v)
		}
	case map[string]any:
		if len(path) > 0 && v[path[0]] != nil {
			v[path[0]] = e.walk(r, parent, v[path[0]], path[1:])
		}
	case []any:
		if len(path) > 0 && path[0] == "[*]" {
			for i := range v {
				v[i] = e.walk(r, parent, v[i], path[1:])
			}
		}
	}
	return document
}
