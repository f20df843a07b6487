package verify

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// The further tables in which the merge tells what it has done.
const (
	listOfDrops   = "merge_drops"
	listOfValues  = "merge_values"
	listOfServers = "merge_servers"
	listOfOffsets = "merge_offsets"
	listOfCopies  = "merge_journal"
)

// columnDiffers is the column of merge_drops that says whether a row had other values than the one that
// stayed.
const columnDiffers = "differs"

// lists compares what the tables of the merge say with what the sources and the target hold.
type lists struct {
	v       *verifier
	drops   *index // of one table: by server and key, the row that stayed and whether it differs
	values  *index // of one table: by server, key and column, the value
	example string
	// How many rows each of the two has, how many of them are right, and how many values there should be.
	dropped, valued, rightDrops, rightValues, totals int
}

// servers compares which server is where.
func (l *lists) servers(ctx context.Context) error {
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
func (l *lists) offsets(ctx context.Context, j *job) error {
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
func (l *lists) heirs(ctx context.Context, j *job) (bool, error) {
	t := l.v.target
	if t.kind != postgres {
		return false, nil
	}
	n, err := t.text(ctx, "SELECT COUNT(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE "+
		"c.relkind = 'r' AND c.oid = to_regclass('"+strings.ReplaceAll(t.kind.quote(j.name), "'", "''")+"')")
	return n != "0", err
}

// copies compares how many rows of a table were read.
func (l *lists) copies(ctx context.Context, j *job) error {
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

// readJoins reads what became of the rows of a table in which equal rows became one.
func (l *lists) readJoins(ctx context.Context, j *job) error {
	t := l.v.target
	l.drops, l.values = newIndex(), newIndex()
	differs := columnDiffers
	if l.v.undiffered {
		differs = "''"
	}
	where := " WHERE tbl = " + t.kind.placeholder(1)
	err := t.each(ctx, "SELECT server, row_key, keeper_server, keeper_key, "+differs+" FROM "+
		t.kind.quote(listOfDrops)+where, []any{j.name}, func(values []any) error {
		l.dropped++
		keeper := rowAt(l.v.position(textOf(values[2])), shortened(textOf(values[3])))
		return l.drops.set(rowAt(l.v.position(textOf(values[0])), textOf(values[1])),
			fmt.Sprintf("%x ", keeper)+textOf(values[4]))
	})
	if err != nil {
		return err
	}
	return t.each(ctx, "SELECT server, row_key, col, value FROM "+t.kind.quote(listOfValues)+where,
		[]any{j.name}, func(values []any) error {
			l.valued++
			return l.values.set(rowAt(l.v.position(textOf(values[0])), textOf(values[1])+"\x00"+textOf(values[2])),
				textOf(values[3]))
		})
}

// joined looks up a row that became another one. If several rows of one server are equal, nobody can tell
// which of them stayed.
func (l *lists) joined(row *joinedRow, keeper outcome, differs bool) error {
	text, ok, err := l.drops.get(rowAt(row.server, row.key))
	if err != nil || !ok && keeper.Twins && keeper.Owner == row.server {
		return err
	}
	stays, differed, _ := strings.Cut(text, " ")
	same := map[string]bool{"0": !differs, "1": differs, "": true}[differed]
	if ok && same && (keeper.Twins || stays == fmt.Sprintf("%x", rowAt(keeper.Owner, keeper.Key))) {
		l.rightDrops++
	} else if l.example == "" {
		l.example = fmt.Sprintf("%s: row %s", l.v.plan.Servers[row.server].Name, row.key)
	}
	return nil
}

// total looks up a value of a row that others became. Without one to compare, it is enough that it is there.
func (l *lists) total(keeper outcome, column, want string) error {
	l.totals++
	text, ok, err := l.values.get(rowAt(keeper.Owner, keeper.Key+"\x00"+column))
	if err != nil || !ok && !keeper.Twins {
		return err
	}
	a, number := new(big.Rat).SetString(want)
	b, too := new(big.Rat).SetString(text)
	if keeper.Twins || want == "" || number && too && a.FloatString(listDigits) == b.FloatString(listDigits) {
		l.rightValues++
	}
	return nil
}

// listDigits is how many digits of a fraction are compared. The list has more.
const listDigits = 15

// settle compares both lists of a table.
func (l *lists) settle(j *job) {
	rows := -j.left - j.present
	for _, n := range j.read {
		rows += n
	}
	l.v.compare("lists", j.name, "", strings.TrimSpace("rows of "+listOfDrops+" that are right "+l.example),
		fmt.Sprintf("%d of %d", rows, rows), fmt.Sprintf("%d of %d", l.rightDrops, l.dropped))
	l.v.compare("lists", j.name, "", "rows of "+listOfValues+" that are right",
		fmt.Sprintf("%d of %d", l.totals, l.totals), fmt.Sprintf("%d of %d", l.rightValues, l.valued))
	l.drops.close()
	l.values.close()
}
