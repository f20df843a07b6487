package verify

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// tally is what is summed up over rows.
type tally struct {
	rows    digest
	extra   digest   // of the columns that only some sources have
	parents []digest // by reference: row and parent
	orphans []int64  // by reference: rows without their parent
}

// summer sums up the rows of a stream.
type summer struct {
	v       *verifier
	j       *job
	s       *stream
	forms   []form
	common  int      // how many of the columns every source has
	natural [][]form // by reference
	key     []int    // positions of the primary key among the columns
	buffer  []byte
}

func (v *verifier) newSummer(s *stream) *summer {
	m := &summer{v: v, j: s.j, s: s, forms: v.forms(s.j, s.columns), common: len(s.j.columns)}
	for _, r := range s.links {
		var forms []form
		if parent := v.jobs[r.parent]; parent != nil {
			for _, name := range r.natural {
				forms = append(forms, v.form(parent, parent.to.column(name), v.exact()))
			}
		}
		m.natural = append(m.natural, forms)
	}
	for _, name := range s.j.to.primary {
		for i, c := range s.columns {
			if c.name == name {
				m.key = append(m.key, i)
			}
		}
	}
	if len(m.key) != len(s.j.to.primary) {
		m.key = nil
	}
	return m
}

// add adds a row to a tally. Only the extra columns from one position on to another are the server's.
func (m *summer) add(t *tally, values []any, from, to int) {
	if t.parents == nil {
		t.parents, t.orphans = make([]digest, len(m.s.links)), make([]int64, len(m.s.links))
	}
	b := m.buffer[:0]
	for i, f := range m.forms[:m.common] {
		b = f.append(b, values[i])
	}
	row := sumOf(b)
	t.rows.add(row)
	if from < to {
		b = append(b[:0], row[:]...)
		for i := from; i < to; i++ {
			b = m.forms[i].append(b, values[i])
		}
		t.extra.add(sumOf(b))
	}
	for n := range m.s.links {
		there := m.s.there[n]
		if there < 0 || !m.refers(n, values) {
			continue
		}
		found := textOf(values[there]) == "1"
		if !found {
			t.orphans[n]++
		}
		if len(m.s.natural[n]) == 0 || m.leadsFar(n, values) {
			continue
		}
		b = b[:0]
		for _, at := range m.key {
			b = m.forms[at].append(b, values[at])
		}
		if m.key == nil {
			b = append(b, row[:]...)
		}
		for i, at := range m.s.natural[n] {
			b = m.natural[n][i].append(b, values[at])
		}
		t.parents[n].add(sumOf(b))
	}
	m.buffer = b
}

// leadsFar reports whether a reference leads to a row that only another server has.
func (m *summer) leadsFar(n int, values []any) bool {
	if len(m.s.links[n].far.any) == 0 {
		return false
	}
	at := slices.IndexFunc(m.s.columns, func(c *column) bool { return c.name == m.s.links[n].columns[0] })
	return at >= 0 && m.s.links[n].leadsFar(values[at])
}

// refers reports whether a row has the reference.
func (m *summer) refers(n int, values []any) bool {
	for _, name := range m.s.links[n].columns {
		for i, c := range m.s.columns {
			if c.name == name && values[i] == nil {
				return false
			}
		}
	}
	return true
}

// owner returns the server that a key of the target comes from, or -1.
func (v *verifier) owner(j *job, key any) int {
	id, whole := key.(int64)
	if !whole {
		var err error
		if id, err = strconv.ParseInt(textOf(key), 10, 64); err != nil {
			return -1
		}
	}
	switch {
	case id >= v.plan.Counted:
		number := id >> v.plan.Shift & v.plan.Mask
		for i, s := range v.plan.Servers {
			for _, own := range s.Numbers {
				if own == number {
					return i
				}
			}
		}
	case j.offsets != nil && id >= 0:
		for i := range j.upper {
			if j.upper[i] >= 0 && id <= j.upper[i] {
				return i
			}
		}
	}
	return -1
}

// holding is what the target has.
type holding struct {
	got []tally
	err error
}

// rows compares the rows of a table, and their parents. The target is read while the sources are. If one of
// the two fails, the other one ends too.
func (v *verifier) rows(ctx context.Context, j *job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	target := make(chan holding, 1)
	go func() {
		got, err := v.held(ctx, j)
		if err != nil {
			cancel(err)
		}
		target <- holding{got, err}
	}()
	want, attributed, err := v.wanted(ctx, j)
	if err != nil {
		cancel(err)
	}
	held := v.await(j, target) // nothing reads the target any more
	if err != nil || held.err != nil {
		return context.Cause(ctx) // the first of the two errors
	}
	v.settle(j, want, held.got, attributed)
	return nil
}

// await waits for the target, and tells of its rows meanwhile.
func (v *verifier) await(j *job, target <-chan holding) holding {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case held := <-target:
			v.progress(j.name, v.target.Name, 0)
			return held
		case <-tick.C:
			v.progress(j.name, v.target.Name, 0)
		}
	}
}

// wanted sums up, by source, what the target has to hold, and reports whether the keys of the rows tell where
// each comes from.
func (v *verifier) wanted(ctx context.Context, j *job) (want []tally, attributed bool, err error) {
	want = make([]tally, len(v.sources))
	attributed = j.counted()
	for i, from := range j.from {
		if from == nil {
			continue
		}
		s := v.newStream(j, i, append(append([]*column(nil), j.columns...), j.extra[i]...))
		e, m := v.newExpecter(s), v.newSummer(s)
		err := s.each(ctx, func(values []any) error {
			keep, err := e.row(ctx, values)
			if err != nil || !keep {
				return err
			}
			if attributed && (len(m.key) != 1 || v.owner(j, values[m.key[0]]) != i) {
				attributed = false
			}
			m.add(&want[i], values, len(j.columns), len(s.columns))
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		v.named(j, i, e)
	}
	return want, attributed, nil
}

// held sums up the target: by server as far as its keys tell, and last what belongs to no server.
func (v *verifier) held(ctx context.Context, j *job) ([]tally, error) {
	columns := append([]*column(nil), j.columns...)
	from, to := make([]int, len(v.sources)+1), make([]int, len(v.sources)+1)
	for i := range j.extra {
		from[i] = len(columns)
		columns = append(columns, j.extra[i]...)
		to[i] = len(columns)
	}
	got := make([]tally, len(v.sources)+1)
	s := v.newStream(j, -1, columns)
	s.tell = func(rows int) { v.ahead.Add(int64(rows)) }
	m := v.newSummer(s)
	tells := j.counted() && len(m.key) == 1
	err := s.each(ctx, func(values []any) error {
		server := len(v.sources)
		if tells {
			if owner := v.owner(j, values[m.key[0]]); owner >= 0 {
				server = owner
			}
		}
		m.add(&got[server], values, from[server], to[server])
		return nil
	})
	return got, err
}

// settle compares the tallies.
func (v *verifier) settle(j *job, want, got []tally, attributed bool) {
	columns := fmt.Sprintf("%d columns", len(j.columns))
	line := func(server string, w, g tally) {
		v.compare("rows", j.name, server, "", fmt.Sprint(w.rows.rows), fmt.Sprint(g.rows.rows))
		v.compare("checksum", j.name, server, columns, w.rows.String(), g.rows.String())
		for n, r := range j.links {
			if len(r.natural) > 0 && (w.parents != nil || g.parents != nil) {
				v.compare("parents", j.name, server, r.String(), parentText(w, n), parentText(g, n))
			}
		}
	}
	var all, held tally
	for i := range want {
		all.merge(want[i])
	}
	for i := range got {
		held.merge(got[i])
	}
	if !attributed {
		line("", all, held)
	} else {
		for i, s := range v.plan.Servers {
			if j.from[i] == nil {
				continue
			}
			line(s.Name, want[i], got[i])
			if len(j.extra[i]) > 0 {
				v.compare(
					"checksum",
					j.name,
					s.Name,
					fmt.Sprintf("%d columns that not every server has", len(j.extra[i])),
					want[i].extra.String(),
					got[i].extra.String(),
				)
			}
		}
		v.compare("rows", j.name, "", "of no server", "0", fmt.Sprint(got[len(want)].rows.rows))
	}
	v.orphanLines(j, held)
}

// orphanLines compares the number of rows of the target without their parents with 0.
func (v *verifier) orphanLines(j *job, held tally) {
	for n, r := range j.links {
		p := v.plan.Tables[r.parent]
		if p == nil || p.Policy == policySkip && !r.enforced || r.path != "" || r.list != "" || r.when != "" {
			continue
		}
		orphans := int64(0)
		if held.orphans != nil {
			orphans = held.orphans[n]
		}
		v.compare("orphans", j.name, "", r.String(), "0", fmt.Sprint(orphans))
	}
}

func parentText(t tally, n int) string {
	if t.parents == nil {
		return digest{}.String()
	}
	return t.parents[n].String()
}

func (t *tally) merge(o tally) {
	t.rows.merge(o.rows)
	if o.parents == nil {
		return
	}
	if t.parents == nil {
		t.parents, t.orphans = make([]digest, len(o.parents)), make([]int64, len(o.orphans))
	}
	for n := range o.parents {
		t.parents[n].merge(o.parents[n])
		t.orphans[n] += o.orphans[n]
	}
}
