package reshard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
)

// trigger is one of those that list the keys of the rows that are written.
type trigger struct{ name, create string }

// rowTriggers returns the triggers of a database that has one for each kind of statement. If a row gets
// another key, two rows have changed. The format says so with the beginning of an INSERT into the list, the
// condition, and the values.
func rowTriggers(t *table, another string) (all []trigger) {
	d, key := t.side.d, t.side.d.Quote(t.Column)
	insert := "INSERT INTO " + d.Quoted(onTable(d, t.side.keys)) + " (t, k) "
	list := func(row string) string { return fmt.Sprintf("%sVALUES (%d, %s.%s)", insert, t.n, row, key) }
	another = fmt.Sprintf(another, insert, fmt.Sprintf("NEW.%s <> OLD.%[1]s", key),
		fmt.Sprintf("%d, NEW.%s", t.n, key))
	for _, write := range []struct{ event, body string }{
		{"INSERT", list("NEW")}, {"UPDATE", list("OLD") + "; " + another}, {"DELETE", list("OLD")},
	} {
		name := t.triggerName() + "_" + strings.ToLower(write.event)
		all = append(all, trigger{name, "CREATE TRIGGER " + d.Quoted(beside(t.Name, name)) + " AFTER " +
			write.event + " ON " + d.Quoted(onTable(d, t.now)) + " FOR EACH ROW BEGIN " + write.body + "; END"})
	}
	return all
}

// onTable is the name of a table where a trigger says what it is of. SQLite wants it without the schema, and
// so in the bodies of triggers.
func onTable(d *database, table string) string {
	if _, name := dialect.Split(table); d.Embedded() {
		return name
	}
	return table
}

// capture makes the triggers of an entry that are not there yet. Whoever has written to a table before it has
// its triggers has ended his transaction by then, because the database makes none meanwhile.
func (s *side) capture(ctx context.Context) error {
	d := s.d
	create := "CREATE TABLE IF NOT EXISTS " + d.Quoted(s.keys) + " (n " + d.counted +
		", t integer NOT NULL, k bigint NOT NULL)" + d.Suffix
	if err := d.make(ctx, create); err != nil {
		return err
	}
	s.m.reached(stepListed)
	for _, t := range s.tables {
		missing, _, err := missingTriggers(ctx, d.pool, t)
		if err != nil {
			return err
		}
		for _, trigger := range missing {
			if err := d.makeTrigger(ctx, t, trigger); err != nil {
				return fmt.Errorf("trigger %s on %s: %w", trigger.name, t.now, err)
			}
			s.m.reached(stepCaught)
		}
	}
	return nil
}

// missingTriggers returns the triggers that a table lacks, and the names of those that are not of the job.
func missingTriggers(
	ctx context.Context, q gorm.ConnPool, t *table,
) (missing []trigger, more []string, err error) {
	there, err := t.side.d.Ask(ctx, q, t.now, t.side.d.triggerList)
	missing = t.side.d.triggers(t)
	for _, row := range there {
		own := func(one trigger) bool { return one.name == row[0] }
		switch {
		case !slices.ContainsFunc(missing, own):
			more = append(more, row[0])
		case len(row) > 1 && row[1] != "A":
			// PostgreSQL does not run it always any more: it was switched off and on again, and has missed writes.
			continue
		}
		missing = slices.DeleteFunc(missing, own)
	}
	return missing, more, err
}

// alter changes a table that is in use. Whoever wants to write then waits behind it, so it waits for
// transactions as briefly at a time as a cutover does.
func alter(ctx context.Context, t *table, statements ...string) error {
	return whenFree(ctx, []*side{t.side}, func() error { return t.side.d.alter(ctx, t, statements) })
}

// release removes the triggers of an entry and the list of its keys.
func (s *side) release(ctx context.Context) error {
	for _, t := range s.tables {
		if err := alter(ctx, t, s.d.dropTriggers(t)...); err != nil {
			return err
		}
		s.m.reached(stepDropped)
	}
	return run(ctx, s.d.pool, "DROP TABLE IF EXISTS "+s.d.Quoted(s.keys))
}

// maxKeys is how many keys a statement lists. From a thousand on, MariaDB makes a table of them.
const maxKeys = 500

// enlist puts keys into the list, as a trigger would.
func (s *side) enlist(ctx context.Context, q gorm.ConnPool, t *table, keys []int64) error {
	for some := range slices.Chunk(keys, maxKeys) {
		values := strings.ReplaceAll(list(some), ",", fmt.Sprintf("), (%d, ", t.n))
		insert := fmt.Sprintf("INSERT INTO %s (t, k) VALUES (%d, %s)", s.d.Quoted(s.keys), t.n, values)
		if err := run(ctx, q, insert); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) strike(ctx context.Context, q gorm.ConnPool, numbers []int64) error {
	for some := range slices.Chunk(numbers, maxKeys) {
		if err := run(ctx, q, s.d.strike(s.d.Quoted(s.keys), some)); err != nil {
			return err
		}
	}
	return nil
}
