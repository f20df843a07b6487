package reshard

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/dialect"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/shardmap"
)

// mysql is MySQL and MariaDB. LOCK TABLES belongs to a connection and to no transaction, and what changes a
// table commits at once.
type mysql struct{ usual }

func mysqlTraits() traits {
	// The rows of two tables do not come in the order in which a foreign key would want them, so none is
	// checked. The mode takes every value that a table may hold from earlier, such as 0000-00-00, and does
	// not number a 0. By another mode SHOW CREATE TABLE may leave out what is not standard SQL.
	var keep, set, back []string
	for _, variable := range [][2]string{
		{"foreign_key_checks", "0"}, {"sql_safe_updates", "0"},
		{"sql_mode", "'STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'"},
		{"time_zone", "'+00:00'"}, {"character_set_results", "utf8mb4"},
		{"sql_select_limit", "18446744073709551615"}, {"innodb_table_locks", "1"}, {"autocommit", "1"},
		{"lock_wait_timeout", "@@lock_wait_timeout"}, // A cutover sets it.
	} {
		name, value := variable[0], variable[1]
		keep = append(keep, "@snowflake_"+name+" = @@"+name)
		set = append(set, name+" = "+value)
		back = append(back, name+" = @snowflake_"+name)
	}
	return traits{
		set: "SET " + strings.Join(append(keep, set...), ", "), reset: "SET " + strings.Join(back, ", "),
		// Otherwise INSERT ... SELECT would lock the rows that it reads, and so stop the writes of programs.
		isolation: sql.LevelReadCommitted,
		counted:   "bigint AUTO_INCREMENT PRIMARY KEY",
		product:   "SELECT VERSION() LIKE '%MariaDB%'",
		confined:  true,

		triggerList: "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_TABLE = ? AND " +
			"EVENT_OBJECT_SCHEMA" + dialect.InSchema,
		columns: "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_NAME = ? AND " +
			"TABLE_SCHEMA" + dialect.InSchema +
			" AND COALESCE(GENERATION_EXPRESSION, '') = '' ORDER BY ORDINAL_POSITION",
		extras: "SELECT CONCAT('GRANT ', PRIVILEGE_TYPE, ' ON %s TO ', GRANTEE, " +
			"CASE IS_GRANTABLE WHEN 'YES' THEN ' WITH GRANT OPTION' ELSE '' END) " +
			"FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" + dialect.InSchema,
		obstacles: [][2]string{
			{dropFirst, "SELECT CONCAT('the trigger ', TRIGGER_NAME), TRIGGER_NAME FROM " +
				"information_schema.TRIGGERS WHERE EVENT_OBJECT_TABLE = ? AND EVENT_OBJECT_SCHEMA" +
				dialect.InSchema},
			{notTaken, "SELECT CONCAT('the kind of ', TABLE_NAME, ', ', TABLE_TYPE, ' of ', " +
				"COALESCE(ENGINE, '')), '' FROM information_schema.TABLES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" +
				dialect.InSchema + " AND (TABLE_TYPE <> 'BASE TABLE' OR ENGINE <> 'InnoDB' " +
				"OR CREATE_OPTIONS LIKE '%partitioned%')"},
			{notTaken, "SELECT DISTINCT CONCAT('rights of ', GRANTEE, ' on single columns of ', TABLE_NAME), '' " +
				"FROM information_schema.COLUMN_PRIVILEGES WHERE TABLE_NAME = ? AND TABLE_SCHEMA" + dialect.InSchema},
			{cascades, "SELECT CONCAT('the foreign key ', CONSTRAINT_NAME, ' of ', TABLE_NAME), '' FROM " +
				"information_schema.REFERENTIAL_CONSTRAINTS WHERE TABLE_NAME = ? AND CONSTRAINT_SCHEMA" +
				dialect.InSchema + " AND (UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') " +
				"OR DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION'))"},
			{dropFirst, "SELECT DISTINCT CONCAT('the foreign key ', CONSTRAINT_NAME, ' of ', TABLE_NAME), '', " +
				"IF(TABLE_SCHEMA = REFERENCED_TABLE_SCHEMA, TABLE_NAME, '') FROM " +
				"information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME = ? AND REFERENCED_TABLE_SCHEMA" +
				dialect.InSchema},
			// A definition names the database of each table, and the views of other databases may have tables of
			// this name.
			{dropFirst, "SELECT CONCAT('the view ', TABLE_NAME), '' FROM information_schema.VIEWS JOIN " +
				"(SELECT ? AS name, ? AS space) AS t ON INSTR(VIEW_DEFINITION, CONCAT('`', " +
				"COALESCE(NULLIF(space, ''), DATABASE()), '`.`', name, '`')) > 0"},
			// An event that fails tells nobody but the log of the server. Its text is as it was written.
			{dropFirst, "SELECT CONCAT('the event ', EVENT_NAME), '' FROM information_schema.EVENTS JOIN " +
				"(SELECT ? AS name, ? AS space) AS t ON EVENT_SCHEMA = COALESCE(NULLIF(space, ''), DATABASE()) " +
				"AND EVENT_DEFINITION REGEXP CONCAT('(^|[^0-9A-Za-z_$])', name, '($|[^0-9A-Za-z_$])')"},
		},
	}
}

func (m mysql) exactly(c column, table string) (read string, isText bool) {
	name := table + "." + m.Quote(c.name)
	switch {
	case c.kind == "float":
		return "CAST(" + name + " AS DOUBLE)", true // As it is, the server rounds it to six digits.
	case c.kind == "double":
		return name, true
	case plainTypes.MatchString(c.kind):
		return name, false
	}
	return "CAST(" + name + " AS CHAR CHARACTER SET utf8mb4)", true
}

// plainTypes are the types that have neither a character set nor a collation.
var plainTypes = regexp.MustCompile(`^(bit|vector|(var)?binary|(tiny|medium|long)?blob|` +
	`geometry|(multi)?(point|linestring|polygon)|geom(etry)?collection)$`)

func (m mysql) same(mv *move, this, that string) string {
	var same []string
	for i, c := range mv.oldColumns {
		one, _ := m.exactly(c, this)
		other, _ := m.exactly(mv.freshColumns[i], that)
		same = append(same, fmt.Sprintf("CAST(%s AS BINARY) <=> CAST(%s AS BINARY)", one, other))
	}
	return strings.Join(same, " AND ")
}

// unlessTaken writes a key again that is there. IGNORE would also ignore values that do not fit.
func (m mysql) unlessTaken(mv *move) (begin, end string) {
	key := m.Quote(mv.fresh.Column)
	return "", " ON DUPLICATE KEY UPDATE " + key + " = " + mv.fresh.quoted() + "." + key
}

// checkRight refuses servers on which no cutover is safe. Then it tries to make a trigger on a table that is
// not there. The server tells a right that is missing before it tells that.
func (m mysql) checkRight(ctx context.Context, s *side) error {
	if m.pool.Stats().MaxOpenConnections == 1 {
		return fmt.Errorf("%w: the pool of the database has one connection, and a cutover needs a second one, "+
			"to end what waits too long: let it have more", errs.ErrSharding)
	}
	version, err := dialect.Texts(ctx, m.pool, "SELECT VERSION()")
	if err != nil {
		return err
	}
	if strings.Contains(version[0][0], "TiDB") {
		return fmt.Errorf("%w: TiDB has no triggers, so nothing tells which rows are written while others are "+
			"copied", errs.ErrSharding)
	}
	// Galera, and MySQL's own cluster if it has no single primary.
	clusters, err := dialect.Texts(ctx, m.pool, "SHOW GLOBAL VARIABLES WHERE Variable_name = 'wsrep_on' AND "+
		"Value = 'ON' OR Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF'")
	if err != nil {
		return err
	}
	if len(clusters) > 0 {
		return fmt.Errorf("%w: the server belongs to a cluster all of whose servers take writes (%s is %s), and "+
			"a cutover locks tables on one of them only, so writes of the others would be lost: shards can be "+
			"changed where one server takes all writes", errs.ErrSharding, clusters[0][0], clusters[0][1])
	}
	for _, d := range s.m.dbs { // A job writes to all of them.
		logged, err := dialect.Texts(ctx, d.pool, "SHOW VARIABLES WHERE Variable_name = 'log_bin' AND Value = "+
			"'ON' OR Variable_name = 'binlog_format' AND Value = 'STATEMENT'")
		if err != nil || len(logged) == 2 {
			return cmp.Or(err, fmt.Errorf("%w: with binlog_format = STATEMENT the server takes no changes by READ "+
				"COMMITTED transactions, which a resharding needs: set it to ROW or MIXED", errs.ErrSharding))
		}
	}
	nowhere := m.Quoted(beside(s.tables[0].Name, s.begin+"_nowhere"))
	err = run(ctx, m.pool, "CREATE TRIGGER "+nowhere+" AFTER INSERT ON "+nowhere+
		" FOR EACH ROW SET @snowflake = 1")
	switch dialect.State(err) {
	case "1419":
		return fmt.Errorf("%w: the login may not make triggers while the server writes its binary log: run the "+
			"resharding with a login that has the right SUPER, or set log_bin_trust_function_creators = 1: %w",
			errs.ErrSharding, err)
	case "1142", "1044":
		return fmt.Errorf("%w: the login may not make triggers: grant it the right TRIGGER on the database: %w",
			errs.ErrSharding, err)
	case "1146":
		return nil
	}
	return err
}

// triggers are three. An INSERT that reads a SELECT would lock the numbers of the list on MariaDB, as long as
// the statement runs.
func (mysql) triggers(t *table) []trigger {
	return rowTriggers(t, "IF %[2]s THEN %[1]sVALUES (%[3]s); END IF")
}

// strike joins in this order and with this index, so that the server looks at these entries alone.
func (mysql) strike(keys string, numbers []int64) string {
	return "DELETE " + keys + " FROM (SELECT 0 AS n UNION ALL SELECT " +
		strings.ReplaceAll(list(numbers), ",", " UNION ALL SELECT ") + ") AS numbers STRAIGHT_JOIN " + keys +
		" FORCE INDEX (PRIMARY) ON " + keys + ".n = numbers.n"
}

// alter ends the statements on MySQL when they wait for too long. It locks nothing before them: a backup lets
// LOCK TABLES through and holds up the statements, so all writers would wait behind the lock. On MariaDB the
// statements must not be ended; see lock. So the table is locked first, and no other one with it: a statement
// that is under way has one of them and waits for the list of keys, which the server would call a deadlock.
func (m mysql) alter(ctx context.Context, t *table, statements []string) error {
	return m.onConnection(ctx, func(c *sql.Conn) error {
		do := func(q gorm.ConnPool) error { return run(ctx, q, statements...) }
		isMariaDB, err := number(ctx, c, m.product)
		switch {
		case err != nil:
			return err
		case isMariaDB == 0:
			return m.impatiently(ctx, c, func() error { return do(c) })
		}
		there, err := m.HasTable(ctx, c, t.now)
		switch {
		case err != nil:
			return err
		case !there: // Nobody uses it.
			return do(c)
		}
		return m.lock(ctx, c, []string{t.quoted()}, do)
	})
}

// lock locks tables by a transaction: one that is prepared keeps MariaDB from LOCK TABLES only if that is in
// a transaction, too. Without one, each statement then commits what it has done, and UNLOCK TABLES commits
// nothing. What is done under the lock waits for no program, but on MySQL it may wait for a backup that has
// begun meanwhile, for a second at most.
//
// All of it is in transactions, what is only read as well. A proxy that sends reads to replicas keeps those
// of a transaction on the primary, and a replica that is behind would show a list without the last keys.
//
// MariaDB (10.11 was tried) has a fault. If a statement is ended while it opens a table, and so reads the
// triggers of that, the server keeps the table open with half of a trigger, and refuses what is written to it
// with the error 1064. So the tables are opened before, by a statement that nobody ends, and the lock finds
// them open.
func (m mysql) lock(
	ctx context.Context, c *sql.Conn, tables []string, do func(q gorm.ConnPool) error,
) (err error) {
	defer func() {
		err = errors.Join(err, run(context.WithoutCancel(ctx), c, "UNLOCK TABLES", "SET autocommit = 1"))
	}()
	if err := run(ctx, c, "SET lock_wait_timeout = 1"); err != nil {
		return err
	}
	for _, table := range tables {
		err := run(ctx, c, "/*M! SET STATEMENT lock_wait_timeout = 0, max_statement_time = 0 FOR */ SELECT 1 "+
			"/*M! FROM "+table+" LIMIT 0 */")
		if err != nil {
			return err
		}
	}
	if err := run(ctx, c, "SET autocommit = 0"); err != nil {
		return err
	}
	err = m.underLock(ctx, c, func() error {
		return m.impatiently(ctx, c, func() error {
			return run(ctx, c, "LOCK TABLES "+strings.Join(tables, " WRITE, ")+" WRITE")
		})
	})
	if err != nil {
		return err
	}
	return do(c)
}

// underLock runs a transaction that does not unlock tables, as BEGIN would.
func (mysql) underLock(ctx context.Context, q gorm.ConnPool, do func() error) error {
	err, end := do(), "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	return errors.Join(err, run(context.WithoutCancel(ctx), q, end))
}

// impatiently gives a statement up that waits for a lock. The shortest timeout of the server's own is a
// second, for which all writers would wait, too. So a second connection ends it.
func (m mysql) impatiently(ctx context.Context, c *sql.Conn, do func() error) error {
	id, err := number(ctx, c, "SELECT CONNECTION_ID()")
	if err != nil {
		return err
	}
	// It is taken now, because all others may soon be waiting for the lock.
	killer, err := m.pool.Conn(ctx)
	if err != nil {
		return err
	}
	done, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		select {
		case <-done:
			ended <- nil
		case <-time.After(lockWait):
			ended <- run(context.WithoutCancel(ctx), killer, fmt.Sprintf("KILL QUERY %d", id))
		}
	}()
	err = do()
	close(done)
	killed := <-ended
	_ = killer.Close()
	if state := dialect.State(err); state == "1317" || state == "1969" {
		return refused{err}
	}
	if err == nil && killed == nil {
		// It may have come after the end of the statement, and would then meet the next one.
		for range 2 {
			if err := run(ctx, c, "DO 0"); err != nil && dialect.State(err) != "1317" {
				return err
			}
		}
	}
	return errors.Join(err, killed)
}

// inTheWay names prepared transactions beside the others: they belong to no connection.
func (m mysql) inTheWay(ctx context.Context, _ *side) string {
	var found, hidden []string
	rows, err := dialect.Texts(ctx, m.pool, "SELECT concat('connection ', trx_mysql_thread_id, ', in a "+
		"transaction since ', trx_started) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id NOT IN "+
		"(0, connection_id()) ORDER BY trx_started LIMIT 3")
	if err != nil {
		hidden = append(hidden, "A login with the right PROCESS finds it in information_schema.innodb_trx")
	}
	for _, row := range rows {
		found = append(found, row[0])
	}
	prepared, err := dialect.Texts(ctx, m.pool, "XA RECOVER")
	if err != nil {
		hidden = append(hidden, "One with the right XA_RECOVER_ADMIN finds prepared ones by XA RECOVER")
	}
	for _, row := range prepared[:min(len(prepared), 3)] {
		n, _ := strconv.Atoi(row[1]) // the length of the first part
		n = min(n, len(row[3]))
		found = append(found, fmt.Sprintf("the prepared transaction %q, which XA COMMIT or XA ROLLBACK ends, "+
			"with X'%x', X'%x', %s behind it", row[3], row[3][:n], row[3][n:], row[0]))
	}
	return blame(found, hidden)
}

// rename does without RENAME TABLE, which MariaDB does not let under a lock. With the checks, a foreign key
// follows the table.
func (m mysql) rename(quoted, name string) []string {
	return []string{"SET foreign_key_checks = 1", "ALTER TABLE " + quoted + " RENAME " + m.Quoted(name),
		"SET foreign_key_checks = 0"}
}

var (
	keyName       = regexp.MustCompile("^((?:UNIQUE |FULLTEXT |SPATIAL )?KEY) `(?:[^`]|``)*`")
	anyKey        = regexp.MustCompile(`^(PRIMARY |UNIQUE |FULLTEXT |SPATIAL )?KEY `)
	autoIncrement = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
)

// facts reads the lines of SHOW CREATE TABLE, each of which is a column, a key, or a constraint, and the last
// one the options of the table. Its session must have been set.
func (m mysql) facts(ctx context.Context, q gorm.ConnPool, t *table) (facts []string, err error) {
	rows, err := dialect.Texts(ctx, q, "SHOW CREATE TABLE "+t.quoted())
	if err != nil {
		return nil, err
	}
	lines := strings.Split(rows[0][1], "\n")
	for _, line := range lines[1:] {
		line = strings.TrimSuffix(strings.TrimSpace(line), ",")
		name := namedCheck.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, ")"):
			line = strings.TrimPrefix(autoIncrement.ReplaceAllString(line, ""), ") ")
		case !strings.HasPrefix(line, "CONSTRAINT"):
			line = keyName.ReplaceAllString(line, "$1")
		case name == nil: // a foreign key
		default:
			if _, _, own := shardmap.ReadCheckName(name[2]); own {
				continue
			}
			_, line, _ = strings.Cut(line, "CHECK")
			line = "CHECK" + line
		}
		facts = append(facts, line)
	}
	return facts, nil
}

// foreignKeys asks for one column a row. GROUP_CONCAT would end at group_concat_max_len.
func (m mysql) foreignKeys(ctx context.Context, q gorm.ConnPool, t *table) (keys []foreignKey, err error) {
	rows, err := m.Ask(ctx, q, t.now, "SELECT CONSTRAINT_NAME, REFERENCED_TABLE_SCHEMA, "+
		"REFERENCED_TABLE_NAME, REFERENCED_TABLE_SCHEMA = DATABASE(), COLUMN_NAME, REFERENCED_COLUMN_NAME "+
		"FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_NAME = ? AND TABLE_SCHEMA"+dialect.InSchema+
		" AND REFERENCED_TABLE_NAME IS NOT NULL ORDER BY CONSTRAINT_NAME, ORDINAL_POSITION")
	var own, others []string
	for i, row := range rows {
		own, others = append(own, row[4]), append(others, row[5])
		if i+1 < len(rows) && rows[i+1][0] == row[0] {
			continue
		}
		keys = append(keys, foreignKey{row[0], row[1], row[2], row[3] == "1",
			"FOREIGN KEY (" + m.QuoteAll(own) + ")", "(" + m.QuoteAll(others) + ")"})
		own, others = nil, nil
	}
	return keys, err
}

// counters returns a column without a name: a table has one at most.
func (mysql) counters(ctx context.Context, q gorm.ConnPool, t *table) (rows [][]string, err error) {
	rows, err = dialect.Texts(ctx, q, "SHOW CREATE TABLE "+t.quoted())
	for _, row := range rows {
		row[0], row[1] = "", strings.TrimPrefix(autoIncrement.FindString(row[1]), " AUTO_INCREMENT=")
	}
	return rows, err
}

func (mysql) count(ctx context.Context, q gorm.ConnPool, quoted, _ string, number int64) error {
	return run(ctx, q, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", quoted, number))
}
