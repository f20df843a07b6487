package verify

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// tally is what is summed up over rows.
type tally struct {
	rows    digest
	extra   digest   // of the columns that only some sources have
	parents []digest // by reference: row and parent
	orphans []int64  // by reference: rows without their parent
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

func newSummer(s *stream) *summer {
	v := s.v
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

// leadsFar reports whether a row refers to a row that only another server has. Beside it, that server does
// not show what is in it.
func (m *summer) leadsFar(n int, values []any) bool {
	r := m.s.links[n]
	if len(r.far.any) == 0 {
		return false
	}
	var own []any
	for _, name := range r.columns {
		at := slices.IndexFunc(m.s.columns, func(c *column) bool { return c.name == name })
		if at < 0 {
			return false
		}
		own = append(own, values[at])
	}
	return r.far.any[r.key(m.v, own)]
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

// rowCheck compares the rows of a table, and their parents.
type rowCheck struct {
	v *verifier
	j *job
}

// holding is what the target has.
type holding struct {
	got []tally
	err error
}

// run reads the target while it reads the sources. If one of the two fails, the other one ends too.
func (c rowCheck) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	target := make(chan holding, 1)
	go func() {
		got, err := c.held(ctx)
		if err != nil {
			cancel(err)
		}
		target <- holding{got, err}
	}()
	want, attributed, err := c.wanted(ctx)
	if err != nil {
		cancel(err)
	}
	held := c.await(target) // nothing reads the target any more
	if err != nil || held.err != nil {
		return context.Cause(ctx) // the first of the two errors
	}
	c.settle(want, held.got, attributed)
	return nil
}

// await waits for the target, and tells of its rows meanwhile.
func (c rowCheck) await(target <-chan holding) holding {
	v, j := c.v, c.j
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
func (c rowCheck) wanted(ctx context.Context) (want []tally, attributed bool, err error) {
	v, j := c.v, c.j
	want = make([]tally, len(v.sources))
	attributed = j.counted()
	for i, from := range j.from {
		if from == nil {
			continue
		}
		s := newStream(v, j, i, append(append([]*column(nil), j.columns...), j.extra[i]...))
		e, m := newExpecter(s), newSummer(s)
		err := s.each(ctx, func(values []any) error {
			j.read[i]++
			keep, err := e.row(values)
			if err != nil || !keep {
				j.left++
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
		if j.names.len() > 0 {
			v.metNames(j, i, e.met)
		}
	}
	return want, attributed, nil
}

// held sums up the target: by server as far as its keys tell, and last what belongs to no server.
func (c rowCheck) held(ctx context.Context) ([]tally, error) {
	v, j := c.v, c.j
	columns := append([]*column(nil), j.columns...)
	from, to := make([]int, len(v.sources)+1), make([]int, len(v.sources)+1)
	for i := range j.extra {
		from[i] = len(columns)
		columns = append(columns, j.extra[i]...)
		to[i] = len(columns)
	}
	got := make([]tally, len(v.sources)+1)
	s := newStream(v, j, -1, columns)
	s.tell = func(rows int) { v.ahead.Add(int64(rows)) }
	m := newSummer(s)
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
func (c rowCheck) settle(want, got []tally, attributed bool) {
	v, j := c.v, c.j
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
	j.present = held.rows.rows
	if !attributed {
		line("", all, held)
	} else {
		for i, s := range v.plan.Servers {
			if j.from[i] == nil {
				continue
			}
			line(s.Name, want[i], got[i])
			if len(j.extra[i]) > 0 {
				v.compare("checksum", j.name, s.Name,
					fmt.Sprintf("%d columns that not every server has", len(j.extra[i])), want[i].extra.String(),
					got[i].extra.String())
			}
		}
		v.compare("rows", j.name, "", "of no server", "0", fmt.Sprint(got[len(want)].rows.rows))
	}
	held.orphanLines(v, j)
}

// orphanLines compares the number of rows of the target without their parents with 0.
func (t tally) orphanLines(v *verifier, j *job) {
	for n, r := range j.links {
		p := v.plan.Tables[r.parent]
		if p == nil || p.Policy == policySkip && !r.enforced || r.inside() || r.when != "" {
			continue
		}
		orphans := int64(0)
		if t.orphans != nil {
			orphans = t.orphans[n]
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
