package merge

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/census"
	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// schemaCheck compares the plan with the catalogs of the databases.
type schemaCheck struct {
	*checking
	running bool // a run follows
}

// tables compares the tables of the databases with the tables of the plan.
func (c *schemaCheck) tables() {
	ws := c.ws
	names := slices.Collect(maps.Keys(ws.target.Tables))
	for _, o := range ws.target.Objects {
		if o.Kind != "trigger" && o.Kind != "schema" { // all others share their names with tables
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		c.report.problemIf(needed(ws.target.Kind, name), Problem{Code: CodePlan, Server: ws.target.Name,
			Table: name, Message: "the merge needs this name for a table of its own",
			Remedy: "rename it in the target and on the servers for the time of the merge; or, if a merge into " +
				"this database was tried by another version, make a fresh target"})
	}
	for _, d := range ws.databases() {
		for name, t := range sorted(d.Tables) {
			c.report.problemIf(t.Hidden && ws.policy(name).copies(), Problem{Code: CodeHiddenRows, Server: d.Name,
				Table: name, Message: "row-level security hides rows of the table from this login",
				Remedy: "use a login with BYPASSRLS, or the owner of the table without FORCE ROW LEVEL SECURITY"})
			c.report.problemIf(ws.plan.Tables[name] == nil, Problem{Code: CodeUnknownTable, Server: d.Name,
				Table: name, Message: "the table is not in the plan",
				Remedy: "give it a policy, as a draft from this plan does; with skip, its rows stay behind"})
		}
	}
	for name, p := range sorted(ws.plan.Tables) {
		if !ws.known(name) {
			c.report.problem(Problem{Code: CodeMissingTable, Table: name, Message: "no database has the table" +
				ws.spelled(name), Remedy: "correct its name in the plan, or remove it"})
			continue
		}
		for _, s := range ws.servers {
			c.report.problemIf(s.db.Tables[name] == nil && p.Policy.copies() && !slices.Contains(p.Absent, s.Name),
				Problem{Code: CodeMissingTable, Server: s.Name, Table: name,
					Message: "the server has no such table",
					Remedy:  "if that is right, list the server under absent: of the table"})
		}
	}
}

// inventory compares what the sources hold besides tables with what the plan lists as left out. What holds
// rows stands in the way until the plan names it; of the rest check tells.
func (c *schemaCheck) inventory() {
	for _, s := range c.ws.servers { // of the target nothing is lost
		for _, o := range s.db.Objects {
			listed := func(l LeftOut) bool { return l.Kind == o.Kind && l.Name == o.Name }
			if slices.ContainsFunc(c.ws.plan.LeftOut, listed) {
				continue
			}
			p := Problem{Code: CodeLeftOut, Server: s.Name, Table: o.Name,
				Message: "a " + strings.TrimSpace(o.Kind+" "+o.What) + ", which a merge does not copy",
				Remedy:  fmt.Sprintf("list it under left_out: of the plan as {kind: %s, name: %s}", o.Kind, o.Name)}
			report := c.report.warn
			if o.Rows {
				report = c.report.problem
			}
			switch {
			case o.Kind == "schema":
				p.Remedy += "; or merge it as well, by a plan whose DSNs have search_path=" + o.Name
			case o.Rows:
				p.Remedy += "; or copy its rows into a table first"
			default:
				p.Remedy += ", once the migrations make it in the target"
			}
			report(p)
		}
	}
	for _, l := range c.ws.plan.LeftOut {
		c.report.problemIf(!slices.ContainsFunc(c.ws.databases(), func(d *sqldb.DB) bool {
			same := func(o sqldb.Object) bool { return l.Kind == o.Kind && l.Name == o.Name }
			return slices.ContainsFunc(d.Objects, same)
		}), Problem{Code: CodePlan, Table: l.Name,
			Message: "left_out: no database has a " + l.Kind + " of this name",
			Remedy:  "correct or remove the entry"})
	}
	for _, text := range c.ws.plan.Plain {
		c.report.problemIf(!slices.ContainsFunc(c.ws.databases(), func(d *sqldb.DB) bool {
			return slices.ContainsFunc(slices.Collect(maps.Values(d.Tables)), func(t *sqldb.Table) bool {
				name, ok := strings.CutPrefix(text, t.Name+".")
				return ok && t.Column(name) != nil
			})
		}), Problem{Code: CodePlan, Message: fmt.Sprintf("plain: no database has a column %q", text),
			Remedy: "correct or remove the entry; of several columns with + between them it is the first"})
	}
}

// fires refuses what acts in the target while a merge writes there, unless the plan lists it: the triggers of
// the tables that are written, and events. They may change rows, or write into tables that are compared.
func (c *schemaCheck) fires() {
	unused := slices.Clone(c.ws.plan.Fires)
	meet := func(table, name, message, disable string) {
		p := Problem{Code: CodeTrigger, Server: c.ws.target.Name, Table: table, Message: message}
		if slices.Contains(c.ws.plan.Fires, name) {
			unused = slices.DeleteFunc(unused, func(listed string) bool { return listed == name })
			c.report.warn(p)
			return
		}
		p.Remedy = disable + " until verify was done; or, if it has to act, list it as " + name +
			" under fires: of the plan"
		c.report.problem(p)
	}
	disable := "drop it in the target, and do not make it again"
	if c.ws.target.Kind == sqldb.PostgreSQL {
		disable = "disable it in the target"
	}
	for _, j := range c.ws.order {
		for _, name := range j.target.Triggers {
			meet(j.name, name, "the trigger "+name+" acts on rows that the merge writes", disable)
		}
	}
	for _, o := range c.ws.target.Objects {
		if o.Acts {
			meet(o.Name, o.Name, "the event acts in the target while the merge writes",
				"disable it in the target, or turn off event_scheduler,")
		}
	}
	for _, name := range unused {
		c.report.problem(Problem{Code: CodePlan, Server: c.ws.target.Name, Table: name,
			Message: "fires: no table that is written has such an enabled trigger, and there is no such event",
			Remedy:  "correct or remove the entry"})
	}
}

// undecided reports the tables and columns about which the plan does not decide, with what a draft would
// choose from.
func (c *schemaCheck) undecided() {
	d := newDrafter(c.ws)
	for name, planned := range sorted(c.ws.plan.Tables) {
		c.openColumns(name)
		if planned.Policy != NotDecided || !c.ws.known(name) {
			continue
		}
		own, candidates, err := d.suggest(c.Ctx, name)
		if err != nil {
			c.Fail(fmt.Errorf("table %s: %w", name, err))
			return
		}
		p := Problem{Code: CodeUndecided, Table: name, Message: "nobody has decided what becomes of its rows",
			Remedy: "give it what a draft would: " + oneLine(own)}
		if len(candidates) > 0 {
			p.Message += ": " + own.Note
			p.Remedy = "give it a policy: " + strings.Join(candidates, "; or ")
		}
		c.report.problem(p)
	}
}

// columns compares the columns of each source with those of the target.
func (c *schemaCheck) columns() {
	for _, j := range c.ws.order {
		c.named(j)
		for _, column := range stagedColumns(j, j.target.Keys()) {
			reserved := slices.Contains(sqldb.ColumnNames(fixedColumns()), strings.ToLower(column.Name))
			c.report.problemIf(reserved, Problem{Code: CodePlan, Table: j.name, Column: column.Name,
				Message: "the temporary tables of the merge have a column of their own with this name",
				Remedy:  "rename the column on the servers and in the target for the time of the merge"})
		}
		c.ownKeys(j)
		c.report.problemIf(j.target.Engine != "", Problem{Code: CodeEngine, Server: c.ws.target.Name,
			Table: j.name, Message: "its engine " + j.target.Engine + " has no transactions, so a run that ends " +
				"early could write rows twice or lose them",
			Remedy: "ALTER TABLE " + c.ws.target.Kind.Quote(j.name) + " ENGINE=InnoDB, ROW_FORMAT=DEFAULT in the " +
				"target; after verify it can be changed back"})
		for _, k := range j.target.Keys() {
			c.report.problemIf(k.Manifold(), Problem{Code: CodeUncheckable, Server: c.ws.target.Name, Table: j.name,
				Column: k.Name, Message: "it is unique in every element of an array, so rows cannot be compared in " +
					"it before they are written",
				Remedy: "drop the index in the target; made again after verify, it says which rows have an element " +
					"in common"})
		}
		for _, src := range j.present() {
			c.columnsOf(j, src)
		}
		c.countedAlone(j)
	}
}

// countedAlone warns of columns that the database counts and no unique key covers, so nothing keeps the
// numbers of one server apart from those of another one.
func (c *schemaCheck) countedAlone(j *tableJob) {
	for _, column := range j.target.Writable() {
		name := column.Name
		if !column.Counts() || len(j.present()) < 2 || j.plan.Policy.collapses() || j.plan.Set[name] != "" ||
			j.target.Keyed(name) || j.refers(name) ||
			slices.Contains(c.ws.plan.Plain, j.name+"."+name) {
			continue
		}
		c.report.warn(Problem{Code: CodeUndeclared, Table: j.name, Column: name,
			Message: "the database counts this column, and no unique key covers it, so rows of several servers " +
				"will have the same number",
			Remedy: "if the number identifies a row, make it the primary key on the servers and in the target, " +
				"and give the table renumber:; if nothing refers to it, list it under plain: of the plan"})
	}
}

const remedyOfNoKey = "give the table a primary key on the servers and in the target, or the policy copy"

// named checks that the target has the columns that the plan names.
func (c *schemaCheck) named(j *tableJob) {
	p := j.plan
	names := slices.Concat(p.Key, p.Sum, p.Min, p.Max, []string{p.By}, p.Rename.writes(),
		slices.Sorted(maps.Keys(p.Set)))
	if p.Rename != nil {
		names = append(names, p.Rename.By)
		for _, n := range p.Rename.Copies {
			other := c.ws.jobs[n.Table]
			if other == nil && !c.ws.policy(n.Table).copies() {
				continue // nothing of it is copied
			}
			c.report.problemIf(other == nil || other.target.Column(n.Column) == nil ||
				other.target.Column(cmp.Or(n.Ref, n.Column)) == nil, Problem{Code: CodeNameCopy, Table: j.name,
				Message: fmt.Sprintf("the copy %s.%s by %s is not there, or its table is not copied", n.Table,
					n.Column, cmp.Or(n.Ref, "itself")),
				Remedy: "correct it under copies: of the table, or remove it"})
		}
	}
	for _, name := range names {
		c.report.problemIf(name != "" && j.target.Column(name) == nil, Problem{Code: CodePlan, Table: j.name,
			Column: name, Message: "the plan names the column, but the target lacks it",
			Remedy: "correct the name in the plan, or add the column to the target"})
	}
	for name, expression := range sorted(p.Set) {
		c.report.problemIf(slices.Contains(j.target.Primary, name), Problem{Code: CodePlan, Table: j.name,
			Column: name, Message: "set changes the primary key, by which rows are known",
			Remedy: "use renumber, or change the rows on their server"})
		c.report.problemIf(strings.Contains(expression, wordRenamed) && (j.refers(name) ||
			j.target.Keyed(name) || name == p.Rename.Column), Problem{Code: CodePlan, Table: j.name, Column: name,
			Message: "set changes it by {renamed}, and it is part of a unique key or of a reference, or it " +
				"is the name: who gets a new name depends on these",
			Remedy: "set another column by {renamed}"})
	}
	key := j.key()
	c.report.problemIf(p.Renumber != "" && (key == nil || key.Family != sqldb.FamilyInt ||
		p.BadRows == "quarantine" && !j.counted()), Problem{Code: CodePlan, Table: j.name,
		Message: "renumber needs a primary key of one integer column; or, with copy and rename and without a " +
			"quarantine, one other unique key of one integer column",
		Remedy: "remove renumber: from the table; keys of other kinds that are equal are changed on their " +
			"server, or their rows become one by keep_first or newest, if they mean the same; a number that is " +
			"unique beside the key gets another value by set:, such as id + 100000 * {server}"})
	for _, ref := range j.refs {
		parent := c.ws.jobs[ref.Parent]
		if p.Renumber == "" || key == nil || !slices.Equal(ref.Columns, []string{key.Name}) || ref.When != "" ||
			ref.Inside() || parent == nil || parent.follows == nil {
			continue
		}
		moves := func(l link) bool {
			return l.column == ref.Target[0] && (l.parent != ref.Parent || parent.changes())
		}
		c.report.problemIf(!slices.ContainsFunc(parent.follows.links, moves), Problem{Code: CodePlan,
			Table: j.name, Column: key.Name,
			Message: "its values are keys of " + ref.Parent + ", which stay, so they cannot be renumbered",
			Remedy:  "remove renumber: from the table; or the reference, if they are the keys of its own rows"})
	}
	numeric := []sqldb.Family{sqldb.FamilyInt, sqldb.FamilyDecimal, sqldb.FamilyFloat, sqldb.FamilyBool}
	for _, name := range p.Sum {
		if col := j.target.Column(name); col != nil && !slices.Contains(numeric, col.Family) {
			c.report.problem(Problem{Code: CodePlan, Table: j.name, Column: name,
				Message: "a column of type " + col.Declared + " cannot be added",
				Remedy:  "remove it from sum: of the table, so that the value of the first server stays"})
		}
	}
	c.report.problemIf(j.keyed() && len(j.target.Primary) == 0, Problem{Code: CodeNoKey, Table: j.name,
		Message: "the policy " + string(p.Policy) + " needs a primary key, and the table has none",
		Remedy:  remedyOfNoKey})
	for _, text := range j.target.Abroad {
		c.report.warn(Problem{Code: CodeUncheckable, Table: j.name, Message: "the foreign key " + text +
			", which lies in another schema: it is not followed, and nobody looks for its rows beforehand",
			Remedy: "merge that schema first, and let its keys stay as they are; where two schemas refer to each " +
				"other, drop one of the foreign keys until both are merged"})
	}
	for _, name := range j.target.Exclusions {
		c.report.warn(Problem{Code: CodeUncheckable, Table: j.name, Column: name,
			Message: "whether rows of several servers break the exclusion constraint is not tried beforehand",
			Remedy:  "a row that it refuses will be named by the run"})
	}
	for _, k := range j.target.Keys() {
		if j.computed(k) {
			c.report.warn(Problem{Code: CodeUncheckable, Table: j.name, Column: k.Name,
				Message: "the unique key contains a computed value, so keys cannot be compared before " +
					"the rows are written"})
		}
	}
}

// ownKeys refuses keys by which rows become one if a column of them refers to the table itself. Whether two
// rows have the same parent then depends on which rows have become one, and the other way round.
func (c *schemaCheck) ownKeys(j *tableJob) {
	if !j.plan.Policy.collapses() {
		return
	}
	key, p := j.plan.Key, Problem{Code: CodePlan, Table: j.name}
	counted := c.countedIn(j)
	switch {
	case len(key) == 0:
		p.Message = "the policy " + string(j.plan.Policy) + " makes rows one, and the plan does not say which"
		p.Remedy = "name under key: of the table the columns by which rows are equal" + keysToName(j)
	case j.plan.Renumber != "" && len(j.target.Primary) == 1 && slices.Contains(key, j.target.Primary[0]):
		p.Message = "renumber gives every row a primary key of its own, so no two rows can become one by it"
		p.Remedy = "name under key: of the table the columns by which rows are equal; or remove renumber:, if " +
			"an equal key means the same on all servers; or choose copy, if it does not"
	case counted != "":
		p.Column = counted
		p.Message = "rows would become one by a column that the databases count, so it says nothing about what " +
			"is equal"
		p.Remedy = "name under key: of the table other columns, which mean the same on all servers; or choose " +
			"copy; or skip, and let the migrations of the game fill the table of the target"
	}
	c.report.problemIf(p.Message != "", p)
	refuse := func(column, target string) {
		// Rows that become one have the same target if it is in the key, and then nothing has to follow.
		same := j.plan.Renumber == "" && slices.Contains(key, target)
		c.report.problemIf(!same && column != target && slices.Contains(key, column), Problem{Code: CodePlan,
			Table: j.name, Column: column,
			Message: "rows become one by a key with this column, which refers to rows of the same table that may " +
				"become one, too",
			Remedy: "name under key: of the table other columns by which rows are equal; or choose copy or rename"})
	}
	for _, l := range j.follows.links {
		if l.parent == j.name {
			refuse(l.column, j.target.Primary[0])
		}
	}
	for _, w := range j.follows.whole {
		for i, name := range w.columns() {
			if w.parent == j.name {
				refuse(name, j.target.Primary[i])
			}
		}
	}
}

// countedIn returns a column of the key by which rows become one that a database counts, or "". A counted key
// alone is none if most rows that are equal in it have the same name, too, as the towns of a map have.
func (c *schemaCheck) countedIn(j *tableJob) string {
	for _, name := range j.plan.Key {
		counts := func(src *sourceTable) bool { return src.table.Column(name).Counts() }
		if !j.target.Column(name).Counts() && !slices.ContainsFunc(j.present(), counts) {
			continue
		}
		if key := rowBy(j.target); len(j.plan.Key) == 1 && key != nil && key.Name == name {
			alike, err := newDrafter(c.ws).alike(c.Ctx, j.target, name)
			if c.Fail(err); len(alike) > 0 {
				return ""
			}
		}
		return name
	}
	return ""
}

// keysToName lists the unique keys that a plan may name, for a remedy.
func keysToName(j *tableJob) string {
	var all []string
	for _, k := range j.target.Keys() {
		counts := func(name string) bool { return j.target.Column(name).Counts() }
		if k.Simple() && !slices.ContainsFunc(k.Columns(), counts) {
			all = append(all, "key: ["+strings.Join(k.Columns(), ", ")+"]")
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ", such as " + strings.Join(all, " or ")
}

func (c *schemaCheck) columnsOf(j *tableJob, src *sourceTable) {
	s := src.owner
	for _, source := range src.table.Columns {
		if source.Generated || slices.Contains(j.plan.Ignore, source.Name) {
			continue
		}
		p := Problem{Code: CodeMissingColumn, Server: s.Name, Table: j.name, Column: source.Name}
		switch target := j.target.Column(source.Name); {
		case target == nil:
			p.Message = "the target lacks the column, so its values would be lost"
			p.Remedy = "add it to the target, or list it under ignore: of the table"
		case target.Generated:
			p.Message = "the target computes the column, so the values that the server holds would be lost"
			p.Remedy = "make it an ordinary column of the target, or list it under ignore: of the table"
		}
		c.report.problemIf(p.Message != "", p)
	}
	for _, target := range j.target.Writable() {
		if src.index(target.Name) >= 0 {
			continue
		}
		p := Problem{Code: CodeMissingColumn, Server: s.Name, Table: j.name, Column: target.Name,
			Message: "the server lacks the column; its rows get the default of the target"}
		if !target.Nullable && !target.HasDefault || slices.Contains(j.target.Primary, target.Name) {
			p.Message = "the server lacks the column, and the target has no default for it"
			p.Remedy = "bring the server up to the version of the others"
			if !slices.Contains(j.target.Primary, target.Name) {
				p.Remedy += ", or give the column a value by set:, or a default in the target"
			}
			c.report.problem(p)
		} else {
			c.report.warn(p)
		}
	}
	for _, p := range src.pairs {
		c.report.problemIf(!sqldb.Fits(p.source, p.target, s.db.Kind, c.ws.target.Kind) &&
			!slices.Contains(j.plan.Convert, p.target.Name), Problem{Code: CodeColumnType, Server: s.Name,
			Table: j.name, Column: p.target.Name,
			Message: fmt.Sprintf("it is %s there and %s in the target", p.source.Declared, p.target.Declared),
			Remedy:  "change one of them, or list the column under convert: of the table"})
	}
	if len(src.key) == 0 {
		c.report.warn(Problem{Code: CodeNoKey, Server: s.Name, Table: j.name,
			Message: "the table has no primary key, so it is copied slowly, and equal rows cannot be told apart"})
		c.report.problemIf(j.keyed(), Problem{Code: CodeNoKey, Server: s.Name, Table: j.name,
			Message: "the policy " + string(j.plan.Policy) + " needs a primary key, and the table has none there",
			Remedy:  remedyOfNoKey})
	}
	c.report.problemIf(j.plan.Rename != nil && len(src.key) > 0 && c.ws.repeatsNames(j) &&
		!slices.Equal(src.table.Primary, j.target.Primary), Problem{Code: CodeNoKey, Server: s.Name,
		Table: j.name, Message: "its primary key is (" + strings.Join(src.table.Primary, ", ") + ") there and (" +
			strings.Join(j.target.Primary, ", ") + ") in the target, so what repeats its names would not follow " +
			"them",
		Remedy: "give the table one primary key on the servers and in the target"})
}

// circles reports every circle of references once, and how the run handles it.
func (c *schemaCheck) circles() {
	waits := c.ws.target.Kind.ChecksAtOnce()
	for _, loop := range c.ws.circles {
		p := Problem{Code: CodeCircle}
		if len(loop.tables) == 1 {
			p.Code = CodeSelfReference
		}
		var names, says []string
		for _, j := range loop.tables {
			names = append(names, j.name)
			for _, ref := range j.circular {
				text := j.name + "." + strings.Join(ref.Columns, ", ") + " refers to " + ref.Parent
				if waits && ref.Enforced && j.nullable(ref) != "" {
					text += " and is filled in when all rows are there"
				}
				says = append(says, text)
			}
		}
		p.Table, p.Message = strings.Join(names, ", "), strings.Join(says, ", ")
		switch {
		case loop.stuck && waits:
			c.report.problem(Problem{Code: CodeCircle, Table: p.Table,
				Message: "the foreign keys form a circle, and none of its columns can be NULL: " + p.Message,
				Remedy: "make one of the columns nullable in the target; or drop its constraint until the merge " +
					"is done, and list the column under identities: of the plan, so that it is still followed"})
			continue
		case !waits:
			p.Message += "; verify looks at foreign keys when all rows are there"
		}
		c.report.warn(p)
	}
}

// defaults warns of defaults that lead to rows, such as one that migrations have made, which get other keys.
func (c *schemaCheck) defaults() {
	for _, j := range c.ws.order {
		for _, ref := range j.refs {
			parent, col := c.ws.jobs[ref.Parent], j.target.Column(ref.Columns[0])
			if len(ref.Columns) > 1 || ref.Inside() || col == nil || col.Default == "" || parent == nil ||
				parent.plan.Renumber != Apart || c.ws.plan.Apart == apartOthers || parent.key() == nil ||
				!slices.Equal(c.ws.led(ref).Target, []string{parent.key().Name}) ||
				ref.When != "" && col.Default == "0" {
				continue
			}
			for _, src := range parent.present() {
				db, key := src.owner.db, parent.key().Name
				if own := db.Tables[parent.name].Column(key); own == nil || own.Family != sqldb.FamilyInt {
					continue
				}
				if c.Any(db, " FROM ", db.Kind.Quote(parent.name), " WHERE ", db.Kind.Quote(key), " = ",
					col.Default) {
					c.report.warn(Problem{Code: CodeOrphan, Server: db.Name, Table: j.name, Column: col.Name,
						Message: "the default " + col.Default + " leads to a row of " + parent.name +
							", which gets another key, and so a row with this default will lead to none",
						Remedy: "when verify was done, give the target a row with this key, or the column " +
							"another default"})
					break
				}
			}
		}
	}
}

// ambiguous warns of references to columns that no unique key keeps apart, as MySQL and plans allow them.
// Rows of two servers may be equal there, and what leads to one of them leads to both.
func (c *schemaCheck) ambiguous() {
	for _, j := range c.ws.order {
		for _, ref := range j.refs {
			parent := c.ws.jobs[ref.Parent]
			if parent == nil || len(parent.present()) < 2 {
				continue
			}
			changes := func(name string) bool { return !c.ws.elsewhere.stays(parent, name) }
			apart := func(k sqldb.UniqueKey) bool { return k.Simple() && sameNames(k.Columns(), ref.Target) }
			if slices.ContainsFunc(ref.Target, changes) || slices.ContainsFunc(parent.target.Keys(), apart) {
				continue
			}
			how := "by set:"
			// Rows are known by their primary key, which set: may not change.
			keyed := func(name string) bool { return slices.Contains(j.target.Primary, name) }
			led := func(name string) bool { return slices.Contains(parent.target.Primary, name) }
			if slices.ContainsFunc(ref.Columns, keyed) || slices.ContainsFunc(ref.Target, led) {
				how = "on a copy of it"
			}
			c.report.warn(Problem{Code: CodeUncheckable, Table: j.name, Column: strings.Join(ref.Columns, ", "),
				Message: "it leads to " + ref.Parent + " by (" + strings.Join(ref.Target, ", ") + "), which no " +
					"unique key keeps apart, so it may lead to rows of several servers",
				Remedy: "give the columns of both tables other values on each server " + how + ", or make the key " +
					"unique"})
		}
	}
}

// expressions tries the SQL in the plan. Otherwise a mistake in a sum would only show in Verify, when
// everything is copied and the plan can no longer change.
func (c *schemaCheck) expressions() {
	ws := c.ws
	for j, src := range ws.sources() {
		db := src.owner.db
		c.condition(db, j.name, "where:", j.plan.Where)
		if j.exempts() {
			c.condition(db, j.name, "when: of rename:", j.plan.Rename.When)
		}
		for _, ref := range j.refs {
			if src.table.Column(ref.Columns[0]) != nil {
				c.condition(db, j.name, "when:", ref.When)
			}
		}
	}
	if len(c.report.Problems) > 0 {
		return // the sums use the same conditions
	}
	for _, s := range ws.plan.Conserve {
		for _, src := range ws.jobs[s.Table].present() {
			c.sum(src.owner.db, s, src.sel.rows(src))
		}
		c.sum(ws.target, s, " FROM "+ws.target.Kind.Quote(s.Table))
	}
}

// tried reports a problem with SQL of the plan, unless the context has ended.
func (c *schemaCheck) tried(err error, p Problem) {
	if c.Ctx.Err() != nil {
		c.Fail(err)
	} else if err != nil {
		p.Code, p.Message = CodePlan, fmt.Sprintf("%s: %v", p.Message, err)
		c.report.problem(p)
	}
}

// condition tries a condition of the plan on the rows of a table.
func (c *schemaCheck) condition(d *sqldb.DB, table, where, text string) {
	if text == "" {
		return
	}
	_, err := d.Any(c.Ctx, " FROM ", d.Kind.Quote(table), " AS s WHERE (", text, ") AND 1 = 0")
	postgres := func(s *server) bool { return s.db.Kind == sqldb.PostgreSQL }
	if err == nil && d.Kind == sqldb.MySQL && strings.Contains(text, `"`) &&
		slices.ContainsFunc(c.ws.servers, postgres) {
		err = errors.New("what stands in double quotes is a text there, and a name in PostgreSQL")
	}
	c.tried(err, Problem{Server: d.Name, Table: table,
		Message: "the database does not understand " + where + " " + text,
		Remedy: "correct " + where + " of the table, which is a condition on its columns; if no way to write " +
			"the name of one is understood by all servers, give it another one on copies and in the target"})
}

// sum tries a conserved sum over the rows that are selected.
func (c *schemaCheck) sum(d *sqldb.DB, s ConservedSum, rows string) {
	// {Gold} is the column Gold, quoted as each kind of database wants it.
	column := regexp.MustCompile(`\{([^{}'"` + "`" + `]+)\}`)
	text := column.ReplaceAllStringFunc(s.Expression, func(name string) string {
		return d.Kind.Quote(name[1 : len(name)-1])
	})
	var value any
	err := d.Row(c.Ctx, d.SQL("SELECT ", d.Kind.AsText(text), rows), &value)
	if err == nil && value != nil { // otherwise there are no rows
		if _, ok := new(big.Rat).SetString(sqldb.Text(value)); !ok {
			err = fmt.Errorf("%s: %s is %q, which is not a number", d.Name, s.Expression, sqldb.Text(value))
		}
	}
	c.tried(err, Problem{Server: d.Name, Table: s.Table,
		Message: fmt.Sprintf("the sum %q cannot be computed", s.Name),
		Remedy:  "correct its expression under conserve:, which every source and the target have to understand"})
}

// closed refuses what the plan does not know of the columns of the servers: those of which an earlier lock
// says something else, and those that hold keys which change although the plan does not say what they are.
// Their values would lead to other rows after the merge. It warns of those that may hold such keys, and of
// those that do although the plan lists them as plain numbers.
func (c *schemaCheck) closed() {
	earlier := c.ws.lock
	if c.Err != nil || earlier == nil && !slices.ContainsFunc(c.ws.order, (*tableJob).changes) {
		return
	}
	now, _, err := survey(c.Ctx, c.ws, earlier, c.running)
	if err != nil {
		c.Fail(err)
		return
	}
	c.report.Lock, c.ws.survey = now, now
	if !c.running { // check has said it
		weak, err := c.ws.byChance(c.Ctx, now)
		c.Fail(err)
		for _, p := range weak {
			p.Message += ", as other numbers would be by chance; if it is something else, such as a price, the " +
				"merge would change these values"
			c.report.warn(p)
		}
	}
	for _, j := range c.ws.order {
		if c.ws.lock != nil {
			now.against(c.ws.lock, j.name, c.report.problem)
		}
		said := j.whens()
		for _, target := range j.target.Columns {
			col := now.Tables[j.name].Columns[target.Name]
			foreign := c.foreign(j.name, target.Name, col)
			more := slices.DeleteFunc(slices.Clone(foreign), col.refers)
			for _, key := range slices.Concat(col.Of, more) {
				open := func(o OpenColumn) bool { return o.Column == target.Name }
				bound := slices.Contains(foreign, LockedKey{Table: key.Table, Column: key.Column})
				certain := key.As == "" && (col.Verdict == census.Reference.String() || bound)
				plain := slices.Contains(c.ws.plan.Plain, j.name+"."+target.Name)
				if !c.moves(key, j) || // or the plan has said it
					c.ws.declared(j.name, target.Name, key.Table) || slices.ContainsFunc(j.plan.Undecided, open) ||
					plain && !certain {
					continue
				}
				if c.saidOf(j.name, target.Name, key.When, said[target.Name]) ||
					!certain && c.ws.saysNowhere(j, target.Name) {
					continue
				}
				is, says, report := "are", "does not say so", c.report.problem
				switch {
				case plain && bound: // verify would compare it
					says = "lists it under plain:, though it has a foreign key on a server"
				case plain:
					says, report = "lists it under plain:, so they would lead to nobody", c.report.warn
				case !certain: // A few small numbers are keys by chance.
					is, report = "may be", c.report.warn
				}
				o := OpenColumn{Column: target.Name, As: key.As, With: key.With, When: key.When}
				remedy := c.declareIt(j.name, o, key)
				switch {
				case plain && bound:
					remedy = "take it from plain:; " + remedy
				case plain:
					remedy = "if it does refer to it, take it from plain:, and check says how to declare it"
				}
				report(Problem{Code: CodeUndeclared, Table: j.name, Column: target.Name,
					Message: fmt.Sprintf("its values %s keys of %s, which change, and the plan %s (%s)", is, key.Table,
						says, cmp.Or(col.Hits[key.Table+"."+key.Column], "in some rows")),
					Remedy: remedy})
			}
		}
	}
}

// moves reports whether a key gets other numbers: that of a table which is renumbered, or which has the keys
// of such a table, though not of the one that asks.
func (c *schemaCheck) moves(key LockedKey, asks *tableJob) bool {
	parent := c.ws.jobs[key.Table]
	return parent != nil && (parent.changes() && parent.key().Name == key.Column ||
		slices.ContainsFunc(parent.refs, func(r sqldb.Reference) bool {
			up := c.ws.jobs[r.Parent]
			return slices.Equal(r.Columns, []string{key.Column}) && up != nil && up != asks && up.changes()
		}))
}

// foreign returns the keys that a column holds by foreign keys of servers, which the target may lack. They
// are proof, however few the rows are.
func (c *schemaCheck) foreign(table, column string, col LockedColumn) (all []LockedKey) {
	for _, s := range c.ws.servers {
		t := s.db.Tables[table]
		if t == nil {
			continue
		}
		for _, r := range t.References {
			key := LockedKey{Table: r.Parent, Column: strings.Join(c.ws.led(r).Target, ", ")}
			if slices.Equal(r.Columns, []string{column}) && col.holds(key) && !slices.Contains(all, key) {
				all = append(all, key)
			}
		}
	}
	return all
}

// saidOf reports whether each row that a finding is about meets a condition of a reference of the plan, which
// says where it leads.
func (c *schemaCheck) saidOf(table, column, found, said string) bool {
	return said != "" && !slices.ContainsFunc(c.ws.servers, func(s *server) bool {
		col := s.db.Tables[table].Column(column)
		return col != nil && c.Any(s.db, " FROM ", s.db.Kind.Quote(table), " WHERE ",
			filledIn(s.db.Kind, col), " AND (", cmp.Or(found, "1 = 1"), ") AND CASE WHEN ", said,
			" THEN 1 ELSE 0 END = 0")
	})
}

// repeated warns of texts that repeat names which may change: they would keep the old ones.
func (c *schemaCheck) repeated() {
	if c.running || c.Err != nil {
		return // check has said it
	}
	c.Fail(newDrafter(c.ws).repeated(c.Ctx, c.ws.plan, func(table string, o OpenColumn) {
		open := func(other OpenColumn) bool { return other.Column == o.Column }
		if slices.ContainsFunc(c.ws.plan.Tables[table].Undecided, open) {
			return // it is reported there
		}
		key, texts, says := o.key(), "its texts", "which can change, and the plan does not say so"
		if path, inside := strings.CutPrefix(o.As, "path "); inside {
			texts = "texts at " + path + " of its documents"
		}
		if o.As == asLists || o.As == asSentences {
			texts = strings.Replace(o.As, "names", "words", 1)
		}
		if o.As != asNames {
			says = "and stay as they are where these get other names"
		}
		c.report.warn(Problem{Code: CodeUndeclared, Table: table, Column: o.Column,
			Message: fmt.Sprintf("%s may be names of %s, %s (%s)", texts, key.Table, says, o.Evidence),
			Remedy:  c.declareIt(table, o, key)})
	}))
}

// declareIt is the remedy for a column that may be a reference.
func (c *schemaCheck) declareIt(table string, o OpenColumn, key LockedKey) string {
	column, parent := table+"."+o.Column, c.ws.plan.Tables[key.Table]
	if o.As != asNames && !strings.HasPrefix(o.As, asComputed) && parent != nil && parent.Rename != nil &&
		parent.Rename.Column == key.Column {
		return fmt.Sprintf("a new name does not get into documents, lists and sentences: let the old ones stay "+
			"there, or change them after the merge, for which merge_renames has the old and the new names; and "+
			"list %q under plain: of the plan", column)
	}
	return fmt.Sprintf("if it does refer to it, add %s; if it refers to another table, declare it there in "+
		"the same way; if it holds no keys, list %q under plain: of the plan", c.inPlan(table, o, key), column)
}

// inPlan says in words how a plan declares that a column refers to keys.
func (c *schemaCheck) inPlan(table string, o OpenColumn, key LockedKey) string {
	if as, computed := strings.CutPrefix(o.As, asComputed); computed {
		return oneLine(DerivedName{o.Column, as}) + " under derived: of the rename of " + table
	}
	if o.As == asNames {
		ref, means := "", "and texts that are names of any row on their server follow; with ref: only those of "+
			"the row that this column leads to"
		if o.With != "" {
			ref, means = ", ref: "+o.With, "where ref is the column that leads to the row of the name"
		}
		return "{table: " + table + ", column: " + o.Column + ref + "} under copies: of the rename of " +
			key.Table + ", " + means
	}
	e := o.holder(table)
	r, err := e.reference()
	switch {
	case err != nil:
		now := "give the column a value by set:"
		if t := c.ws.target.Tables[table]; t != nil && slices.Contains(t.Primary, o.Column) {
			now = "begin the values with the name of their server on a copy of each, since equal ones would be " +
				"one row"
		}
		return "no reference, since none leads to a number within such a value: " + now + ", or let the keys " +
			"of " + key.Table + " stay as they are, or change it after the merge, for which merge_offsets has " +
			"what was added to the keys, and list the column as below"
	case e.plain():
		return fmt.Sprintf("%q under identities: %s: {key: %s, in: [...]}", e.String(), key.Table, key.Column)
	}
	r.Table, r.Target = key.Table, []string{key.Column}
	return oneLine(r) + " under references: of the table " + table
}

// openColumns reports the columns about which the plan does not decide.
func (c *schemaCheck) openColumns(name string) {
	p := c.ws.plan.Tables[name]
	if !p.Policy.copies() && p.Policy != NotDecided {
		return
	}
	for _, o := range p.Undecided {
		key, evidence := o.key(), o.Evidence
		if c.ws.lock != nil && evidence == "" {
			for _, known := range c.ws.lock.Tables[name].Columns[o.Column].Of {
				if known.Table == key.Table && known.Column == key.Column && known.As == o.As {
					evidence = known.Evidence
				}
			}
		}
		message := "nobody has decided whether it holds keys of " + o.Candidate
		if evidence != "" {
			message += " (" + evidence + ")"
		}
		remedy := c.declareIt(name, o, key)
		col := c.ws.target.Tables[name].Column(o.Column)
		if o.As == "" && col != nil && col.Family == sqldb.FamilyInt {
			remedy += ", but if each server has counted its numbers, which are the key of no table, make a table " +
				"of them first, or those of several servers become one"
		}
		c.report.problem(Problem{Code: CodeUndecided, Table: name, Column: o.Column, Message: message,
			Remedy: remedy + "; then remove it from undecided:"})
	}
}
