package merge

import (
	"regexp"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

type tableServer struct {
	table  string
	server int64
}

// The columns of the decision tables, the same on all databases. A key is as long as MySQL can index together
// with the other columns of the primary key.
const (
	renamesColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(512) NOT NULL, " +
		"col VARCHAR(64) NOT NULL, old_name VARCHAR(2000) NOT NULL, new_name VARCHAR(2000) NOT NULL, " +
		"new_key VARCHAR(512) NOT NULL, " +
		"PRIMARY KEY (tbl, server, row_key)"
	dropsColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(512) NOT NULL, " +
		"keeper_server BIGINT NOT NULL, keeper_key TEXT NOT NULL, reason VARCHAR(200) NOT NULL, " +
		"differs BIGINT NOT NULL, " +
		"PRIMARY KEY (tbl, server, row_key)"
	valuesColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(448) NOT NULL, " +
		"col VARCHAR(64) NOT NULL, value VARCHAR(2000), PRIMARY KEY (tbl, server, row_key, col)"
)

// temporaryWord returns what DROP TABLE needs on MySQL, so that it drops only a temporary table and does not
// commit the transaction.
func temporaryWord(k sqldb.Kind) string {
	if k == sqldb.MySQL {
		return "TEMPORARY "
	}
	return ""
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

// ownTable is a table that a merge makes.
type ownTable struct{ name, columns string }

// ownTables returns the tables that a merge makes.
func ownTables() []ownTable {
	return []ownTable{
		{tableRun, runColumns}, {tableJournal, journalColumns}, {tableRenames, renamesColumns},
		{tableDrops, dropsColumns}, {tableValues, valuesColumns}, {tableServers, serversColumns},
		{tableQuarantine, quarantineColumns}, {tableOffsets, offsetsColumns},
		{tableCatalog, catalogColumns},
	}
}

// isOurs reports whether a table is one that a merge has made. The table of a game may have the same name,
// but not the same columns. Those that other versions made differ in some.
func isOurs(t *sqldb.Table) bool {
	lasting := func(names []string) []string {
		return slices.DeleteFunc(names, func(name string) bool {
			return name == "new_key" || name == "differs" || name == "position"
		})
	}
	return slices.ContainsFunc(ownTables(), func(own ownTable) bool {
		columns, _, _ := strings.Cut(own.columns, ", PRIMARY KEY (")
		var names []string
		for column := range strings.SplitSeq(columns, ", ") {
			name, _, _ := strings.Cut(column, " ")
			names = append(names, name)
		}
		return own.name == t.Name && sameNames(lasting(names), lasting(sqldb.ColumnNames(t.Columns)))
	})
}

// temporaryTables are the names of the temporary tables of a merge, which would hide or meet those of a game.
const temporaryTables = `^(merge_(stage|groups|named|trial)_[0-9]+|merge_apart|tmp_merge_[a-z]+)$`

// needed reports whether a merge needs a name of the target for a table of its own.
func needed(kind sqldb.Kind, name string) bool {
	if kind != sqldb.PostgreSQL { // it alone tells names apart by the case of their letters in any case
		name = strings.ToLower(name)
	}
	return regexp.MustCompile(temporaryTables).MatchString(name) ||
		slices.ContainsFunc(ownTables(), func(own ownTable) bool { return own.name == name })
}

const (
	runColumns     = "id INTEGER NOT NULL PRIMARY KEY, plan VARCHAR(64) NOT NULL, state VARCHAR(16) NOT NULL"
	journalColumns = "step VARCHAR(16) NOT NULL, tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, " +
		"expected BIGINT NOT NULL, fingerprint VARCHAR(700) NOT NULL, " +
		"rows_read BIGINT NOT NULL, rows_written BIGINT NOT NULL, done INTEGER NOT NULL, " +
		"PRIMARY KEY (step, tbl, server)"
	offsetsColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, added BIGINT NOT NULL, " +
		"counter BIGINT NOT NULL, PRIMARY KEY (tbl, server)"
	catalogColumns = "kind VARCHAR(40) NOT NULL, tbl VARCHAR(200) NOT NULL, name VARCHAR(400) NOT NULL, " +
		"definition TEXT NOT NULL, PRIMARY KEY (kind, tbl, name)"
	serversColumns = "number BIGINT NOT NULL PRIMARY KEY, name VARCHAR(200) NOT NULL, " +
		"merged_into BIGINT NOT NULL, target VARCHAR(200) NOT NULL"
	quarantineColumns = "tbl VARCHAR(64) NOT NULL, server BIGINT NOT NULL, row_key VARCHAR(512) NOT NULL, " +
		"reason VARCHAR(2000) NOT NULL, contents TEXT NOT NULL, PRIMARY KEY (tbl, server, row_key)"
)

// ddl returns the statement that makes a table of the merge.
func ddl(k sqldb.Kind, name, columns string, temporary bool) string {
	text, suffix := "CREATE TABLE IF NOT EXISTS ", ""
	if temporary {
		text = "CREATE TEMPORARY TABLE "
	}
	if k == sqldb.MySQL {
		columns = strings.ReplaceAll(columns, " TEXT ", " MEDIUMTEXT ") // TEXT ends after 65,535 bytes there
		suffix = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
	}
	return text + k.Quote(name) + " (" + columns + ")" + suffix
}
