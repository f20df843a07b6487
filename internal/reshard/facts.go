package reshard

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// The new tables are made from the models. What somebody has made on an old table by hand, such as an index
// or a CHECK, would be lost without a word. So both are described by the catalog, line by line and without
// names, and no line of the old table may be missing.

// refuseLosses returns an error if the new table of a move lacks what the old one has.
func refuseLosses(ctx context.Context, mv *move) error {
	old, err := factsOf(ctx, mv.old)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", mv.old.now, err)
	}
	fresh, err := factsOf(ctx, mv.fresh)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", mv.fresh.Name, err)
	}
	alike, err := areAlike(ctx, mv)
	if err != nil {
		return err
	}
	lost := slices.DeleteFunc(old, func(fact string) bool {
		return slices.Contains(fresh, fact) || !alike && !anyKey.MatchString(fact)
	})
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the table %s has more than its model, and the new table %s lacks it: "+
		"%s: add it to the model, or make it on the new table too, and call the step again", errs.ErrSharding,
		mv.old.now, mv.fresh.Name, strings.Join(lost[:min(len(lost), maxLost)], "; "))
}

// areAlike reports whether both databases describe tables in the same words. MySQL and MariaDB do so for keys
// only.
func areAlike(ctx context.Context, mv *move) (bool, error) {
	if mv.inOne() || mv.old.side.d.Kind != dialect.MySQL {
		return true, nil
	}
	const query = "SELECT VERSION() LIKE '%MariaDB%'"
	old, err := number(ctx, mv.old.side.d.pool, query)
	if err != nil {
		return false, err
	}
	fresh, err := number(ctx, mv.fresh.side.d.pool, query)
	return old == fresh, err
}

// maxLost is how many facts an error names.
const maxLost = 10

// factsOf describes the columns, the indexes and the constraints of a table, without the rule of its shard
// and without foreign keys, which the new tables get later.
func factsOf(ctx context.Context, t *table) (facts []string, err error) {
	d := t.side.d
	if d.Kind == dialect.MySQL {
		rows, err := texts(ctx, d.pool, "SHOW CREATE TABLE "+t.quoted())
		if err != nil {
			return nil, err
		}
		return factsOfMySQL(rows[0][1]), nil
	}
	for _, query := range factQueries(d.Kind) {
		rows, err := d.catalog(ctx, d.pool, t.now, query)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			switch {
			case len(row) == 1:
				facts = append(facts, row[0])
			case d.Kind == dialect.SQLite:
				facts = append(facts, factsOfSQLite(row[1])...)
			default:
				if _, _, _, own := shardmap.ReadCheckName(row[1]); !own {
					facts = append(facts, row[0])
				}
			}
		}
	}
	return facts, nil
}

// factQueries return facts. Rows with a second column have the name of a constraint there or, of SQLite, the
// statement that has made the table.
func factQueries(kind dialect.Kind) []string {
	if kind == dialect.SQLite {
		return []string{
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
		}
	}
	const column = " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid " +
		"LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum " +
		"WHERE c.oid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped"
	return []string{
		"SELECT format('the column %s %s', a.attname, format_type(a.atttypid, a.atttypmod))" + column,
		"SELECT format('NOT NULL of %s', a.attname)" + column + " AND a.attnotnull",
		// A sequence is called like its table.
		"SELECT format('%s %s of %s', CASE a.attgenerated WHEN '' THEN 'DEFAULT' " +
			"ELSE 'the expression' END, replace(pg_get_expr(f.adbin, f.adrelid), c.relname, '...'), a.attname)" +
			column + " AND f.oid IS NOT NULL",
		"SELECT format('GENERATED AS IDENTITY of %s', a.attname)" + column + " AND a.attidentity <> ''",
		"SELECT format('COLLATE %s of %s', a.attcollation::regcollation, a.attname)" + column +
			" AND a.attcollation <> (SELECT typcollation FROM pg_type WHERE oid = a.atttypid)",
		"SELECT format('the comment on %s', coalesce(a.attname, 'the table')) FROM pg_description d LEFT JOIN " +
			"pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0 " +
			"WHERE d.classoid = 'pg_class'::regclass AND d.objoid = to_regclass($1)",
		"SELECT format('%sindex %s', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END, " +
			"substring(pg_get_indexdef(i.indexrelid) FROM ' USING (.*)')) FROM pg_index i " +
			"WHERE i.indrelid = to_regclass($1)",
		"SELECT pg_get_constraintdef(o.oid), o.conname FROM pg_constraint o WHERE o.conrelid = to_regclass($1) " +
			"AND (o.contype IN ('c', 'x') OR o.contype = 'u' AND o.condeferrable)",
	}
}

var (
	// A session with ANSI_QUOTES shows names in double quotes.
	keyName = regexp.MustCompile("^((?:UNIQUE |FULLTEXT |SPATIAL )?KEY) " +
		"(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\")")
	anyKey        = regexp.MustCompile(`^(PRIMARY |UNIQUE |FULLTEXT |SPATIAL )?KEY `)
	autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
	// namedCheck is a CHECK with its name, if it has one, up to its parenthesis.
	namedCheck = regexp.MustCompile("(?i)(?:\\bCONSTRAINT\\s+([`\"\\[]?)([^`\"\\]\\s]+)[`\"\\]]?\\s+)?" +
		`\bCHECK\s*\(`)
	// collated is a column with its collation.
	collated = regexp.MustCompile("(?i)[(,]\\s*(?:[`\"\\[]([^`\"\\]]+)|([^\\s,()`\"\\[]+))" +
		"(?:\\([^()]*\\)|[^,])*?\\bCOLLATE\\s+[`\"\\[]?(\\w+)")
)

// factsOfMySQL reads the lines of SHOW CREATE TABLE, each of which is a column, a key, or a constraint, and
// the last one the options of the table.
func factsOfMySQL(text string) (facts []string) {
	lines := strings.Split(text, "\n")
	for _, line := range lines[1:] {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		name := namedCheck.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, ")"):
			line = strings.TrimPrefix(autoIncrement.ReplaceAllString(line, ""), ") ")
		case !strings.HasPrefix(line, "CONSTRAINT"):
			line = keyName.ReplaceAllString(line, "$1")
		case name == nil: // a foreign key
			continue
		default:
			if _, _, _, own := shardmap.ReadCheckName(name[2]); own {
				continue
			}
			_, line, _ = strings.Cut(line, "CHECK")
			line = "CHECK" + line
		}
		facts = append(facts, line)
	}
	return facts
}

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
			_, _, _, own = shardmap.ReadCheckName(text[found[4]:found[5]])
		}
		if !own {
			facts = append(facts, "CHECK ("+text[found[1]:end])
		}
		text = text[end:]
	}
}
