package verify

import (
	"context"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// findOffsets finds out by how much the counted keys of each server were moved: from where its keys begin in
// the target, behind those of the servers before it.
func (v *verifier) findOffsets(ctx context.Context, j *job) error {
	if !j.plan.Renumber || !j.counted() || j.plan.joins() {
		return nil
	}
	j.offsets, j.upper = make([]int64, len(v.sources)), slices.Repeat([]int64{-1}, len(v.sources))
	j.zeros = make([]bool, len(v.sources))
	name := j.to.primary[0]
	last := int64(-1)
	for i, d := range v.sources {
		if j.from[i] == nil || j.from[i].column(name) == nil {
			continue
		}
		least, greatest, err := v.span(ctx, j, i, d)
		if err != nil {
			return err
		}
		if greatest < 0 {
			continue
		}
		j.zeros[i] = least == 0
		if i > 0 {
			key := v.target.kind.quote(name)
			text, err := v.target.text(
				ctx,
				"SELECT MIN("+key+") FROM "+v.target.kind.quote(j.name)+" WHERE "+key+" > "+
					strconv.FormatInt(last, 10)+" AND "+key+" < "+strconv.FormatInt(v.plan.Counted, 10),
			)
			if err != nil {
				return err
			}
			if first, err := strconv.ParseInt(text, 10, 64); err == nil {
				j.offsets[i] = first - least
			}
		}
		last = max(last, greatest+j.offsets[i])
		j.upper[i] = last
	}
	return nil
}

// span returns the least and the greatest counted key of the rows of a source that are in the target, or -1.
func (v *verifier) span(
	ctx context.Context,
	j *job,
	server int,
	d *database,
) (least, greatest int64, err error) {
	key := "s." + d.kind.quote(j.to.primary[0])
	where := " AND " + key + " < " + strconv.FormatInt(v.plan.Counted, 10)
	if kept := v.kept(j, server, "s"); kept != "" {
		where += " AND " + kept
	}
	for above := int64(-1); ; above = least {
		rows, err := d.texts(
			ctx,
			"SELECT MIN("+key+"), MAX("+key+") FROM "+d.kind.quote(j.name)+" AS s WHERE "+key+" > "+
				strconv.FormatInt(above, 10)+where,
		)
		if err != nil || rows[0][0] == "" {
			return -1, -1, err
		}
		if least, err = strconv.ParseInt(rows[0][0], 10, 64); err != nil {
			return 0, 0, err
		}
		if greatest, err = strconv.ParseInt(rows[0][1], 10, 64); err != nil {
			return 0, 0, err
		}
		_, refused, err := j.refused.get(rowAt(server, rows[0][0]))
		if err != nil || !refused {
			return least, greatest, err
		}
	}
}

// readRefused reads which rows the target has refused.
func (v *verifier) readRefused(ctx context.Context, j *job) error {
	k := v.target.kind
	return v.target.each(
		ctx,
		"SELECT server, row_key FROM "+k.quote(listOfRefused)+" WHERE tbl = "+k.placeholder(1),
		[]any{j.name},
		func(values []any) error {
			server := v.position(textOf(values[0]))
			if server < 0 {
				return nil
			}
			if j.refused == nil {
				j.refused = newIndex()
			}
			return j.refused.set(rowAt(server, textOf(values[1])), "")
		},
	)
}

// position returns which server has a number, or -1.
func (v *verifier) position(number string) int {
	return slices.IndexFunc(
		v.plan.Servers,
		func(s Server) bool { return strconv.FormatInt(s.Number, 10) == number },
	)
}

// duplicates counts the groups of rows of the target that are equal in a key. A database prevents them, but
// its checks can be switched off.
func (v *verifier) duplicates(ctx context.Context, j *job) error {
	k := v.target.kind
	keys := append([]uniqueKey{{name: "the primary key", columns: j.to.primary}}, j.to.unique...)
	keys = append(keys, uniqueKey{name: "the key of the plan", columns: j.plan.Key})
	for _, key := range keys {
		var by, held []string
		for i, name := range key.columns {
			by = append(by, key.term(k, i, ""))
			held = append(held, k.quote(name)+" IS NOT NULL")
		}
		if len(by) == 0 {
			continue
		}
		n, err := v.target.text(
			ctx,
			"SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM "+k.quote(j.name)+" WHERE "+
				strings.Join(held, " AND ")+" GROUP BY "+strings.Join(by, ", ")+" HAVING COUNT(*) > 1) AS x",
		)
		if err != nil {
			return err
		}
		v.compare("duplicates", j.name, "", key.name, "0", n)
	}
	return nil
}

// term returns the i-th column of a key as the index compares it.
func (u uniqueKey) term(k kind, i int, alias string) string {
	text := alias + k.quote(u.columns[i])
	if i < len(u.collations) && u.collations[i] != "" {
		text += " COLLATE " + u.collations[i]
	}
	return text
}

// counters checks that sequences count on behind the greatest key, whether they belong to a column or only
// give it its default. Where there is none, the database looks at the keys itself.
func (v *verifier) counters(ctx context.Context, j *job) error {
	for _, c := range j.to.columns {
		if c.class != classNumber {
			continue
		}
		var behind string
		var err error
		switch v.target.kind {
		case postgres:
			behind, err = v.postgresCounter(ctx, j, c.name)
		case mysql:
			behind, err = v.mysqlCounter(ctx, j, c.name)
		}
		if err != nil {
			return err
		}
		if behind != "" {
			v.compare("counter", j.name, "", c.name, behindGreatest, behind)
		}
	}
	return nil
}

const behindGreatest = "behind the greatest key"

// postgresCounter says where the sequence of a column stands, or "" if it has none.
func (v *verifier) postgresCounter(ctx context.Context, j *job, column string) (string, error) {
	k := v.target.kind
	sequence, err := v.target.text(ctx, `SELECT COALESCE((SELECT min(s.seqrelid)::regclass::text
			FROM pg_attribute a JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
			JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = e.oid
				AND d.refclassid = 'pg_class'::regclass
			JOIN pg_sequence s ON s.seqrelid = d.refobjid
			WHERE a.attrelid = $1::text::regclass AND a.attname = $2::text),
		pg_get_serial_sequence($1::text, $2::text))`, k.quote(j.name), column)
	if err != nil || sequence == "" {
		return "", err
	}
	return v.target.text(
		ctx,
		"SELECT CASE WHEN seqincrement > 0 AND last_value + CASE WHEN is_called THEN 1 ELSE 0 END > "+
			"(SELECT COALESCE(MAX("+k.quote(column)+"), 0) FROM "+k.quote(j.name)+") "+
			"OR seqincrement < 0 AND last_value - CASE WHEN is_called THEN 1 ELSE 0 END < "+
			"(SELECT COALESCE(MIN("+k.quote(column)+"), seqmax) FROM "+k.quote(j.name)+") "+
			"THEN '"+behindGreatest+"' ELSE 'at ' || last_value END FROM "+sequence+
			", pg_sequence WHERE seqrelid = '"+strings.ReplaceAll(sequence, "'", "''")+"'::regclass",
	)
}

// mysqlCounter is postgresCounter for MariaDB. Numbers that a session keeps for itself count as given out.
func (v *verifier) mysqlCounter(ctx context.Context, j *job, column string) (string, error) {
	def, err := v.target.text(ctx, "SELECT COALESCE(MAX(column_default), '') FROM information_schema.columns "+
		"WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?", j.name, column)
	sequence, ok := strings.CutPrefix(strings.Trim(def, "()"), "nextval(")
	if err != nil || !ok || v.target.tidb {
		return "", err
	}
	of := v.target.kind.quote(column) + ") FROM " + v.target.kind.quote(j.name)
	return v.target.text(ctx, "SELECT CASE WHEN increment > 0 AND "+
		"next_not_cached_value > COALESCE((SELECT MAX("+of+"), 0) OR increment < 0 AND "+
		"next_not_cached_value < COALESCE((SELECT MIN("+of+"), maximum_value + 1) "+
		"THEN '"+behindGreatest+"' ELSE CONCAT('at ', next_not_cached_value) END FROM "+sequence)
}

// sum compares a sum over all sources with that of the target.
func (v *verifier) sum(ctx context.Context, s Sum) error {
	j := v.jobs[s.Table]
	if j == nil {
		return nil
	}
	want := new(big.Rat)
	for i, d := range v.sources {
		if j.from[i] == nil {
			continue
		}
		n, err := d.total(ctx, s, v.kept(j, i, "s"))
		if err != nil {
			return err
		}
		want.Add(want, n)
	}
	got, err := v.target.total(ctx, s, "")
	if err != nil {
		return err
	}
	v.compare("sum", s.Table, "", s.Name, ratText(want), ratText(got))
	return nil
}

func (d *database) total(ctx context.Context, s Sum, kept string) (*big.Rat, error) {
	// A name in braces is a column, quoted as this database wants it.
	expression := "(" + regexp.MustCompile("\\{([^{}'\"`]+)\\}").ReplaceAllStringFunc(s.Expression,
		func(name string) string { return d.kind.quote(name[1 : len(name)-1]) }) + ")"
	if d.kind == postgres {
		expression += "::text"
	}
	text := "SELECT " + expression + " FROM " + d.kind.quote(s.Table) + " AS s"
	if kept != "" {
		text += " WHERE " + kept
	}
	value, err := d.text(ctx, text)
	n := new(big.Rat)
	if err != nil || value == "" { // there are no rows
		return n, err
	}
	if _, ok := n.SetString(value); !ok {
		return nil, fmt.Errorf("%s: %s is %q, which is not a number", d.Name, s.Expression, value)
	}
	return n, nil
}

func ratText(n *big.Rat) string {
	if n.IsInt() {
		return n.Num().String()
	}
	return strings.TrimRight(n.FloatString(6), "0")
}
