package merge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// stage is a temporary table of the target with the keys of one table of all servers. Its columns have the
// types and collations of the target, so the target itself decides which keys are equal.
type stage struct {
	ws        *workspace
	decisions *decisions
	job       *tableJob
	columns   []*sqldb.Column // of the table; the fixed columns of the stage come before them
	rows      int64
	// The names of the temporary tables. Each stage has its own, because drivers cache prepared statements.
	// found lists the rows of groups: merge_position counts them through all groups, merge_member is the
	// merge_n of the row, merge_rank is 1 for the row of a group that stays as it is, and merge_keeper is the
	// merge_n of that one.
	name, found string
	// narrow are the columns that are too short for new names which they repeat. Their rows are not loaded.
	narrow findings
	// byBytes says that no key is an expression, which may do other things to names in another collation. So
	// PostgreSQL can sort them by their bytes, which takes half the time that most collations do.
	byBytes bool
}

// stageLoaded is how many of the fixed columns are written when a stage is loaded. The others are of renamed
// rows, which are written anew.
const stageLoaded = 4

// stageDefinition defines the columns that every stage has: a running number, the position of the server, the
// key of the row, and 1 for a row that keeps its name whatever others are called; of renamed rows the old
// name, how many new ones were tried, the key as the list of renames has it, and the key in the target.
const stageDefinition = "merge_n BIGINT DEFAULT 0 PRIMARY KEY, merge_server BIGINT, merge_key TEXT, " +
	"merge_exempt BIGINT, merge_old VARCHAR(2000), merge_tries BIGINT DEFAULT 0, merge_row VARCHAR(500), " +
	"merge_new VARCHAR(500)"

func fixedColumns() []*sqldb.Column { return defined(stageDefinition) }

// newStage makes the temporary table and fills it with the rows as they would be written.
func newStage(ctx context.Context, d *decisions, j *tableJob, keys []sqldb.UniqueKey,
	tick func(n int)) (*stage, error) {
	ws := d.ws
	ws.stages++
	s := &stage{ws: ws, decisions: d, job: j, columns: stagedColumns(j, keys),
		name: fmt.Sprintf("merge_stage_%d", ws.stages), found: fmt.Sprintf("merge_groups_%d", ws.stages)}
	expression := func(k sqldb.UniqueKey) bool { return !k.Simple() }
	s.byBytes = j.plan.Rename != nil && !slices.ContainsFunc(keys, expression)
	if err := s.create(ctx); err != nil {
		return nil, fmt.Errorf("table %s: the keys cannot be compared: %w", j.name, err)
	}
	loaded := slices.Concat(fixedColumns()[:stageLoaded], s.columns)
	out := sqldb.NewWriter(ws.target, s.name, loaded, false)
	for _, src := range j.present() {
		out.Raw = src.raw
		if err := s.load(ctx, src, out, tick); err != nil {
			return nil, err
		}
	}
	return s, errors.Join(out.Close(), ws.target.Analyze(ctx, s.name))
}

// stagedColumns returns the columns that conflicts and their resolution depend on.
func stagedColumns(j *tableJob, keys []sqldb.UniqueKey) []*sqldb.Column {
	if j.plan.Policy.collapses() {
		return j.target.Writable() // rows that become one are compared in each
	}
	names := slices.Concat(j.target.Primary, j.plan.Rename.writes())
	if j.plan.Rename != nil {
		names = append(names, j.plan.Rename.By)
	}
	for _, k := range keys {
		names = append(names, k.Columns()...)
		if !k.Simple() { // an expression may be about any column
			return j.target.Writable()
		}
	}
	return slices.DeleteFunc(j.target.Writable(), func(c *sqldb.Column) bool {
		return !slices.Contains(names, c.Name)
	})
}

func (s *stage) create(ctx context.Context) error {
	t := s.ws.target
	columns := []string{stageDefinition}
	for _, c := range s.columns {
		own := *c
		if s.byBytes && t.Kind == sqldb.PostgreSQL && s.job.plan.Rename.Column == c.Name && c.ComparesBytes() {
			own.Collation = `"C"`
		}
		columns = append(columns, own.Like(t.Kind))
	}
	err := t.Exec(ctx, "CREATE TEMPORARY TABLE "+s.name+" ("+strings.Join(columns, ", ")+")"+
		sqldb.Suffix(t.Kind))
	if err != nil {
		return err
	}
	return t.Exec(ctx, "CREATE TEMPORARY TABLE "+s.found+
		" (merge_position BIGINT PRIMARY KEY, merge_member BIGINT, merge_rank BIGINT, merge_keeper BIGINT)")
}

func (s *stage) drop(ctx context.Context) error {
	return errors.Join(s.ws.target.DropTemporary(ctx, s.name), s.ws.target.DropTemporary(ctx, s.found))
}

// load adds the rows of one server, as they would be written: with redirected references and new
// keys.
func (s *stage) load(ctx context.Context, src *sourceTable, out *sqldb.Writer, tick func(n int)) error {
	names := sqldb.ColumnNames(s.columns)
	needed := slices.Clone(names)
	for _, ref := range s.job.refs {
		needed = append(needed, ref.Columns...) // a reference of several columns is followed as a whole
	}
	src = s.ws.newSource(s.job, src.server, src.table, needed...).prepared(s.ws)
	input := &reader{src: src, size: s.ws.chunkRows}
	positions := src.positions(names)
	return input.all(ctx, func(read chunk) error {
		rows := read.rows
		if err := s.decisions.copyNames(ctx, src, rows); err != nil {
			return err
		}
		rows = s.fitting(src, rows)
		if err := s.decisions.references(ctx, src, rows); err != nil {
			return err
		}
		batch := make([][]any, len(rows))
		for i, r := range rows {
			s.rows++
			values := make([]any, 0, stageLoaded+len(s.columns))
			values = append(values, s.rows, int64(src.server), sqldb.KeyText(r.key), oneIf(!r.holds(src.competes)))
			for _, index := range positions {
				if index < 0 {
					values = append(values, nil)
				} else {
					values = append(values, r.values[index])
				}
			}
			batch[i] = values
		}
		if err := out.Write(ctx, batch); err != nil {
			return fmt.Errorf("%s: table %s: the keys cannot be compared: %w", src.owner.Name,
				s.job.name, err)
		}
		tick(int(read.read))
		return nil
	})
}

// fitting returns the rows whose columns can hold the new names that they repeat, and notes the others.
func (s *stage) fitting(src *sourceTable, rows []row) []row {
	return slices.DeleteFunc(rows, func(r row) bool {
		for _, n := range src.repeats {
			if c := src.pairs[n.index].target; c.Overflows(r.values[n.index]) {
				s.narrow.add(Problem{Code: CodeTooLong, Server: src.owner.Name, Table: s.job.name, Column: n.column,
					Message: fmt.Sprintf(messageTooLong, c.MaxChars, sqldb.KeyText(r.key)),
					Remedy:  remedyOfCopy(n.parent)})
				return true
			}
		}
		return false
	})
}

// remedyOfCopy is the remedy for a column that is too short for the new names of a table.
func remedyOfCopy(parent string) string {
	return "change the column of the target, or make the new names of " + parent +
		" shorter by format: or max: of the rename"
}

// group finds the rows that are equal in a key, from a rank on. Within a group, rows are in the order of
// preference: the first row stays as it is.
func (s *stage) group(ctx context.Context, key sqldb.UniqueKey, preference []string,
	rank int) (int64, error) {
	t := s.ws.target
	terms, conditions := key.Terms(t.Kind)
	if !key.Computed() {
		// Mostly no two rows are equal, and a server finds that out in half the time that it needs to rank them.
		n, err := t.Number(ctx, t.SQL("SELECT COUNT(*) FROM (", sqldb.SelectSorted(t.Kind),
			"1 AS merge_one FROM ", s.name, " WHERE ", conditions, " GROUP BY ", terms,
			" HAVING COUNT(*) > 1 LIMIT 1) AS x"))
		if err != nil || n == 0 {
			return 0, err
		}
	}
	// The names are such that no column of a game has them: MariaDB would take the column for the other.
	order := strings.Join(append(preference, "merge_n"), ", ")
	size, several := "", ""
	if rank == 1 { // any other rank says itself that its group has several rows
		size, several = ", COUNT(*) OVER (PARTITION BY "+terms+") AS merge_c", " AND merge_c > 1"
	}
	q := t.SQL("INSERT INTO ", s.found,
		" (merge_position, merge_member, merge_rank, merge_keeper) SELECT merge_p, merge_n, merge_r, merge_k "+
			"FROM (SELECT merge_n, ROW_NUMBER() OVER (ORDER BY ", terms, ", ", order, ") AS merge_p, ",
		"ROW_NUMBER() OVER w AS merge_r, FIRST_VALUE(merge_n) OVER w AS merge_k", size, " FROM ", s.name,
		" WHERE ", conditions, " WINDOW w AS (PARTITION BY ", terms, " ORDER BY ", order,
		")) AS x WHERE merge_r >= ", strconv.Itoa(rank), several)
	if err := t.Exec(ctx, "DELETE FROM "+s.found); err != nil {
		return 0, err
	}
	n, err := t.Run(ctx, q)
	if err == nil && n > 0 {
		err = t.Analyze(ctx, s.found)
	}
	return n, err
}

// stagedRow is a row of a group.
type stagedRow struct {
	n, rank int64
	server  int
	key     string
	old     any // its name in the source
	tries   int64
	values  []any
}

// groups calls fn for pages of the rows that were found, in the order of their groups. A group may continue
// on the next page.
func (s *stage) groups(ctx context.Context, fn func(page []stagedRow) error) error {
	t := s.ws.target
	list := sqldb.Mapped(s.columns, func(c *sqldb.Column) string { return ", " + c.ReadExpression(t.Kind) })
	for last := int64(0); ; {
		q := t.SQL(
			"SELECT g.merge_position, g.merge_member, g.merge_rank, s.merge_server, s.merge_tries, s.merge_key, ",
			"s.merge_old", strings.Join(list, ""), " FROM ", s.found, " AS g JOIN ", s.name,
			" AS s ON s.merge_n = g.merge_member WHERE g.merge_position > ").Bind(last).
			Add(" ORDER BY g.merge_position LIMIT 5000")
		var page []stagedRow
		bytes := 0
		err := t.EachSteady(ctx, q, func(values []any) error {
			read, err := numbers(values[:5]...)
			if err != nil {
				return err
			}
			g := stagedRow{n: read[1], rank: read[2], server: int(read[3]), tries: read[4],
				key: sqldb.Text(values[5]), values: values[7:]}
			if values[6] != nil {
				g.old = sqldb.Text(values[6])
			}
			for i, c := range s.columns {
				if t.Kind.Untyped() {
					break
				}
				if g.values[i], err = sqldb.Native(g.values[i], c); err != nil {
					return err
				}
			}
			page = append(page, g)
			last = read[0]
			if bytes += sqldb.SizeOf(values); bytes > maxChunkBytes {
				return errEnough
			}
			return nil
		})
		if err = notEnough(err); err != nil || len(page) == 0 {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
	}
}

// keepers returns the rows that stay as they are instead of those that were found, at most so many.
func (s *stage) keepers(ctx context.Context, limit int) (map[int64]stagedRow, error) {
	all := map[int64]stagedRow{}
	q := s.ws.target.SQL("SELECT g.merge_member, k.merge_server, k.merge_key FROM ",
		s.found, " AS g JOIN ", s.name, " AS k ON k.merge_n = g.merge_keeper ORDER BY g.merge_position LIMIT ",
		strconv.Itoa(max(limit, 0)))
	return all, s.ws.target.EachSteady(ctx, q, func(values []any) error {
		read, err := numbers(values[:2]...)
		if err == nil {
			all[read[0]] = stagedRow{server: int(read[1]), key: sqldb.Text(values[2])}
		}
		return err
	})
}

// remove deletes from the stage the rows that were found, from a rank on. For DISTINCT, MariaDB makes a table
// within the statement. Without that it would read all that was found for each row of the stage.
func (s *stage) remove(ctx context.Context, rank int) error {
	return s.ws.target.Exec(ctx, "DELETE FROM "+s.name+" WHERE merge_n IN (SELECT merge_m FROM (SELECT "+
		"DISTINCT merge_member AS merge_m FROM "+s.found+" WHERE merge_rank >= "+strconv.Itoa(rank)+
		") AS x)")
}

// index returns the position of a column in the values of a staged row, or -1.
func (s *stage) index(name string) int {
	return slices.IndexFunc(s.columns, func(c *sqldb.Column) bool { return c.Name == name })
}
