package reshard

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// sqlite is SQLite. It has one writer, and its new tables have no foreign keys.
type sqlite struct{ usual }

func sqliteTraits() traits {
	const key = "SELECT 'the foreign key on the column ' || k.\"from\" || ' of ' || m.name, '' FROM " +
		"`main`.sqlite_master m, pragma_foreign_key_list(m.name) k WHERE m.type = 'table' AND "
	return traits{
		counted:       "integer PRIMARY KEY AUTOINCREMENT", // No number comes twice.
		transactional: true,

		triggerList: "SELECT name FROM `main`.sqlite_master WHERE type = 'trigger' AND tbl_name = ? " +
			"COLLATE NOCASE",
		columns: "SELECT name, '' FROM pragma_table_xinfo(?, 'main') WHERE hidden = 0",
		obstacles: [][2]string{
			// SQLite writes the new name into triggers and views that have the old one.
			{dropFirst, "SELECT 'the ' || type || ' ' || name, name FROM `main`.sqlite_master WHERE type IN " +
				"('trigger', 'view') AND ' ' || lower(sql) || ' ' GLOB '*[^a-z0-9_]' || lower(?) || '[^a-z0-9_]*'"},
			{dropFirst, key + "k.\"table\" = ? COLLATE NOCASE"},
			{notTaken, key + "m.name = ? COLLATE NOCASE"}, // It cannot be added to a table.
		},
	}
}

// exactly returns an expression, because the driver converts the values of columns.
func (s sqlite) exactly(c column, table string) (read string, isText bool) {
	return "+" + table + "." + s.Quote(c.name), false
}

// same removes the affinity of columns by a plus sign: by that a text could be compared as a number.
func (s sqlite) same(mv *move, this, that string) string {
	var same []string
	for _, c := range mv.oldColumns {
		same = append(same, fmt.Sprintf("typeof(%s) = typeof(%s) AND (+%[1]s) COLLATE BINARY IS (+%[2]s)",
			this+"."+s.Quote(c.name), that+"."+s.Quote(c.name)))
	}
	return strings.Join(same, " AND ")
}

func (sqlite) unlessTaken(*move) (begin, end string) { return "", " ON CONFLICT DO NOTHING" }

func (sqlite) triggers(t *table) []trigger { return rowTriggers(t, "%sSELECT %[3]s WHERE %[2]s") }

func (s sqlite) alter(ctx context.Context, _ *table, statements []string) error {
	return s.onConnection(ctx, func(c *sql.Conn) error { return run(ctx, c, statements...) })
}

// lock begins with a write: a transaction that begins with a read would not be let in later.
func (s sqlite) lock(
	ctx context.Context, c *sql.Conn, tables []string, do func(q gorm.ConnPool) error,
) error {
	return s.begun(ctx, c, func(q gorm.ConnPool) error {
		if err := run(ctx, q, "DELETE FROM "+tables[0]+" WHERE 1 = 0"); err != nil {
			return err
		}
		return do(q)
	})
}

func (sqlite) inTheWay(context.Context, *side) string {
	return "It is one of another connection to the file"
}

func (s sqlite) facts(ctx context.Context, q gorm.ConnPool, t *table) (facts []string, err error) {
	for _, query := range []string{
		"SELECT 'the column ' || name || ' ' || lower(type) FROM pragma_table_xinfo(?, 'main')",
		"SELECT 'NOT NULL of ' || name FROM pragma_table_xinfo(?, 'main') WHERE \"notnull\" <> 0",
		"SELECT 'DEFAULT ' || dflt_value || ' of ' || name FROM pragma_table_xinfo(?, 'main') " +
			"WHERE dflt_value IS NOT NULL",
		"SELECT 'the expression of ' || name FROM pragma_table_xinfo(?, 'main') WHERE hidden > 1",
		"SELECT iif(l.\"unique\", 'UNIQUE ', '') || 'index on ' || iif(l.partial OR min(x.cid) = -2, " +
			"substr(m.sql, instr(m.sql, '(')), " +
			"group_concat(x.name || ' ' || x.coll || iif(x.desc, ' DESC', ''), ', ')) " +
			"FROM (SELECT ? AS name) t JOIN pragma_index_list(t.name, 'main') l " +
			"JOIN pragma_index_xinfo(l.name, 'main') x LEFT JOIN `main`.sqlite_master m " +
			"ON m.type = 'index' AND m.name = l.name WHERE x.key = 1 GROUP BY l.name",
		"SELECT '', sql FROM `main`.sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE",
	} {
		rows, err := s.Ask(ctx, q, t.now, query)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if len(row) == 1 {
				facts = append(facts, row[0])
			} else {
				facts = append(facts, factsOfSQLite(row[1])...)
			}
		}
	}
	return facts, nil
}

var (
	// namedCheck is a CHECK with its name, if it has one, up to its parenthesis.
	namedCheck = regexp.MustCompile("(?i)(?:\\bCONSTRAINT\\s+([`\"\\[]?)([^`\"\\]\\s]+)[`\"\\]]?\\s+)?" +
		`\bCHECK\s*\(`)
	// collated is a column with its collation.
	collated = regexp.MustCompile("(?i)[(,]\\s*(?:[`\"\\[]([^`\"\\]]+)|([^\\s,()`\"\\[]+))" +
		"(?:\\([^()]*\\)|[^,])*?\\bCOLLATE\\s+[`\"\\[]?(\\w+)")
)

// factsOfSQLite finds the options, the collations and the CHECKs in the statement that has made a table.
func factsOfSQLite(text string) (facts []string) {
	if options := strings.TrimSpace(text[strings.LastIndexByte(text, ')')+1:]); options != "" {
		facts = append(facts, options)
	}
	for _, found := range collated.FindAllStringSubmatch(text, -1) {
		facts = append(facts, fmt.Sprintf("COLLATE %s of %s", found[3], found[1]+found[2]))
	}
	for {
		found := namedCheck.FindStringSubmatchIndex(text)
		if found == nil {
			return facts
		}
		end, depth := found[1], 1
		for ; end < len(text) && depth > 0; end++ {
			switch text[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		own := false
		if found[4] >= 0 {
			_, _, own = shardmap.ReadCheckName(text[found[4]:found[5]])
		}
		if !own {
			facts = append(facts, "CHECK ("+text[found[1]:end])
		}
		text = text[end:]
	}
}

// foreignKeys returns nothing: a table with foreign keys is an obstacle.
func (sqlite) foreignKeys(context.Context, gorm.ConnPool, *table) ([]foreignKey, error) {
	return nil, nil
}

// counters returns nothing: SQLite counts keys only.
func (sqlite) counters(context.Context, gorm.ConnPool, *table) ([][]string, error) { return nil, nil }

func (sqlite) count(context.Context, gorm.ConnPool, string, string, int64) error { return nil }
