package reshard

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// check refuses by name what a job would break, and what it could not take along.
func check(ctx context.Context, m *machine) error {
	var found []string
	for _, s := range m.old {
		if err := s.d.checkRight(ctx, s); err != nil {
			return err
		}
		for _, t := range s.tables {
			some, err := obstacles(ctx, t)
			if err != nil {
				return fmt.Errorf("looking at %s: %w", t.now, err)
			}
			found = append(found, some...)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", errs.ErrSharding, strings.Join(found, "; "))
}

// checkColocated refuses to part rows from those that their keys are like. Keys from when WithShards was
// smaller may be colocated by the old modulus only.
func checkColocated(ctx context.Context, m *machine) error {
	modulus := 0
	for _, s := range m.fresh {
		modulus = max(modulus, s.Modulus)
	}
	for _, t := range tablesOf(m.old) {
		for _, check := range t.Checks[min(1, len(t.Checks)):] {
			key := t.Checks[0].Column
			apart, err := numbers(ctx, t.side.d.pool, fmt.Sprintf("SELECT %s FROM %s WHERE %s > 0 AND %s <> %s "+
				"LIMIT 1", key, t.quoted(), check.Column, t.residue(key, modulus), t.residue(check.Column, modulus)))
			if err != nil {
				return fmt.Errorf("looking at %s: %w", t.now, err)
			}
			if len(apart) > 0 {
				return fmt.Errorf("%w: the row %d of %s would not be colocated with that of its %s by the modulus "+
					"%d: its key was made when WithShards was smaller: give such rows new keys, or keep the shard "+
					"as it is", errs.ErrSharding, apart[0], t.now, check.Column, modulus)
			}
		}
	}
	return nil
}

// bytesOf estimates how many bytes the copies of all rows take.
func bytesOf(ctx context.Context, m *machine) (bytes int64, err error) {
	for _, t := range tablesOf(m.old) {
		query, args := t.side.d.Bytes(t.now)
		n, err := number(ctx, t.side.d.pool, query, args...)
		if err != nil {
			return 0, fmt.Errorf("the size of %s: %w", t.now, err)
		}
		if bytes += n; t.side.d.Embedded() { // It is the size of the file.
			return n, nil
		}
	}
	return bytes, nil
}

// obstacles lists what is in the way of a job at one old table.
func obstacles(ctx context.Context, t *table) (found []string, err error) {
	d := t.side.d
	there, err := d.HasTable(ctx, d.pool, t.now)
	if err != nil || !there {
		if err == nil {
			found = []string{"the table " + t.now + " is not there"}
		}
		return found, err
	}
	taken, err := d.HasTable(ctx, d.pool, t.away)
	if err != nil {
		return nil, err
	}
	if taken {
		found = append(found, fmt.Sprintf("the table %s has the name that %s will get: give it another one",
			t.away, t.now))
	}
	var own, siblings []string
	for _, other := range t.side.tables {
		siblings = append(siblings, strings.ToLower(other.now))
		for _, trigger := range d.triggers(other) {
			own = append(own, trigger.name)
		}
	}
	for _, one := range d.obstacles {
		rows, err := d.Ask(ctx, d.pool, t.now, one[1])
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			inside := len(row) > 2 && slices.Contains(siblings, strings.ToLower(beside(t.now, row[2])))
			if !inside && !slices.Contains(own, row[1]) {
				found = append(found, fmt.Sprintf("%s: %s", row[0], strings.ReplaceAll(one[0], "%s", t.now)))
			}
		}
	}
	return found, nil
}

// dress gives the new tables what the old ones have beside columns and indexes, and refuses what they still
// lack. It does so before the rows are copied and after that, because a migration may come between.
func dress(ctx context.Context, m *machine) error {
	for _, t := range tablesOf(m.fresh) {
		old := m.old[0].tables[t.n]
		statements, err := finery(ctx, old, t)
		if err != nil {
			return err
		}
		// Foreign keys are not checked here: a row of the new table may come before the one that it refers to.
		err = t.side.d.onConnection(ctx, func(c *sql.Conn) error { return run(ctx, c, statements...) })
		if err != nil {
			return fmt.Errorf("%s shall have what %s has: %w", t.Name, old.now, err)
		}
	}
	return refuseLosses(ctx, m)
}

// finery returns the statements that give a new table the owner, the rights and the options of an old one.
// If foreign keys come late, those of the new table are dropped until the cutover.
func finery(ctx context.Context, old, fresh *table) (statements []string, err error) {
	d := old.side.d
	if d.Embedded() {
		return nil, nil // It has none of this.
	}
	rows, err := d.Ask(ctx, d.pool, old.now, d.extras)
	for _, row := range rows {
		statements = append(statements, strings.ReplaceAll(row[0], "%s", fresh.quoted()))
	}
	if err != nil {
		return nil, err
	}
	there, err := fresh.side.d.foreignKeys(ctx, fresh.side.d.pool, fresh)
	if err != nil {
		return nil, err
	}
	if d.lateKeys {
		for _, key := range there {
			statements = append(statements, "ALTER TABLE "+fresh.quoted()+" DROP CONSTRAINT "+d.Quote(key.name))
		}
		return statements, nil
	}
	var own []string
	for _, key := range there {
		own = append(own, key.definition(fresh.side, fresh.side))
	}
	keys, err := d.foreignKeys(ctx, d.pool, old)
	for _, key := range keys {
		if definition := key.definition(old.side, fresh.side); !slices.Contains(own, definition) {
			statements = append(statements, "ALTER TABLE "+fresh.quoted()+" ADD CONSTRAINT "+
				d.Quote(shorten(bare(fresh.Name), fmt.Sprintf("_fk%d", len(own))))+" "+definition)
			own = append(own, definition)
		}
	}
	return statements, err
}

type foreignKey struct {
	name, schema, table string // those of the table that it refers to
	near                bool   // that table is found without its schema
	columns, target     string // what stands before the name of that table and behind it
}

// definition writes a foreign key of a table of one entry as that of a table of another one.
func (key foreignKey) definition(from, to *side) string {
	table := from.d.QuoteParts([]string{key.schema, key.table})
	if key.near {
		table = from.d.Quote(key.table)
	}
	for _, t := range from.tables {
		schema, name := dialect.Split(t.now)
		if strings.EqualFold(name, key.table) && (schema == key.schema || schema == "" && key.near) {
			table = to.tables[t.n].quoted()
		}
	}
	return key.columns + " REFERENCES " + table + key.target
}

// addForeignKeys gives the new tables the foreign keys of the old ones, if they come late. Clean validates
// them, because that reads both tables.
func addForeignKeys(ctx context.Context, m *machine, h held) error {
	if !m.home.lateKeys {
		return nil
	}
	for _, t := range tablesOf(m.fresh) {
		old, d := m.old[0].tables[t.n], t.side.d
		keys, err := old.side.d.foreignKeys(ctx, h.reader(old.side.d), old)
		if err != nil {
			return err
		}
		var statements []string
		for _, key := range keys {
			alter, name := "ALTER TABLE "+t.quoted(), d.Quote(key.name)
			definition := strings.TrimSuffix(key.definition(old.side, t.side), " NOT VALID") + " NOT VALID"
			statements = append(statements, alter+" DROP CONSTRAINT IF EXISTS "+name,
				alter+" ADD CONSTRAINT "+name+" "+definition)
		}
		err = h.write(ctx, d, func(q gorm.ConnPool) error { return run(ctx, q, statements...) })
		if err != nil {
			return err
		}
	}
	return nil
}

// continueNumbers lets the columns that the database counts go on in the new tables behind those of the old
// ones, whose last rows may be gone.
func continueNumbers(ctx context.Context, m *machine, h held) error {
	for n := range m.old[0].tables {
		next := map[string]int64{} // by column, of which MySQL has one
		for _, s := range m.old {
			rows, err := s.d.counters(ctx, h.reader(s.d), s.tables[n])
			if err != nil {
				return err
			}
			for _, row := range rows {
				count, _ := strconv.ParseInt(row[1], 10, 64) // It is empty if nothing was counted.
				next[row[0]] = max(next[row[0]], count)
			}
		}
		maps.DeleteFunc(next, func(_ string, count int64) bool { return count == 0 })
		for _, s := range m.fresh {
			for column, count := range next {
				err := s.d.count(ctx, h.reader(s.d), s.tables[n].quoted(), column, count)
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// validateForeignKeys validates those late foreign keys that are valid in the old tables.
func validateForeignKeys(ctx context.Context, m *machine) error {
	if !m.home.lateKeys {
		return nil
	}
	for _, t := range tablesOf(m.fresh) {
		old, d := m.old[0].tables[t.n], t.side.d
		names, err := old.side.d.Ask(ctx, old.side.d.pool, old.now, d.validKeys)
		for _, name := range names {
			if err == nil {
				err = run(ctx, d.pool, "ALTER TABLE "+t.quoted()+" VALIDATE CONSTRAINT "+d.Quote(name[0]))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The new tables are made from the models. What somebody has made on an old table by hand, such as an index
// or a CHECK, would be lost without a word. So both are described by the catalog, line by line and without
// names, and no line of the old table may be missing.

// refuseLosses returns an error if the new table of a move lacks what the old one has.
func refuseLosses(ctx context.Context, m *machine) (err error) {
	for _, mv := range m.moves {
		if mv.old.facts, err = factsOf(ctx, held{}, mv.old); err != nil {
			return err
		}
		fresh, err := factsOf(ctx, held{}, mv.fresh)
		if err != nil {
			return err
		}
		alike, err := areAlike(ctx, mv)
		if err != nil {
			return err
		}
		lost := slices.DeleteFunc(slices.Clone(mv.old.facts), func(fact string) bool {
			return slices.Contains(fresh, fact) || !alike && !anyKey.MatchString(fact) ||
				strings.HasPrefix(fact, foreign)
		})
		if len(lost) > 0 {
			return fmt.Errorf("%w: the table %s has more than its model, and the new table %s lacks it: "+
				"%s: add it to the model, or make it on the new table too, and call the step again", errs.ErrSharding,
				mv.old.now, mv.fresh.Name, errs.Listed(lost, "; "))
		}
	}
	return nil
}

func factsOf(ctx context.Context, h held, t *table) (facts []string, err error) {
	d := t.side.d
	// The catalog may write a default as the session says.
	err = h.reading(ctx, d, func(q gorm.ConnPool) error {
		facts, err = d.facts(ctx, q, t)
		return err
	})
	if err != nil {
		err = fmt.Errorf("looking at %s: %w", t.now, err)
	}
	slices.Sort(facts)
	return facts, err
}

// areAlike reports whether both databases describe tables in the same words. MySQL and MariaDB do so for keys
// only.
func areAlike(ctx context.Context, mv *move) (bool, error) {
	query := mv.old.side.d.product
	if mv.inOne() || query == "" {
		return true, nil
	}
	old, err := number(ctx, mv.old.side.d.pool, query)
	if err != nil {
		return false, err
	}
	fresh, err := number(ctx, mv.fresh.side.d.pool, query)
	return old == fresh, err
}

// foreign is how the fact of a foreign key begins. The new table has got these keys, but under other names.
const foreign = "CONSTRAINT "
