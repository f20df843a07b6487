package merge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// insideCheck looks at the keys inside of documents and lists, as far as those keys change. Of a key that
// leads nowhere, nobody could say what becomes of it: with a new value, it could lead to another row one day.
type insideCheck struct {
	ws     *workspace
	report *CheckReport
	broken bool // keys inside of a column, or of a column, cannot be changed
}

const remedyOfInside = "correct it on its server, leave such rows out by when: on the reference, or give " +
	"the column a value by set:"

func (c *insideCheck) check(ctx context.Context) error {
	return c.ws.eachSource(func(j *tableJob, src *sourceTable, s *server) error {
		var links []*insideLink
		for _, l := range src.links {
			if l.inside() {
				links = append(links, &insideLink{sourceLink: l})
			}
		}
		if len(links) == 0 {
			return nil
		}
		in := &reader{ws: c.ws, src: src, size: c.ws.chunkRows, refused: func(string, pair, error) {}}
		for page := (chunk{}); !page.ended; {
			var err error
			if page, err = in.page(ctx); err != nil {
				return err
			}
			for _, l := range links {
				if err := l.look(ctx, c.ws, src, page.rows); err != nil {
					return fmt.Errorf("the references in %s: %w", l.column, err)
				}
			}
		}
		for _, l := range links {
			l.tell(c.report, s, j)
			c.broken = c.broken || l.broken > 0
		}
		return nil
	})
}

// insideLink is a reference inside of a column, and what is wrong with its rows.
type insideLink struct {
	sourceLink
	broken, lost        int64  // rows that cannot be read, and rows with a key that leads nowhere
	brokenRow, lostKey  string // examples
	brokenBy, lostInRow string
}

// look counts the rows of a chunk that cannot be read, and those with a key that leads to no row.
func (l *insideLink) look(ctx context.Context, ws *workspace, src *sourceTable, rows []row) error {
	parent := ws.jobs[l.of]
	key := parent.key()
	found := make([][]any, len(rows)) // by row, its keys
	asked := map[string]any{}
	for i, r := range rows {
		values := l.parts(r)
		if values == nil {
			continue
		}
		keys, err := l.keys(values)
		if err != nil {
			if l.broken++; l.broken == 1 {
				l.brokenRow, l.brokenBy = sqldb.KeyText(r.key), err.Error()
			}
			continue
		}
		for _, v := range keys {
			v = identity(v, key, src.raw)
			found[i] = append(found[i], v)
			asked[sqldb.KeyText([]any{v})] = v
		}
	}
	there, err := existing(ctx, ws, parent, src.server, asked)
	if err != nil {
		return err
	}
	for i, keys := range found {
		for _, v := range keys {
			none := l.bits.used() && v == any(int64(0)) // no bit is set
			if none || there[sqldb.KeyText([]any{v})] {
				continue
			}
			if l.lost++; l.lost == 1 {
				l.lostKey, l.lostInRow = sqldb.Shorten(sqldb.Text(v)), sqldb.KeyText(rows[i].key)
			}
			break
		}
	}
	return nil
}

// existing returns which of some keys the copied rows of a table of a server have.
func existing(ctx context.Context, ws *workspace, parent *tableJob, server int,
	asked map[string]any) (map[string]bool, error) {
	const batch = 500
	there := make(map[string]bool, len(asked))
	src, db, key := parent.sources[server], ws.servers[server].db, parent.key()
	from := src.from.Column(key.Name)
	var all []string
	for _, v := range asked {
		_, err := sqldb.Canonical(v, key, false)
		v, is := from.Key(db.Kind, v)
		_, can := from.Asked(db.Kind, v, src.raw)
		if is && can && (src.raw || err == nil) { // otherwise the column cannot hold it
			all = append(all, sqldb.Constant(db.Kind, v))
		}
	}
	for some := range slices.Chunk(all, batch) {
		q := sqldb.NewStatement(db.Kind, "SELECT ", from.ReadExpression(db.Kind))
		exactly := from.Exactly(db.Kind, "s."+db.Kind.Quote(from.Name))
		newSelection(ws, server).from(q, src, sqldb.Among(db.Kind, []string{exactly}, some))
		err := db.Each(ctx, q, func(values []any) error {
			there[sqldb.KeyText([]any{identity(values[0], key, src.raw)})] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

// tell adds what was found to the report.
func (l *insideLink) tell(report *CheckReport, s *server, j *tableJob) {
	place := strings.TrimSpace(strings.Join(l.bits.columns(l.column), "+") + " " + l.path)
	if l.bits.used() {
		place += " bits " + l.bits.String()
	}
	if l.broken > 0 {
		report.problem(Problem{Code: CodeRefused, Server: s.Name, Table: j.name, Column: place, Count: l.broken,
			Message: fmt.Sprintf("the references cannot be read, such as in row %s: %s", l.brokenRow, l.brokenBy),
			Remedy:  remedyOfInside})
	}
	if l.lost > 0 {
		report.problem(Problem{Code: CodeOrphan, Server: s.Name, Table: j.name, Column: place, Count: l.lost,
			Message: fmt.Sprintf("the reference leads to a row of %s that does not exist or is not copied, "+
				"such as %s in row %s", l.of, l.lostKey, l.lostInRow),
			Remedy: remedyOfInside})
	}
}
