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

func newTally(links int) *tally {
	return &tally{parents: make([]digest, links), orphans: make([]int64, links)}
}

func (t *tally) merge(o *tally) {
	t.rows.merge(o.rows)
	for n := range o.parents {
		t.parents[n].merge(o.parents[n])
		t.orphans[n] += o.orphans[n]
	}
}

// orphanLines compares the number of rows of the target without their parents with 0.
func (t *tally) orphanLines(j *job) {
	for n, r := range j.links {
		p := j.v.plan.Tables[r.parent]
		if p == nil || p.Policy == policySkip && !r.enforced || r.inside() || r.when != "" {
			continue
		}
		j.v.none("orphans", j.name, r.String(), t.orphans[n])
	}
}

// summer sums up the rows of a stream.
type summer struct {
	*stream
	primary []int // positions of the primary key among the columns
	buffer  []byte
}

func newSummer(s *stream) *summer {
	return &summer{stream: s, primary: s.indexes(s.target.primary)}
}

// add adds a row to a tally. Only the extra columns from one position on to another are the server's.
func (m *summer) add(t *tally, values []any, from, to int) {
	b := m.buffer[:0]
	for i, f := range m.forms[:len(m.job.columns)] {
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
	for n := range m.edges {
		r := &m.edges[n]
		if r.there < 0 || !m.refers(r, values) {
			continue
		}
		if textOf(values[r.there]) != "1" {
			t.orphans[n]++
		}
		if len(r.known) == 0 || m.leadsFar(r, values) {
			continue
		}
		b = b[:0]
		for _, pos := range m.primary {
			b = m.forms[pos].append(b, values[pos])
		}
		if m.primary == nil {
			b = append(b, row[:]...)
		}
		for i, pos := range r.known {
			b = r.forms[i].append(b, values[pos])
		}
		t.parents[n].add(sumOf(b))
	}
	m.buffer = b
}

// leadsFar reports whether a row refers to a row that only another server has. Beside it, that server does
// not show what is in it.
func (m *summer) leadsFar(r *edge, values []any) bool {
	if len(r.far.any) == 0 {
		return false
	}
	var own []any
	for _, pos := range m.indexes(r.columns) {
		own = append(own, values[pos])
	}
	return own != nil && r.far.any[r.key(m.v, own)]
}

func (m *summer) refers(r *edge, values []any) bool {
	return !slices.ContainsFunc(r.columns, func(name string) bool {
		pos, has := m.positions[name]
		return has && values[pos] == nil
	})
}

// compareRows compares the rows of a table, and their parents. It reads the target while it reads the
// sources.
func compareRows(ctx context.Context, j *job) {
	stray, done := newTally(len(j.links)), make(chan struct{})
	go func() {
		defer close(done)
		sumTarget(ctx, j, stray)
	}()
	attributed := sumSources(ctx, j)
	awaitTarget(j, done) // nothing reads the target any more
	settleRows(j, stray, attributed)
}

// awaitTarget waits for the target, and tells of its rows meanwhile.
func awaitTarget(j *job, done <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waits := true; waits; {
		select {
		case <-done:
			waits = false
		case <-tick.C:
		}
		j.v.progress(j.name, j.v.target.Name, 0)
	}
}

// sumSources sums up, by source, what the target has to hold, and reports whether the keys of the rows tell
// where each comes from.
func sumSources(ctx context.Context, j *job) (attributed bool) {
	attributed = j.counted()
	for _, s := range j.sides {
		s.want = newTally(len(j.links))
		from := newStream(s, slices.Concat(j.columns, s.extra))
		e, m := newExpecter(from), newSummer(from)
		from.each(ctx, func(values []any) {
			s.read++
			if !e.row(values) {
				j.left++
				return
			}
			if attributed && (len(m.primary) != 1 || j.owner(values[m.primary[0]]) != s.server) {
				attributed = false
			}
			m.add(s.want, values, len(j.columns), len(from.columns))
		})
	}
	return attributed
}

// sumTarget sums up the target: by server as far as its keys tell, and what belongs to no server.
func sumTarget(ctx context.Context, j *job, stray *tally) {
	columns := slices.Clone(j.columns)
	for _, s := range j.sides {
		s.got, s.first = newTally(len(j.links)), len(columns)
		columns = append(columns, s.extra...)
	}
	from := newStream(j.inTarget(), columns)
	from.tell = func(rows int) { j.v.ahead.Add(int64(rows)) }
	m := newSummer(from)
	tells := j.counted() && len(m.primary) == 1
	from.each(ctx, func(values []any) {
		if tells {
			if s := j.side(j.owner(values[m.primary[0]])); s != nil {
				m.add(s.got, values, s.first, s.first+len(s.extra))
				return
			}
		}
		m.add(stray, values, 0, 0)
	})
}

func settleRows(j *job, stray *tally, attributed bool) {
	columns := fmt.Sprintf("%d columns", len(j.columns))
	line := func(server string, w, g *tally) {
		j.v.compare("rows", j.name, server, "", fmt.Sprint(w.rows.rows), fmt.Sprint(g.rows.rows))
		j.v.compare("checksum", j.name, server, columns, w.rows.String(), g.rows.String())
		for n, r := range j.links {
			if len(r.natural) > 0 && w.rows.rows+g.rows.rows > 0 {
				j.v.compare("parents", j.name, server, r.String(), w.parents[n].String(), g.parents[n].String())
			}
		}
	}
	all, held := newTally(len(j.links)), newTally(len(j.links))
	held.merge(stray)
	for _, s := range j.sides {
		all.merge(s.want)
		held.merge(s.got)
		if !attributed {
			continue
		}
		line(s.d.Name, s.want, s.got)
		if len(s.extra) > 0 {
			j.v.compare("checksum", j.name, s.d.Name, fmt.Sprintf("%d columns that not every server has",
				len(s.extra)), s.want.extra.String(), s.got.extra.String())
		}
	}
	if attributed {
		j.v.none("rows", j.name, "of no server", stray.rows.rows)
	} else {
		line("", all, held)
	}
	j.present = held.rows.rows
	held.orphanLines(j)
}
