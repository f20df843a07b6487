package merge_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// gameFile names a real game: its schema for MySQL is in the file of this name with .sql, and what is true of it
// in that with .truth. Each line of the truth says something of a table:
//
//	rows char 3000                                       how many rows its second server has about nine tenths of
//	start char 150000                                    its first key
//	values inventory.card0 0*8 4001*2 256                what a column holds, and how often
//	ref mail.sender characters.guid zero 3 when messageType 0   a reference, with 0 in every third row
//	ref item.unique_id char.char_id bits 32-62           one to some bits; with COLUMN, share N and base NUMBER
//	name char.name                                       names that the game keeps unique
//	copy mail.send_name char.name send_id                a copy of a name
//	policy login rename userid                           what a person decides about a table
const gameFile = "SNOWFLAKE_GAME"

// truth is a line of a truth file.
type truth struct {
	what, table, column, parent, key string
	with, when, bits                 string
	is                               []string
	zero, share, rows                int
	base                             uint64
}

func readTruth(t *testing.T, path string) (all []truth) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		l := truth{what: words[0]}
		l.table, l.column, _ = strings.Cut(words[1], ".")
		switch l.what {
		case "rows", "start":
			l.rows = number(words[2])
		case "values", "policy":
			l.is = words[2:]
		case "copy":
			l.parent, l.key, _ = strings.Cut(words[2], ".")
			l.with = words[3]
		case "ref":
			l.parent, l.key, _ = strings.Cut(words[2], ".")
			for n := 3; n < len(words); n += 2 {
				switch words[n] {
				case "zero":
					l.zero = number(words[n+1])
				case "share":
					l.share = number(words[n+1])
				case "bits":
					l.bits = words[n+1]
				case "with":
					l.with = words[n+1]
				case "base":
					l.base, _ = strconv.ParseUint(words[n+1], 0, 64)
				case "when":
					l.when = words[n+1]
					l.is = strings.Split(words[n+2], ",")
					n++
				}
			}
		}
		all = append(all, l)
	}
	return all
}

// condition is SQL for the rows that refer.
func (l truth) condition() string {
	switch {
	case l.when != "":
		return "`" + l.when + "` IN (" + strings.Join(l.is, ", ") + ")"
	case l.base != 0:
		return fmt.Sprintf("(%#q >> 48) & 65535 = %d", l.column, l.base>>48)
	case l.zero < 0: // the column holds larger numbers as well
		return "`" + l.column + "` < 4294967296"
	}
	return ""
}

func (l truth) low() (low, width int) {
	_, _ = fmt.Sscanf(l.bits, "%d-%d", &low, &width)
	return low, width - low + 1
}

// gameServer makes the rows of a server.
type gameServer struct {
	t      *testing.T
	b      base
	truths []truth
	random *rand.Rand
	scale  float64
	keys   map[string][]int64 // by table and column
	names  map[string]map[int64]string
}

type gameColumn struct {
	name, kind      string
	primary, unique bool
	counted         bool
}

func (g *gameServer) columns(table string) (all []gameColumn) {
	for _, line := range g.b.texts(g.t, "SELECT CONCAT_WS('|', COLUMN_NAME, DATA_TYPE, COLUMN_KEY, EXTRA) FROM "+
		"information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '"+table+"' ORDER BY ORDINAL_POSITION") {
		p := strings.Split(line, "|")
		all = append(all, gameColumn{p[0], p[1], p[2] == "PRI", p[2] == "UNI", p[3] == "auto_increment"})
	}
	return all
}

// rows is how many rows a table has.
func (g *gameServer) rows(table string) int {
	for _, l := range g.truths {
		if l.what == "rows" && l.table == table {
			return max(1, int(float64(l.rows)*g.scale))
		}
	}
	return 0
}

// count makes the keys and the names of a table, so that any other can refer to them.
func (g *gameServer) count(table string) {
	key, next := g.single(table), int64(1)
	if key == "" {
		return
	}
	named := false
	for _, l := range g.truths {
		if l.what == "start" && l.table == table {
			next = int64(l.rows)
		}
		named = named || l.what == "name" && l.table == table
	}
	for n := range g.rows(table) {
		if g.random.IntN(10) == 0 {
			next++ // it was deleted
		}
		g.keys[table+"."+key] = append(g.keys[table+"."+key], next)
		if named {
			if g.names[table] == nil {
				g.names[table] = map[int64]string{}
			}
			g.names[table][next] = "Hero" + threeLetters(n)
		}
		next++
	}
}

// fill fills a table.
func (g *gameServer) fill(table string) {
	rows, refs := g.rows(table), map[string][]truth{}
	for _, l := range g.truths {
		if l.table == table && l.what == "ref" {
			refs[l.column] = append(refs[l.column], l)
		}
	}
	columns, key := g.columns(table), g.single(table)
	taken := map[string]bool{}
	var batch []string
	flush := func() {
		if len(batch) > 0 {
			g.b.exec(g.t, "INSERT INTO `"+table+"` VALUES "+strings.Join(batch, ", "))
			batch = nil
		}
	}
	for n := range rows {
		for range 50 {
			row := g.row(table, columns, refs, key, n)
			primary, unique := "", []string{}
			for i, c := range columns {
				if c.primary {
					primary += "|" + row[i]
				}
				if c.unique {
					unique = append(unique, c.name+"="+row[i])
				}
			}
			if primary != "" {
				unique = append(unique, primary)
			}
			if !slices.ContainsFunc(unique, func(at string) bool { return taken[at] }) {
				for _, at := range unique {
					taken[at] = true
				}
				batch = append(batch, "("+strings.Join(row, ", ")+")")
				break
			}
		}
		if len(batch) == 500 {
			flush()
		}
	}
	flush()
}

// single is the counted key of a table, or "".
func (g *gameServer) single(table string) string {
	var keys []gameColumn
	for _, c := range g.columns(table) {
		if c.counted {
			return c.name
		}
		if c.primary {
			keys = append(keys, c)
		}
	}
	if len(keys) != 1 || !strings.HasSuffix(keys[0].kind, "int") || slices.ContainsFunc(g.truths, func(l truth) bool {
		return l.what == "ref" && l.table == table && l.column == keys[0].name
	}) {
		return ""
	}
	return keys[0].name
}

func (g *gameServer) row(table string, columns []gameColumn, refs map[string][]truth, key string, n int) []string {
	row, at := make([]string, len(columns)), map[string]int{}
	for i, c := range columns {
		at[c.name] = i
		if row[i] = g.plain(table, c); c.name == key {
			row[i] = fmt.Sprint(g.keys[table+"."+key][n])
		}
	}
	for _, c := range columns {
		for _, l := range refs[c.name] {
			if l.what != "ref" || l.when != "" && !slices.Contains(l.is, row[at[l.when]]) ||
				l.share > 0 && g.random.IntN(l.share) > 0 {
				continue
			}
			keys := g.keys[l.parent+"."+l.key]
			if len(keys) == 0 {
				g.t.Fatalf("%s has no keys for %s.%s", l.parent, table, l.column)
			}
			v := keys[g.random.IntN(len(keys))]
			switch {
			case l.zero > 0 && g.random.IntN(l.zero) == 0:
				row[at[c.name]] = "0"
			case l.bits == "":
				row[at[c.name]] = fmt.Sprint(v)
			default:
				low, width := l.low()
				for k, name := range slices.DeleteFunc([]string{c.name, l.with}, func(s string) bool { return s == "" }) {
					part := uint64(v) >> (k * width) & (1<<width - 1) << low
					if low > 0 {
						part |= l.base | g.random.Uint64()&(1<<low-1)&0xffff
					}
					row[at[name]] = fmt.Sprint(part)
				}
			}
		}
	}
	for _, l := range g.truths {
		switch {
		case l.table != table:
		case l.what == "name":
			row[at[l.column]] = "'" + g.names[table][g.keys[table+"."+key][n]] + "'"
		case l.what == "copy":
			v, _ := strconv.ParseInt(row[at[l.with]], 10, 64)
			row[at[l.column]] = "'" + g.names[l.parent][v] + "'"
		}
	}
	return row
}

// plain is a value that refers to nothing.
func (g *gameServer) plain(table string, c gameColumn) string {
	for _, l := range g.truths {
		if l.what != "values" || l.table != table || l.column != c.name {
			continue
		}
		var all []string
		for _, w := range l.is {
			value, times, many := strings.Cut(w, "*")
			count := 1
			if many {
				count, _ = strconv.Atoi(times)
			}
			all = append(all, slices.Repeat([]string{value}, count)...)
		}
		value := all[g.random.IntN(len(all))]
		if from, to, is := strings.Cut(value, ".."); is {
			least, _ := strconv.Atoi(from)
			most, _ := strconv.Atoi(to)
			return fmt.Sprint(least + g.random.IntN(most-least+1))
		}
		return value
	}
	sum := uint32(0)
	for _, r := range c.name {
		sum = sum*31 + uint32(r)
	}
	switch c.kind {
	case "tinyint":
		return fmt.Sprint(g.random.IntN(9))
	case "smallint", "mediumint":
		return fmt.Sprint(g.random.IntN(400))
	case "int", "bigint":
		if most := []int{1, 60, 40_000, 2_000_000_000}[sum%4]; most > 1 || c.primary {
			return fmt.Sprint(g.random.IntN(max(most, 300)))
		}
		return "0"
	case "float", "double", "decimal":
		return fmt.Sprintf("%d.5", g.random.IntN(1000))
	case "datetime", "date", "timestamp":
		return "'2024-05-06'"
	case "enum":
		return "1"
	case "bit":
		return "NULL"
	}
	if c.primary {
		return fmt.Sprintf("'k%s'", threeLetters(g.random.IntN(64_000)))
	}
	return []string{"''", "'so'", "'we'"}[g.random.IntN(3)]
}

// TestARealGame drafts the plan of a real game of which two servers are filled with rows, lets a person who knows
// the game decide what is open, merges, verifies, and compares all tables by statements of its own.
func TestARealGame(t *testing.T) {
	file := os.Getenv(gameFile)
	if file == "" {
		t.Skip("the schema of a real game is needed, and none is part of this repository: " + gameFile)
	}
	truths := readTruth(t, file+".truth")
	text, err := os.ReadFile(file + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	var schema []string
	for line := range strings.Lines(string(text)) {
		if at := strings.Index(line, "-- "); at >= 0 && !strings.Contains(line[:at], "'") || strings.HasPrefix(line, "--") {
			line = line[:max(at, 0)] + "\n"
		}
		schema = append(schema, line)
	}
	for i, s := range strings.Split(strings.Join(schema, ""), ";\n") {
		schema = append(schema[:i:i], "")
		if _, of, found := strings.Cut(s, "CREATE TABLE"); found {
			schema[i] = "CREATE TABLE" + strings.ReplaceAll(of, "MyISAM", "InnoDB")
		}
	}
	schema = slices.DeleteFunc(schema, func(s string) bool { return s == "" })
	dbtest.Run(t, dbtest.ServersOf("mysql"), func(t *testing.T, target dbtest.Target) {
		servers, into, plan := small(t, target, schema, nil, nil, nil)
		for i, b := range servers {
			g := &gameServer{t: t, b: b, truths: truths, random: rand.New(rand.NewPCG(uint64(i), 7)),
				scale: []float64{1, 0.9}[i], keys: map[string][]int64{}, names: map[string]map[int64]string{}}
			tables := b.texts(t, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()")
			for _, name := range tables {
				g.count(name)
			}
			for _, name := range tables {
				g.fill(name)
			}
		}
		began := time.Now()
		lap := func(what string) {
			t.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond))
			began = time.Now()
		}
		draft, lock, err := merge.Draft(t.Context(), plan, merge.WithOpener(opener))
		if err != nil {
			t.Fatal(err)
		}
		lap("draft")
		written, err := draft.YAML()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d tables, %d lines of the plan:\n%s", len(draft.Tables), strings.Count(string(written), "\n"), written)
		if read, err := merge.Parse(written); err != nil || read.Hash() != draft.Hash() {
			t.Errorf("the plan is not read as it was written: %v", err)
		}
		g := &gameJudge{t: t, truths: truths, plan: draft, into: into}
		g.judge()
		m := opened(t, draft, merge.WithLock(lock))
		report, err := m.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lap("check")
		draft.GivesUp = report.GivesUp
		for _, p := range report.Problems {
			if p.Code != merge.CodeGivesUp {
				t.Errorf("problem: %v", p)
			}
		}
		for _, p := range report.Warnings {
			t.Logf("warning: %v", p)
		}
		t.Logf("gaps: %v", report.Gaps)
		m = opened(t, draft, merge.WithLock(lock))
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		lap("run")
		verify, err := m.Verify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lap("verify")
		for _, c := range verify.Failed {
			t.Errorf("verify: %+v", c)
		}
		g.compare(servers, into)
		t.Logf("rows: %d", report.Rows)
	})
}

// gameJudge decides about a draft as somebody would who knows the game.
type gameJudge struct {
	t      *testing.T
	truths []truth
	plan   *merge.Plan
	into   base
}

// is returns the true reference of a column to a table, if there is one.
func (g *gameJudge) is(table, column, parent string, packed bool) *truth {
	for i, l := range g.truths {
		if l.what == "ref" && strings.EqualFold(l.table+"."+l.column, table+"."+column) && l.parent == parent &&
			(l.bits != "") == packed {
			return &g.truths[i]
		}
	}
	return nil
}

// matching returns the columns that an entry of an identity is about, without the key itself.
func (g *gameJudge) matching(at, key string) (all []string) {
	if !strings.Contains(at, "*") {
		return []string{at}
	}
	for _, found := range g.into.texts(g.t, "SELECT CONCAT(TABLE_NAME, '.', COLUMN_NAME) FROM information_schema.COLUMNS WHERE "+
		"TABLE_SCHEMA = DATABASE()") {
		if matches, err := path.Match(at, found); err == nil && matches && found != key {
			all = append(all, found)
		}
	}
	return all
}

func (g *gameJudge) judge() {
	drafted, asked, wrong := map[*truth]bool{}, map[*truth]bool{}, 0
	named := map[string]bool{}
	for _, patterns := range []bool{false, true} {
		for name, id := range g.plan.Identities {
			for _, in := range id.In {
				at, _, _ := strings.Cut(in, " ")
				if strings.Contains(at, "*") != patterns {
					continue
				}
				for _, at := range g.matching(at, name+"."+id.Key) {
					table, column, _ := strings.Cut(at, ".")
					switch l := g.is(table, column, name, false); {
					case patterns && named[at]:
					case l == nil:
						g.t.Errorf("wrong: %s in %s", in, name)
						wrong++
					default:
						drafted[l], named[at] = true, true
					}
				}
			}
		}
	}
	false1 := 0
	for _, table := range slices.Sorted(maps.Keys(g.plan.Tables)) {
		p := g.plan.Tables[table]
		for _, r := range p.References {
			if l := g.is(table, r.Column, r.Table, r.Bits != ""); l != nil {
				drafted[l] = true
			} else {
				g.t.Errorf("wrong: %s.%s of %s", table, r.Column, r.Table)
				wrong++
			}
		}
		for _, o := range p.Undecided {
			parent, _, _ := strings.Cut(o.Candidate, ".")
			l := g.is(table, o.Column, parent, strings.HasPrefix(o.As, "bits"))
			copied := slices.IndexFunc(g.truths, func(c truth) bool {
				return c.what == "copy" && o.As == "names" && c.table == table && c.column == o.Column && c.parent == parent
			})
			switch {
			case l != nil:
				asked[l] = true
			case copied >= 0:
				c := g.truths[copied]
				of := g.plan.Tables[parent].Rename
				of.Copies = append(of.Copies, merge.NameCopy{Table: table, Column: o.Column, Ref: c.with})
			default:
				g.t.Logf("asked in vain: %s.%s of %s %s: %s", table, o.Column, o.Candidate, o.As, o.Evidence)
				g.plan.Plain = append(g.plan.Plain, table+"."+o.Column)
				false1++
			}
		}
		p.Undecided = nil
	}
	all, missed := 0, []string{}
	for i := range g.truths {
		l := &g.truths[i]
		switch l.what {
		case "policy":
			p := g.plan.Tables[l.table]
			p.Policy, p.Renumber, p.Rename = merge.Policy(l.is[0]), "", nil
			if p.Policy == merge.Rename {
				p.Rename, p.Renumber = &merge.RenamePlan{Column: l.is[1]}, merge.Apart
			} else if len(l.is) > 1 {
				p.Renumber = merge.Renumbering(l.is[1])
			}
		case "ref":
			if all++; drafted[l] {
				continue
			}
			if !asked[l] {
				missed = append(missed, strings.TrimSpace(l.table+"."+l.column+" "+l.bits))
			}
			r := merge.Reference{Column: l.column, Table: l.parent, Target: []string{l.key}, Bits: l.bits, When: l.condition()}
			if l.with != "" {
				r.Column, r.Columns = "", []string{l.column, l.with}
			}
			if zero := "`" + l.column + "` <> 0"; l.zero > 0 && r.When == "" {
				r.When = zero
			} else if l.zero > 0 {
				r.When += " AND " + zero
			}
			p := g.plan.Tables[l.table]
			p.References = append(p.References, r)
		}
	}
	g.t.Logf("%d of %d references drafted, %d asked for, %d wrong, %d asked in vain; missed: %v", len(drafted), all,
		len(asked), wrong, false1, missed)
}

// compare computes the target in plain SQL, out of what is true and of what was added to keys.
func (g *gameJudge) compare(servers []base, into base) {
	g.t.Helper()
	schemas := make([]string, len(servers))
	for i, b := range servers {
		schemas[i] = b.texts(g.t, "SELECT DATABASE()")[0]
	}
	damages := int64(0)
	for _, table := range slices.Sorted(maps.Keys(g.plan.Tables)) {
		if p := g.plan.Tables[table].Policy; p != merge.Copy && p != merge.Rename {
			continue
		}
		columns := (&gameServer{t: g.t, b: into}).columns(table)
		var wants, names []string
		for i := range servers {
			var list []string
			for _, c := range columns {
				if g.named(table, c.name) {
					continue
				}
				if i == 0 {
					names = append(names, "`"+c.name+"`")
				}
				list = append(list, g.moved(table, c.name, i+1, into)+" AS `"+c.name+"`")
			}
			wants = append(wants, "SELECT "+strings.Join(list, ", ")+", 1 AS merge_n FROM "+schemas[i]+".`"+table+"`")
		}
		all := strings.Join(names, ", ")
		n := into.number(g.t, "SELECT COUNT(*) FROM (SELECT "+all+", SUM(merge_n) AS s FROM ("+strings.Join(wants, " UNION ALL ")+
			" UNION ALL SELECT "+all+", -1 FROM `"+table+"`) AS x GROUP BY "+all+" HAVING s <> 0) AS y")
		if n > 0 {
			g.t.Errorf("%s: %d rows are not what they have to be", table, n)
		}
		damages += n
	}
	for _, l := range g.truths {
		switch l.what {
		case "name":
			damages += into.number(g.t, "SELECT COUNT(*) - COUNT(DISTINCT `"+l.column+"`) FROM `"+l.table+"`")
		case "copy":
			key := g.plan.Identities[l.parent].Key
			n := into.number(g.t, "SELECT COUNT(*) FROM `"+l.table+"` c JOIN `"+l.parent+"` p ON p.`"+key+"` = c.`"+l.with+
				"` WHERE c.`"+l.column+"` <> p.`"+l.key+"`")
			if n > 0 {
				g.t.Errorf("%s.%s: %d copies are not the name", l.table, l.column, n)
			}
			damages += n
		}
	}
	g.t.Logf("damages: %d", damages)
}

func (g *gameJudge) named(table, column string) bool {
	return slices.ContainsFunc(g.truths, func(l truth) bool {
		return (l.what == "name" || l.what == "copy") && l.table == table && l.column == column
	})
}

// moved is SQL for what a column of a server has to be in the target.
func (g *gameJudge) moved(table, column string, server int, into base) string {
	offset := func(parent, key string) int64 { // a key that is another table's key moves with that
		for _, l := range g.truths {
			if l.what == "ref" && l.table == parent && l.column == key {
				parent = l.parent
			}
		}
		return into.number(g.t, fmt.Sprintf("SELECT COALESCE(SUM(added), 0) FROM merge_offsets WHERE tbl = '%s' AND server = %d",
			parent, server))
	}
	value := "`" + column + "`"
	if p := g.plan.Tables[table]; p.Renumber != "" {
		if n := offset(table, ""); n != 0 && strings.EqualFold(column, g.primary(table, into)) {
			return fmt.Sprintf("%#q + %d", column, n)
		}
	}
	text := ""
	for _, l := range g.truths {
		if l.what != "ref" || l.table != table || l.column != column && l.with != column {
			continue
		}
		low, width := l.low()
		n := offset(l.parent, l.key)
		now, condition := fmt.Sprintf("%s + %d", value, n), l.condition()
		switch {
		case l.with != "":
			whole := fmt.Sprintf("(%#q + 65536 * %#q + %d)", l.column, l.with, n)
			if now = whole + " % 65536"; column == l.with {
				now = whole + " DIV 65536"
			}
		case l.bits != "":
			now = fmt.Sprintf("%s + %d * %d", value, n, uint64(1)<<low)
			condition = strings.TrimPrefix(condition+" AND "+value+" <> 0", " AND ")
		default:
			condition = strings.TrimPrefix(condition+" AND "+value+" <> 0", " AND ")
		}
		_ = width
		text += " WHEN " + map[bool]string{true: "1 = 1", false: condition}[condition == ""] + " THEN " + now
	}
	if text == "" {
		return value
	}
	return "CASE" + text + " ELSE " + value + " END"
}

func (g *gameJudge) primary(table string, into base) string {
	for _, c := range (&gameServer{t: g.t, b: into}).columns(table) {
		if c.primary {
			return c.name
		}
	}
	return ""
}
