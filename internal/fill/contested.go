package fill

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// shownKeys is how many keys an error names.
const shownKeys = 10

// plainErrors keeps GORM from translating the error of the INSERT, until afterInsert does so: for SQLite and
// MySQL the translation does not say any more which key it was. It returns the configuration of the handle,
// or nil if that stays.
func plainErrors(db *gorm.DB) *gorm.Config {
	if !db.TranslateError || db.Name() != dialectMySQL && db.Name() != dialectSQLite {
		return nil
	}
	original, plain := db.Config, *db.Config
	plain.TranslateError = false
	db.Config = &plain
	return original
}

// translated takes back what plainErrors has done.
func translated(db *gorm.DB, original *gorm.Config) {
	if original == nil {
		return
	}
	db.Config = original
	if translator, ok := db.Dialector.(gorm.ErrorTranslator); ok && db.Error != nil {
		setError(db, translator.Translate(db.Error))
	}
}

// setError replaces the error of a statement.
func setError(db *gorm.DB, err error) {
	db.Error = err
	if db.Statement.Result != nil {
		db.Statement.Result.Error = err
	}
}

// judgeError says in the error of a failed INSERT that its new key is contested, if it is. original is what
// plainErrors has returned.
func (f *filler) judgeError(db *gorm.DB, fr *frame, original *gorm.Config) {
	cause := db.Error
	translated(db, original)
	refused, is := refusalOf(db, fr, cause)
	if !is {
		return
	}
	keys, is := fr.refusedKeys(db, refused)
	if is {
		setError(db, contested(db, keys, fr.state(db, fr.judge), db.Error))
	}
}

// judgeOneCell is judgeError for a statement that has one cell.
func (p *place) judgeOneCell(db *gorm.DB) {
	cause, own := db.Error, p.one.cell.Int() == p.one.id
	translated(db, p.config)
	p.config = nil
	if key, is := refusalOf(db, nil, cause); is && own {
		id := strconv.FormatInt(p.one.id, 10)
		if key == "" || key == id {
			setError(db, contested(db, []string{id}, (*frame)(nil).state(db, nil), db.Error))
		}
	}
}

// refusalOf reports whether an INSERT has failed because a row was there with the primary key of a new one,
// and what the database calls this key, if it says so.
func refusalOf(db *gorm.DB, fr *frame, err error) (key string, is bool) {
	text, guarded := err.Error(), fr != nil && fr.judge != nil && fr.judge.guarded
	switch db.Name() {
	case dialectMySQL:
		if guarded && strings.Contains(text, "1690") && strings.Contains(text, guardMySQL) {
			return "", true
		}
		return refusedByMySQL(db.Statement, text)
	case dialectSQLite:
		return "", guarded && strings.Contains(text, guardSQLite) || refusedBySQLite(db.Statement, text)
	case dialectPostgres:
		if _, rest, found := strings.Cut(text, guardPostgres); guarded && found {
			key, _, _ = strings.Cut(rest, `"`)
			return key, true
		}
		return refusedByPostgres(db.Statement, err)
	}
	return "", false
}

// refusedByMySQL reads: Error 1062 (23000): Duplicate entry '5' for key 'orders.PRIMARY'. MariaDB and older
// versions do not name the table. The words between may be of any language.
func refusedByMySQL(stmt *gorm.Statement, text string) (key string, is bool) {
	text, ok := strings.CutSuffix(text, "PRIMARY'")
	if !ok || !strings.Contains(text, "1062") {
		return "", false
	}
	at := strings.LastIndexByte(text, '\'')
	if at < 0 {
		return "", false
	}
	if table := strings.TrimSuffix(text[at+1:], "."); table != "" && !strings.EqualFold(table, tableOf(stmt)) {
		return "", false
	}
	first, last := strings.IndexByte(text, '\''), strings.LastIndexByte(text[:at], '\'')
	if first < 0 || last <= first {
		return "", false
	}
	return text[first+1 : last], true
}

// refusedBySQLite reads: UNIQUE constraint failed: orders.shop, orders.id.
func refusedBySQLite(stmt *gorm.Statement, text string) bool {
	_, list, found := strings.Cut(text, "UNIQUE constraint failed: ")
	if !found {
		return false
	}
	list, _, _ = strings.Cut(list, " (") // some drivers put the code there
	columns := strings.Split(list, ", ")
	for i, column := range columns {
		table := tableOf(stmt)
		if len(column) <= len(table)+1 || !strings.EqualFold(column[:len(table)], table) {
			return false
		}
		columns[i] = column[len(table)+1:]
	}
	return arePrimaryKey(stmt.Schema, columns)
}

// refusedByPostgres looks into the error of the driver, which it knows by its method and its fields only: its
// detail is "Key (shop, id)=(1, 5) already exists." in the language of the server. Without the right to read
// the columns there is no detail, and the name of the constraint has to tell.
func refusedByPostgres(stmt *gorm.Statement, err error) (key string, is bool) {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != "23505" {
		return "", false
	}
	v := reflect.Indirect(reflect.ValueOf(state))
	field := func(name string) string {
		if v.Kind() != reflect.Struct {
			return ""
		}
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String {
			return f.String()
		}
		return ""
	}
	detail := field("Detail")
	list, rest, found := strings.Cut(detail, ")=(")
	if !found {
		return "", strings.HasSuffix(field("ConstraintName")+field("Constraint"), "_pkey")
	}
	columns := strings.Split(list[strings.IndexByte(list, '(')+1:], ", ")
	for i, column := range columns {
		columns[i] = strings.Trim(column, `"`)
	}
	if end := strings.LastIndexByte(rest, ')'); end >= 0 {
		rest = rest[:end]
	}
	return rest, arePrimaryKey(stmt.Schema, columns)
}

// tableOf returns the name of the statement's table, without a schema.
func tableOf(stmt *gorm.Statement) string {
	return stmt.Table[strings.LastIndexByte(stmt.Table, '.')+1:]
}

// arePrimaryKey reports whether columns are those of the primary key.
func arePrimaryKey(s *schema.Schema, columns []string) bool {
	if len(columns) != len(s.PrimaryFields) {
		return false
	}
	for _, field := range s.PrimaryFields {
		if !slices.Contains(columns, field.DBName) {
			return false
		}
	}
	return true
}

// refusedKeys returns the new keys that are there already, as text. If the database says which key it has
// refused, it returns false unless that was made for a row of this statement. Otherwise it looks for the
// rows.
func (f *frame) refusedKeys(db *gorm.DB, refused string) (keys []string, is bool) {
	j := f.judge
	if j == nil {
		f.before = madeBefore(db.Statement)
		if j = newJudge(f); j == nil {
			return nil, false
		}
	}
	var texts []string
	known := true // the texts are what the database writes
	for n := range j.rows {
		text, same := j.text(f, n)
		texts, known = append(texts, text), known && same
	}
	if refused != "" && known {
		n := slices.IndexFunc(texts, func(text string) bool { return isPartOf(text, refused) })
		if n < 0 {
			return nil, false
		}
		return []string{refused}, true
	}
	if len(j.rows) == 1 && len(j.given) == 0 {
		return texts, true
	}
	if refused == "" {
		var there []string
		for _, n := range j.find(db, f, nil) {
			there = append(there, texts[n])
		}
		if len(there) > 0 {
			return there, true
		}
	}
	return texts, len(j.given) == 0 || j.guarded
}

// text returns the new part of a key. same is false if databases write such a key in another way.
func (j *judge) text(f *frame, n int) (text string, same bool) {
	column := f.plan.columns[j.keys[n].column]
	if j.texts != nil {
		return j.texts[n], column.kind != kindBytes
	}
	if column.hasText() || column.kind == kindString {
		if value, known := f.rows.value(f.context(), j.rows[n], column.field); known {
			if text, ok := textIn(value); ok {
				return text, true
			}
		}
	}
	return strconv.FormatInt(j.keys[n].id, 10), column.kind != kindBytes
}

// isPartOf reports whether a key, as a database writes it, consists of a text or has it as the value of one
// of its columns.
func isPartOf(text, key string) bool {
	return key == text || slices.Contains(strings.Split(key, ", "), text) ||
		slices.Contains(strings.Split(key, "-"), text)
}

// find lists those of the new keys, but the ones that except has, that are in the table, as indexes into
// j.rows. It changes no row. Errors count as nothing found.
func (j *judge) find(db *gorm.DB, f *frame, except map[madeKey]bool) []int {
	s := &search{db: db, frame: f, sent: sentFields(db.Statement)}
	own := searchKey{fields: f.plan.schema.PrimaryFields}
	var wanted, found []int
	var values [][]any
	for n, row := range j.rows {
		if except[j.keys[n]] {
			continue
		}
		var v []any
		if j.values != nil {
			v = j.values[n]
		} else {
			v, _ = s.keyOf(row, own)
		}
		if v != nil {
			wanted, values = append(wanted, n), append(values, v)
		}
	}
	for len(wanted) > 0 {
		n := min(len(wanted), searchChunk)
		hits, _ := s.hits(own, values[:n])
		for hit := range hits {
			found = append(found, wanted[hit])
		}
		wanted, values = wanted[n:], values[n:]
	}
	slices.Sort(found)
	return found
}

// exceeds refuses the statement if a search has found more rows by new keys than were inserted. Then one of
// them was there before.
func (j *judge) exceeds(db *gorm.DB, f *frame, search *search) bool {
	if j == nil || !j.counts {
		return false
	}
	var keys []string
	for n, row := range j.rows {
		if !search.missing(row) {
			text, _ := j.text(f, n)
			keys = append(keys, text)
		}
	}
	if int64(len(keys)) <= j.affected {
		return false
	}
	setError(db, contested(db, keys, f.state(db, j), nil))
	return true
}

// loses refuses the statement if the rows that were inserted have come back, and others are found by new
// keys.
func (j *judge) loses(db *gorm.DB, f *frame) bool {
	if j == nil || !j.counts || !f.rebuilds(db) {
		return false
	}
	inserted := map[madeKey]bool{}
	for i := range f.rows.count() {
		for c := range f.plan.columns {
			if id, ok := f.get(i, c); ok {
				inserted[madeKey{c, id}] = true
			}
		}
	}
	var keys []string
	for _, n := range j.find(db, f, inserted) {
		text, _ := j.text(f, n)
		keys = append(keys, text)
	}
	if len(keys) == 0 {
		return false
	}
	setError(db, contested(db, keys, f.state(db, j), nil))
	return true
}

// KeysMade is the setting under which a statement has the keys, in ascending order, that were made for its
// rows just before it.
const KeysMade = PluginName + ":keys_made"

// madeBefore returns the keys of KeysMade. They are none of those of associations, to which GORM hands the
// setting down.
func madeBefore(stmt *gorm.Statement) []int64 {
	if _, below := stmt.Settings.Load(savedAssociations); below {
		return nil
	}
	made, _ := stmt.Settings.Load(KeysMade)
	keys, _ := made.([]int64)
	return keys
}

// state says what is stored now.
func (f *frame) state(db *gorm.DB, j *judge) string {
	if inTransaction(db.Statement.ConnPool) {
		return "nothing of this is stored once the transaction is rolled back, as GORM rolls back its own"
	}
	stored := "nothing of this statement"
	if j != nil && j.counts && j.affected > 0 {
		var texts []string
		for n := range j.rows {
			text, _ := j.text(f, n)
			texts = append(texts, text)
		}
		stored = fmt.Sprintf("%d of the rows with the keys %s", j.affected, shown(texts))
	}
	if j != nil && j.apart {
		stored += ", but all of its rows whose keys were given"
	}
	return "there is no transaction, so what was stored before this statement stays; stored is " + stored
}

// shown lists keys, but not too many.
func shown(keys []string) string {
	if len(keys) > shownKeys {
		return strings.Join(keys[:shownKeys], ", ") + ", ..."
	}
	return strings.Join(keys, ", ")
}

// contested is the error of a new row whose key belongs to a row of somebody else.
func contested(db *gorm.DB, keys []string, state string, cause error) error {
	if cause == nil {
		cause = gorm.ErrDuplicatedKey
	} else if !errors.Is(cause, gorm.ErrDuplicatedKey) {
		cause = fmt.Errorf("%w: %w", gorm.ErrDuplicatedKey, cause)
	}
	name := "the key " + shown(keys)
	if len(keys) > 1 {
		name = "one of the keys " + shown(keys)
	}
	return fmt.Errorf("%w: %s of %s was just made for a new row, and a row that has it is there already, "+
		"which was left as it is: somebody else makes the same IDs. Look for a second program with the same "+
		"node number (WithNode given twice, a copied machine, a restored backup or store of leases), stop it, "+
		"give it another number, and then create the row again; %s: %w",
		errs.ErrContested, name, db.Statement.Table, state, cause)
}
