package verify

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// listCheck compares what the tables of the merge say with what the sources and the target hold.
type listCheck struct{ v *verifier }

// servers compares which server is where.
func (l listCheck) servers(ctx context.Context) error {
	t := l.v.target
	stored := map[string]string{}
	err := t.each(ctx, "SELECT number, name, merged_into, target FROM "+t.kind.quote(listOfServers), nil,
		func(values []any) error {
			stored[textOf(values[0])] = fmt.Sprintf("%s in %s, %s", textOf(values[1]), textOf(values[2]),
				textOf(values[3]))
			return nil
		})
	if err != nil {
		return err
	}
	wrong, numbers := 0, 0
	for _, s := range l.v.plan.Servers {
		for _, number := range s.Numbers {
			numbers++
			if stored[strconv.FormatInt(number, 10)] != fmt.Sprintf("%s in %d, %s", s.Name, l.v.plan.Target.Number,
				l.v.plan.Target.Name) {
				wrong++
			}
		}
	}
	l.v.compare("lists", listOfServers, "", "servers that are not where it says", "0", strconv.Itoa(wrong))
	l.v.compare("lists", listOfServers, "", "servers", strconv.Itoa(numbers), strconv.Itoa(len(stored)))
	return nil
}

// offsets compares what was added to the keys of a table with where the keys are.
func (l listCheck) offsets(ctx context.Context, j *job) error {
	if j.offsets == nil {
		return nil
	}
	t := l.v.target
	return t.each(ctx, "SELECT server, added FROM "+t.kind.quote(listOfOffsets)+" WHERE tbl = "+
		t.kind.placeholder(1), []any{j.name}, func(values []any) error {
		i := l.v.position(textOf(values[0]))
		if i < 0 || !j.counts[i] {
			return nil // nothing of this server was moved
		}
		l.v.compare("lists", j.name, l.v.plan.Servers[i].Name, "added to the keys, by "+listOfOffsets,
			strconv.FormatInt(j.offsets[i], 10), textOf(values[1]))
		return nil
	})
}

// heirs reports whether other tables of PostgreSQL inherit from a table. Their rows are read with it here,
// and the merge has copied them by themselves.
func (l listCheck) heirs(ctx context.Context, j *job) (bool, error) {
	t := l.v.target
	if t.kind != postgres {
		return false, nil
	}
	n, err := t.text(ctx, "SELECT COUNT(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE "+
		"c.relkind = 'r' AND c.oid = to_regclass('"+strings.ReplaceAll(t.kind.quote(j.name), "'", "''")+"')")
	return n != "0", err
}

// copies compares how many rows of a table were read.
func (l listCheck) copies(ctx context.Context, j *job) error {
	t := l.v.target
	if heirs, err := l.heirs(ctx, j); err != nil || heirs {
		return err
	}
	return t.each(ctx, "SELECT server, rows_read, done FROM "+t.kind.quote(listOfCopies)+
		" WHERE step = 'copy' AND tbl = "+t.kind.placeholder(1), []any{j.name}, func(values []any) error {
		i := l.v.position(textOf(values[0]))
		if i < 0 {
			l.v.compare("lists", j.name, "", "a server in "+listOfCopies, "", textOf(values[0]))
			return nil
		}
		l.v.compare("lists", j.name, l.v.plan.Servers[i].Name, "rows that were read, and 1 for the end, by "+
			listOfCopies, fmt.Sprintf("%d 1", j.read[i]), textOf(values[1])+" "+textOf(values[2]))
		return nil
	})
}
