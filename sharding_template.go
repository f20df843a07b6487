package snowflakeplugin

import (
	"context"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// What stands in a template for what differs from shard to shard. No SQL has these characters.
const (
	holeTable    = '\x00' // the name of the table, where the dialect would quote it
	holeNumber   = '\x01' // the number of the shard
	holeArgument = '\x02' // a placeholder, which some databases number
)

// template is a SELECT on a shard that is not said yet. Building a statement takes GORM ten times as
// long as filling one in, and a page over 64 shards has 64 of them.
type template struct {
	dialect gorm.Dialector
	sql     string
	vars    []any
	quote   string // of the dialect
	// special: it cannot be filled in, because more than this differs from shard to shard.
	special bool
}

// opening is what a statement that is built for a template leaves open.
type opening struct {
	of *shardModel
	// others: a scope leads to other tables of the shard, which cannot be told from this one.
	others bool
}

// template has GORM build a SELECT without running it.
func (r *Router) template(
	ctx context.Context, m *shardModel, database, shard int, complete branch,
) (*template, error) {
	to := route{shard: shard}
	if !m.broadcast {
		to.open = &opening{of: m}
	}
	db := r.dbs[database]
	tx := r.bind(ctx, db, to, m.value)
	tx = tx.Session(&gorm.Session{DryRun: true, SkipHooks: true, Logger: logger.Discard})
	tx.Dialector = openPlaceholders{db.Dialector} // in this session's copy of the configuration
	tx = complete(r.scoped(tx.Model(m.value)), string(holeNumber)).Find(m.slice())
	if tx.Error != nil {
		return nil, tx.Error
	}
	t := &template{
		dialect: db.Dialector, sql: tx.Statement.SQL.String(), vars: tx.Statement.Vars,
		quote: db.Statement.Quote("x")[:1],
	}
	// What was built says whether it is for this shard alone: the moved rows may just have been removed.
	_, leftOvers := tx.Statement.Clauses[clauseLeftOvers]
	// A subquery by a handle of the application has placeholders of its own.
	t.special = leftOvers || to.open != nil && to.open.others ||
		strings.Count(t.sql, string(holeArgument)) != len(t.vars)
	return t, nil
}

// literally has GORM build the SELECT for a shard as it stands, behind others.
func (r *Router) literally(
	ctx context.Context, m *shardModel, database, shard int, complete branch, s *statement,
) error {
	tx := r.bind(ctx, r.dbs[database], route{shard: shard}, m.value)
	tx = tx.Session(&gorm.Session{DryRun: true, SkipHooks: true, Logger: logger.Discard})
	tx = complete(r.scoped(tx.Model(m.value)), strconv.Itoa(shard))
	tx.Statement.Vars = s.vars // by which placeholders are numbered
	tx = tx.Find(m.slice())
	s.sql.WriteString(tx.Statement.SQL.String())
	s.vars = tx.Statement.Vars
	return tx.Error
}

// openPlaceholders is a dialect that leaves placeholders open.
type openPlaceholders struct{ gorm.Dialector }

// BindVarTo writes the hole.
func (openPlaceholders) BindVarTo(w clause.Writer, _ *gorm.Statement, _ any) {
	_ = w.WriteByte(holeArgument)
}

// fill appends the SELECT for a shard to a statement.
func (t *template) fill(s *statement, table string, shard int) {
	args := t.vars
	table = strings.ReplaceAll(table[strings.LastIndexByte(table, '.')+1:], t.quote, t.quote+t.quote)
	for rest := t.sql; ; {
		at := strings.IndexAny(rest, string([]rune{holeTable, holeNumber, holeArgument}))
		if at < 0 {
			s.sql.WriteString(rest)
			return
		}
		s.sql.WriteString(rest[:at])
		switch rest[at] {
		case holeTable:
			s.sql.WriteString(table)
		case holeNumber:
			s.sql.WriteString(strconv.Itoa(shard))
		case holeArgument:
			s.vars = append(s.vars, args[0])
			t.dialect.BindVarTo(&s.sql, &gorm.Statement{Vars: s.vars}, args[0])
			args = args[1:]
		}
		rest = rest[at+1:]
	}
}
