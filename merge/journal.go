package merge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

type tableServer struct {
	table  string
	server int64
}

// The tables that a merge makes in its target.
const (
	tableRun        = "merge_run"
	tableJournal    = "merge_journal"
	tableRenames    = "merge_renames"
	tableDrops      = "merge_drops"
	tableValues     = "merge_values"
	tableServers    = "merge_servers"
	tableQuarantine = "merge_quarantine"
	tableOffsets    = "merge_offsets"
	tableCatalog    = "merge_catalog"
)

// ownTables returns the tables that a merge makes, with their columns, the same on all databases. A key is as
// long as MySQL can index together with the other columns of the primary key.
func ownTables() map[string]string {
	const row = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(512) NOT NULL, "
	const key = "PRIMARY KEY (tbl, server, row_key)"
	return map[string]string{
		tableRun: "id INTEGER NOT NULL PRIMARY KEY, plan VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL",
		tableJournal: "step VARCHAR(16) NOT NULL, tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, " +
			"expected BIGINT NOT NULL, fingerprint VARCHAR(700) NOT NULL, rows_read BIGINT NOT NULL, " +
			"rows_written BIGINT NOT NULL, done INTEGER NOT NULL, PRIMARY KEY (step, tbl, server)",
		tableRenames: row + "col VARCHAR(64) NOT NULL, old_name VARCHAR(2000) NOT NULL, " +
			"new_name VARCHAR(2000) NOT NULL, new_key VARCHAR(512) NOT NULL, " + key,
		tableDrops: row + "keeper_server BIGINT NOT NULL, keeper_key TEXT NOT NULL, " +
			"reason VARCHAR(200) NOT NULL, differs BIGINT NOT NULL, " + key,
		tableValues: "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(448) NOT NULL, " +
			"col VARCHAR(64) NOT NULL, value VARCHAR(2000), PRIMARY KEY (tbl, server, row_key, col)",
		tableServers: "number BIGINT NOT NULL PRIMARY KEY, name VARCHAR(200) NOT NULL, " +
			"merged_into BIGINT NOT NULL, target VARCHAR(200) NOT NULL",
		tableQuarantine: row + "reason VARCHAR(2000) NOT NULL, contents TEXT NOT NULL, " + key,
		tableOffsets: "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, added BIGINT NOT NULL, " +
			"counter BIGINT NOT NULL, PRIMARY KEY (tbl, server)",
		tableCatalog: "kind VARCHAR(40) NOT NULL, tbl VARCHAR(200) NOT NULL, name VARCHAR(400) NOT NULL, " +
			"definition TEXT NOT NULL, PRIMARY KEY (kind, tbl, name)",
	}
}

// ownColumns returns the columns of a table of a merge.
func ownColumns(table string) []*sqldb.Column { return defined(ownTables()[table]) }

// defined returns the columns that a merge defines, which are whole numbers and texts.
func defined(definitions string) (columns []*sqldb.Column) {
	definitions, _, _ = strings.Cut(definitions, ", PRIMARY KEY (")
	for definition := range strings.SplitSeq(definitions, ", ") {
		words := strings.Fields(definition)
		c := &sqldb.Column{Name: words[0], Family: sqldb.FamilyText, Declared: "text"}
		if words[1] == "BIGINT" || words[1] == "INTEGER" {
			c.Family, c.Declared = sqldb.FamilyInt, "bigint"
		}
		columns = append(columns, c)
	}
	return columns
}

// keepRows writes rows into a table of the merge.
func keepRows(ctx context.Context, target *sqldb.DB, table string, rows ...[]any) error {
	w := sqldb.NewWriter(target, table, ownColumns(table), false)
	return errors.Join(w.Write(ctx, rows), w.Close())
}

// numbers reads whole numbers that a database has returned.
func numbers(values ...any) ([]int64, error) {
	all := make([]int64, len(values))
	for i, v := range values {
		n, err := strconv.ParseInt(sqldb.Text(v), 10, 64)
		if err != nil {
			return nil, err
		}
		all[i] = n
	}
	return all, nil
}

// oneIf returns how the tables of a merge hold a boolean.
func oneIf(so bool) int64 {
	if so {
		return 1
	}
	return 0
}

// needed reports whether a merge needs a name of the target for a table of its own. Its temporary tables
// would hide or meet those of a game.
func needed(kind sqldb.Kind, name string) bool {
	name = kind.Fold(name)
	temporary := regexp.MustCompile(`^(merge_(stage|groups|trial)_[0-9]+|merge_apart|tmp_merge_[a-z]+)$`)
	return ownTables()[name] != "" || temporary.MatchString(name)
}

// ddl returns the statement that makes a table of the merge or, under its temporary name, one like it.
func ddl(k sqldb.Kind, table string, temporary bool) string {
	text, name, columns := "CREATE TABLE IF NOT EXISTS ", table, ownTables()[table]
	if temporary {
		text, name = "CREATE TEMPORARY TABLE ", "tmp_"+table
	}
	columns = strings.ReplaceAll(columns, " TEXT ", " "+sqldb.LongText(k)+" ")
	return text + k.Quote(name) + " (" + columns + ")" + sqldb.Suffix(k)
}

// The states of a run in merge_run. A fresh target has no row there.
const (
	stateDecided = "decided"
	stateCopied  = "copied"
	stateFilled  = "filled"
	stateDone    = "done"
)

// The steps in the journal.
const (
	stepCopy = "copy"
	stepFill = "fill"
)

// journal is the record of a run in the target: its state, and the progress of every table.
type journal struct {
	target    *sqldb.DB
	failpoint func(point string)
}

// runState is the row of merge_run.
type runState struct{ name, plan string }

// state reads the state of the target.
func (jr *journal) state(ctx context.Context) (runState, error) {
	for name := range jr.target.Tables { // which has the tables of the game only
		if strings.EqualFold(name, tableRun) && needed(jr.target.Kind, name) {
			return runState{}, nil // check reports it
		}
	}
	exists, err := jr.target.HasTable(ctx, tableRun)
	if err != nil || !exists {
		return runState{}, err
	}
	var s runState
	err = jr.target.Row(ctx, jr.target.SQL("SELECT state, plan FROM ", jr.target.Kind.Quote(tableRun)), &s.name,
		&s.plan)
	if errors.Is(err, sql.ErrNoRows) {
		return runState{}, nil // a run ended before it had decided anything
	}
	return s, err
}

func (jr *journal) setState(ctx context.Context, state string) error {
	q := jr.target.SQL("UPDATE ", jr.target.Kind.Quote(tableRun), " SET state = ").Bind(state)
	_, err := jr.target.Run(ctx, q)
	return err
}

// entry is a row of the journal: the progress of one step for one table of one server.
type entry struct {
	step          string
	share         tableServer
	expected      int64
	fingerprint   string
	read, written int64
	done          bool
}

func (jr *journal) entries(ctx context.Context) (map[string]map[tableServer]*entry, error) {
	all := map[string]map[tableServer]*entry{stepCopy: {}, stepFill: {}}
	q := jr.target.SQL("SELECT step, tbl, fingerprint, server, expected, rows_read, ",
		"rows_written, done FROM ", jr.target.Kind.Quote(tableJournal))
	return all, jr.target.Each(ctx, q, func(values []any) error {
		n, err := numbers(values[3:]...)
		if err != nil {
			return fmt.Errorf("the journal cannot be read: %w", err)
		}
		e := &entry{step: sqldb.Text(values[0]), share: tableServer{sqldb.Text(values[1]), n[0]},
			fingerprint: sqldb.Text(values[2]), expected: n[1], read: n[2], written: n[3], done: n[4] != 0}
		if all[e.step] == nil {
			return fmt.Errorf("the journal has a step %q that this program does not know", e.step)
		}
		all[e.step][e.share] = e
		return nil
	})
}

// record writes an entry, in the transaction of its chunk.
func (jr *journal) record(ctx context.Context, e *entry) error {
	q := jr.target.SQL("UPDATE ", jr.target.Kind.Quote(tableJournal), " SET rows_read = ").Bind(e.read).
		Add(", rows_written = ").Bind(e.written).Add(", done = ").Bind(oneIf(e.done)).
		Add(" WHERE step = ").Bind(e.step).
		Add(" AND tbl = ").Bind(e.share.table).Add(" AND server = ").Bind(e.share.server)
	_, err := jr.target.Run(ctx, q)
	jr.failpoint("recorded")
	return err
}
