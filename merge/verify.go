package merge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verify reads sources and target again and compares them: the number of rows, a checksum over every value
// of every row, orphans, rows that are equal in a unique key, new names, and the sums that the plan wants
// conserved. It writes nothing. What differs is in the report; an error means that it could not look.
func (m *Merge) Verify(ctx context.Context) (*VerifyReport, error) {
	began := time.Now()
	state, err := m.state(ctx)
	if err != nil {
		return nil, err
	}
	report := &VerifyReport{Plan: m.plan.Hash()}
	switch {
	case state.name == "":
		return nil, fmt.Errorf("%w: nothing has been merged into the target", ErrNotRun)
	case state.plan != report.Plan:
		return nil, fmt.Errorf("%w: verify with the plan it was made by", ErrOtherPlan)
	case state.name != stateDone:
		return nil, fmt.Errorf("%w: the state is %s: run again, it goes on where it ended", ErrNotRun,
			state.name)
	}
	m.d = decisions{m: m, permanent: true}
	if err := m.d.count(ctx); err != nil {
		return nil, err
	}
	v := &verifying{m: m, report: report}
	if err := v.all(ctx); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	for _, c := range report.Checks {
		if !c.OK {
			report.Failed = append(report.Failed, c)
		}
	}
	report.OK = len(report.Failed) == 0
	text, err := json.Marshal(report)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	report.Seal, report.Took = hex.EncodeToString(sum[:]), time.Since(began)
	return report, nil
}

type verifying struct {
	m           *Merge
	report      *VerifyReport
	quarantined map[tableServer]map[string]bool
	progress    *progress
}

// compare adds a comparison to the report.
func (v *verifying) compare(what, table, server, detail, want, got string) {
	v.report.Checks = append(v.report.Checks, Comparison{What: what, Table: table, Server: server,
		Detail: detail,
		Want:   want, Got: got, OK: want == got})
}

func (v *verifying) all(ctx context.Context) error {
	rows := int64(0)
	for _, w := range v.m.order {
		for _, f := range w.feeds {
			if f == nil {
				continue
			}
			n, err := v.m.keptRows(ctx, f)
			if err != nil {
				return err
			}
			rows += n
		}
	}
	v.progress = v.m.newProgress("verify", 2*rows)
	if err := v.readQuarantine(ctx); err != nil {
		return err
	}
	for _, w := range v.m.order {
		for _, step := range []func(context.Context, *work) error{
			v.checksums, v.orphans, v.duplicates, v.names,
		} {
			if err := step(ctx, w); err != nil {
				return fmt.Errorf("table %s: %w", w.name, err)
			}
		}
	}
	if err := v.rebuilt(ctx); err != nil {
		return err
	}
	for _, s := range v.m.plan.Conserve {
		if err := v.sum(ctx, s); err != nil {
			return fmt.Errorf("conserve %s: %w", s.Name, err)
		}
	}
	v.progress.end()
	return nil
}

func (v *verifying) readQuarantine(ctx context.Context) error {
	v.quarantined = map[tableServer]map[string]bool{}
	t := v.m.target
	return t.each(ctx, newStatement(t.kind, "SELECT tbl, server, row_key FROM ",
		t.kind.quote(tableQuarantine)),
		func(values []any) error {
			server, err := strconv.ParseInt(textOf(values[1]), 10, 64)
			of := tableServer{textOf(values[0]), server}
			if v.quarantined[of] == nil {
				v.quarantined[of] = map[string]bool{}
			}
			v.quarantined[of][textOf(values[2])] = true
			return err
		})
}

// checksums compares the rows of the sources, as they should have arrived, with those of the target.
func (v *verifying) checksums(ctx context.Context, w *work) error {
	common := v.common(w)
	want := make([]digest, len(v.m.servers))
	var all digest
	own := len(w.to.primary) == 1 && w.to.column(w.to.primary[0]).family == familyInt
	for i, f := range w.feeds {
		if f == nil {
			continue
		}
		clean, err := v.source(ctx, f, common, &want[i])
		if err != nil {
			return err
		}
		own = own && clean
		all.merge(want[i])
	}
	got, total, err := v.target(ctx, w, common, own)
	if err != nil {
		return err
	}
	if !own {
		v.compare("rows", w.name, "", "", fmt.Sprint(all.rows), fmt.Sprint(total.rows))
		v.compare("checksum", w.name, "", fmt.Sprintf("%d columns", len(common)), all.String(), total.String())
		return nil
	}
	for i, s := range v.m.servers {
		if w.feeds[i] == nil {
			continue
		}
		v.compare("rows", w.name, s.Name, "", fmt.Sprint(want[i].rows), fmt.Sprint(got[i].rows))
		v.compare("checksum", w.name, s.Name, fmt.Sprintf("%d columns", len(common)), want[i].String(),
			got[i].String())
		total.subtract(got[i])
	}
	v.compare("rows", w.name, "", "of no server", "0", fmt.Sprint(total.rows))
	return nil
}

// common are the columns that all sources have.
func (v *verifying) common(w *work) []*column {
	return slices.DeleteFunc(w.to.written(), func(c *column) bool {
		return slices.ContainsFunc(w.feeds, func(f *feed) bool { return f != nil && !f.has(c.name) })
	})
}

// source digests the rows of a feed. It tells whether all their keys were made by that server.
func (v *verifying) source(ctx context.Context, f *feed, columns []*column, d *digest) (bool, error) {
	positions := f.positions(namesOf(columns))
	server := v.m.servers[f.server]
	aside := v.quarantined[tableServer{f.work.name, server.Number}]
	clean := true
	in := &reader{m: v.m, feed: f, size: v.m.chunk}
	for !in.ended {
		rows, err := in.next(ctx)
		if err != nil {
			return false, err
		}
		v.progress.add(f.work.name, server.Name, len(rows))
		if rows, err = v.m.d.apply(ctx, f, rows); err != nil {
			return false, err
		}
		for _, r := range rows {
			if len(aside) > 0 && aside[keyText(r.key)] {
				continue
			}
			if len(r.key) == 1 && clean {
				id, ok := r.key[0].(int64)
				clean = ok && id >= v.m.plain && slices.Contains(server.numbers, v.m.layout.server(id))
			}
			d.begin()
			for i, at := range positions {
				d.value(r.values[at], columns[i])
			}
			d.end()
		}
	}
	return clean, nil
}

// target digests the rows of the target, by server if their keys tell.
func (v *verifying) target(ctx context.Context, w *work, columns []*column, own bool) ([]digest, digest,
	error) {
	t := v.m.target
	got := make([]digest, len(v.m.servers))
	var all digest
	owner := map[int64]int{}
	for i, s := range v.m.servers {
		for _, number := range s.numbers {
			owner[number] = i
		}
	}
	var list []string
	for _, c := range columns {
		list = append(list, t.kind.readExpression(c))
	}
	key := "0"
	if own {
		key = "s." + t.kind.quote(w.to.primary[0])
	}
	one := 0
	q := newStatement(t.kind, "SELECT ", strings.Join(append(list, key), ", "), " FROM ",
		t.kind.quote(w.name), " AS s")
	err := t.fetch(ctx, q, make([]bool, len(list)+1), 0, true, func(values []any) error {
		var d digest
		d.begin()
		for i, c := range columns {
			d.value(values[i], c)
		}
		d.end()
		all.merge(d)
		if one++; one == 1000 {
			v.progress.add(w.name, t.name, one)
			one = 0
		}
		if !own {
			return nil
		}
		n, err := integerOf(values[len(columns)])
		if id, ok := n.(int64); ok && err == nil {
			if i, known := owner[v.m.layout.server(id)]; known {
				got[i].merge(d)
			}
		}
		return err
	})
	v.progress.add(w.name, t.name, one)
	return got, all, err
}

// orphans counts the references of the target that lead nowhere.
func (v *verifying) orphans(ctx context.Context, w *work) error {
	t := v.m.target
	for _, ref := range w.refs {
		if v.m.works[ref.parent] == nil && !ref.enforced {
			continue
		}
		var refers, joins []string
		for i, name := range ref.columns {
			refers = append(refers, "s."+t.kind.quote(name)+" IS NOT NULL")
			joins = append(joins, "p."+t.kind.quote(ref.target[i])+" = s."+t.kind.quote(name))
		}
		n, err := t.number(ctx, newStatement(t.kind, "SELECT COUNT(*) FROM ", t.kind.quote(w.name),
			" AS s WHERE ",
			strings.Join(refers, " AND "), " AND NOT EXISTS (SELECT 1 FROM ", t.kind.quote(ref.parent),
			" AS p WHERE ",
			strings.Join(joins, " AND "), ")"))
		if err != nil {
			return err
		}
		v.compare("orphans", w.name, "", strings.Join(ref.columns, ", ")+" to "+ref.parent, "0", fmt.Sprint(n))
	}
	return nil
}

// duplicates counts the groups of rows that are equal in a key. The databases should not let that happen,
// but some can be told to.
func (v *verifying) duplicates(ctx context.Context, w *work) error {
	t := v.m.target
	keys := w.to.keys()
	if len(w.plan.Key) > 0 {
		key := uniqueKey{name: "the key of the plan"}
		for _, name := range w.plan.Key {
			key.parts = append(key.parts, keyPart{column: name})
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		by, conditions := key.terms(t.kind)
		if by == "" {
			continue
		}
		n, err := t.number(ctx, newStatement(t.kind, "SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM ",
			t.kind.quote(w.name), " WHERE ", conditions, " GROUP BY ", by, " HAVING COUNT(*) > 1) AS x"))
		if err != nil {
			return err
		}
		v.compare("duplicates", w.name, "", key.name, "0", fmt.Sprint(n))
	}
	return nil
}

// names makes sure that every row in the list of renames has its new name.
func (v *verifying) names(ctx context.Context, w *work) error {
	if w.plan.Rename == nil || len(w.to.primary) != 1 {
		return nil
	}
	want, got := int64(0), int64(0)
	t := v.m.target
	pk, column := w.to.column(w.to.primary[0]), w.to.column(w.plan.Rename.Column)
	check := func(batch []Renamed) error {
		names := map[string]string{}
		q := newStatement(t.kind, "SELECT ", t.kind.readExpression(pk), ", ", t.kind.readExpression(column),
			" FROM ", t.kind.quote(w.name), " AS s WHERE s.", t.kind.quote(pk.name), " IN (")
		for i, r := range batch {
			key, err := keyValue(r.Key, pk)
			if err != nil {
				return err
			}
			key = v.m.moved(tableServer{w.name, r.Server}, key)
			names[textOf(key)] = r.NewName
			if i > 0 {
				q.add(", ")
			}
			q.bind(key)
		}
		want += int64(len(batch))
		return t.each(ctx, q.add(")"), func(values []any) error {
			if names[textOf(values[0])] == textOf(values[1]) {
				got++
			}
			return nil
		})
	}
	err := v.m.renamesOf(ctx, w.name, check)
	if err == nil && want > 0 {
		v.compare("names", w.name, "", "rows that have their new name", fmt.Sprint(want), fmt.Sprint(got))
	}
	return err
}
