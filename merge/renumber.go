package merge

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// keyOffsets is what the policy entry renumber adds to the keys of each table and server.
type keyOffsets struct {
	ws       *workspace
	added    map[tableServer]int64 // with the server allServers: the greatest key afterwards
	counters map[tableServer]int64 // the greatest key that a server has given out, even if its row is gone
}

// allServers stands for all servers together in a tableServer.
const allServers = -1

// find computes what is added to the keys of renumbered tables: for each server the sum of the greatest keys
// that the servers before it have given out, even if the rows were deleted since. A run stores the result
// together with its decisions, and goes on with what is stored.
func (o *keyOffsets) find(ctx context.Context) error {
	if o.added != nil {
		return nil
	}
	if stored, err := o.read(ctx); err != nil || stored {
		return err
	}
	offsets, counters := map[tableServer]int64{}, map[tableServer]int64{}
	for _, j := range o.ws.order {
		c := j.key()
		if c == nil || c.Family != sqldb.FamilyInt {
			continue
		}
		sum := int64(0)
		for i, s := range o.ws.servers {
			if j.plan.Renumber {
				offsets[tableServer{j.name, s.Number}] = sum
			}
			if j.sources[i] == nil || j.sources[i].from.Column(c.Name) == nil {
				continue
			}
			counter, err := s.db.Counter(ctx, j.sources[i].from, c.Name)
			if err != nil {
				return fmt.Errorf("table %s: the counter of its keys cannot be read: %w", j.name, err)
			}
			counters[tableServer{j.name, s.Number}] = counter
			if !j.plan.Renumber {
				continue
			}
			key := s.db.Kind.Quote(c.Name)
			greatest, err := s.db.Number(ctx, sqldb.NewStatement(s.db.Kind, "SELECT COALESCE(MAX(", key,
				"), 0) FROM ", newSelection(o.ws, i).table(j.name), " WHERE ", key, " > 0 AND ", key, " < ",
				strconv.FormatInt(o.ws.minGenerated, 10)))
			if err != nil {
				return fmt.Errorf("table %s cannot be renumbered: %w", j.name, err)
			}
			if counter < o.ws.minGenerated {
				greatest = max(greatest, counter)
			}
			if sum > math.MaxInt64-greatest {
				return fmt.Errorf("%w: table %s cannot be renumbered: its keys are too large", ErrPlan, j.name)
			}
			sum += greatest
		}
		if j.plan.Renumber {
			offsets[tableServer{j.name, allServers}] = sum
		}
	}
	o.added, o.counters = offsets, counters
	return nil
}

// read reads what a run has stored; it reports whether there is anything.
func (o *keyOffsets) read(ctx context.Context) (bool, error) {
	t := o.ws.target
	exists, err := t.HasTable(ctx, tableOffsets)
	if err != nil || !exists {
		return false, err
	}
	state, err := (&journal{target: t}).state(ctx)
	if err != nil || state.name == "" {
		return false, err
	}
	added, counters := map[tableServer]int64{}, map[tableServer]int64{}
	rows, err := t.Strings(ctx, sqldb.NewStatement(t.Kind, "SELECT tbl, server, added, counter FROM ",
		t.Kind.Quote(tableOffsets)))
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		of := tableServer{table: row[0]}
		var offset, counter int64
		if _, err := fmt.Sscan(row[1]+" "+row[2]+" "+row[3], &of.server, &offset, &counter); err != nil {
			return false, fmt.Errorf("%s cannot be read: %w", tableOffsets, err)
		}
		counters[of] = counter
		if j := o.ws.jobs[of.table]; j != nil && j.plan.Renumber {
			added[of] = offset
		}
	}
	o.added, o.counters = added, counters
	return true, nil
}

// keep stores the offsets, in the transaction of the caller.
func (o *keyOffsets) keep(ctx context.Context) error {
	t := o.ws.target
	for _, j := range o.ws.order {
		numbers := []int64{allServers}
		for _, s := range o.ws.servers {
			numbers = append(numbers, s.Number)
		}
		for _, number := range numbers {
			of := tableServer{j.name, number}
			added, renumbered := o.added[of]
			counter, counted := o.counters[of]
			if !renumbered && !counted {
				continue
			}
			q := sqldb.NewStatement(t.Kind, "INSERT INTO ", t.Kind.Quote(tableOffsets),
				" (tbl, server, added, counter) VALUES (").BindAll(j.name, number, added, counter).Add(")")
			if _, err := t.Run(ctx, q); err != nil {
				return err
			}
		}
	}
	return nil
}

// counter returns the greatest key that a table of the target must be taken to have given out.
func (o *keyOffsets) counter(table string) int64 {
	greatest := o.added[tableServer{table, allServers}]
	for _, s := range o.ws.servers {
		of := tableServer{table, s.Number}
		greatest = max(greatest, o.counters[of]+o.added[of])
	}
	return greatest
}

// separates reports whether every key of a renumbered table gets a value that no other server's key gets.
func (o *keyOffsets) separates(ctx context.Context, j *tableJob) (bool, error) {
	if o.added[tableServer{j.name, allServers}] >= o.ws.minGenerated {
		return false, nil // new keys are as large as those of a generator
	}
	for i, src := range j.sources {
		if src == nil {
			continue
		}
		db := o.ws.servers[i].db
		key := db.Kind.Quote(j.to.Primary[0])
		n, err := db.Number(ctx, sqldb.NewStatement(db.Kind, "SELECT COUNT(*) FROM ",
			newSelection(o.ws, i).table(j.name), " WHERE ", key, " IS NULL OR ", key, " <= 0 OR ",
			key, " >= ", strconv.FormatInt(o.ws.minGenerated, 10)))
		if err != nil || n > 0 {
			return false, err
		}
	}
	return true, nil
}

// newKey returns the key that a row has in the target.
func (o *keyOffsets) newKey(of tableServer, key any) any {
	offset := o.added[of]
	if offset == 0 {
		return key // It may be a text, such as 007, that only looks like a number.
	}
	n, err := sqldb.Integer(key)
	id, ok := n.(int64)
	if err == nil && ok && id > 0 && id < o.ws.minGenerated &&
		offset <= math.MaxInt64-id {
		return id + offset
	}
	return key
}
