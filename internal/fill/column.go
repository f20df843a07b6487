package fill

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// TagName is the struct tag that asks for an ID.
const TagName = "snowflake"

// TagLike begins a tag that asks for an ID on the shard of the ID in another field.
const TagLike = "like:"

// TagFrom begins a tag that asks for a number of a named source.
const TagFrom = "from:"

// Source is the Source of the root package, whose options.go says what Fill has to do.
type Source interface {
	Fill(ctx context.Context, ids []int64) error
}

// Texter is an optional ability of a [Source]: its numbers have a text of their own in fields of kind
// string. Different numbers have different texts, and one number always has the same.
type Texter interface{ Text(number int64) string }

// Liker is an optional ability of a [Source]: it can choose the shard of a number. See
// generator.Generator.NextLike.
type Liker interface {
	NextLike(ctx context.Context, key int64) (int64, error)
}

// onner is the ability of the generator to choose one of any number of shards.
type onner interface {
	NextOn(ctx context.Context, shard, shards int) (int64, error)
}

// column is a tagged field and the way to read and write an ID in it.
type column struct {
	field   *schema.Field
	kind    kind
	pointer bool         // the field is a pointer to what kind says
	value   reflect.Type // the type of the field, without the pointer
	direct  int          // index of the field in the model, -1 if it is embedded deeper
	plain   bool         // an integer field of the model itself
	text    bool         // of kindScan: its Value is text
	grows   bool         // it is filled also where an embedded struct that would hold it is a nil pointer

	like   *schema.Field // the field whose shard the IDs share; nil if they need not share one
	source *namedSource  // the named source of the numbers; nil for the plugin's own
}

// kind is how an ID is kept in a Go value.
type kind uint8

const (
	kindInt    kind = iota // ID, int64, int and types made of them
	kindUint               // uint64, uint
	kindString             // decimal digits
	kindBytes              // []byte: eight bytes, big-endian
	kindScan               // a type that takes an int64 through Scan and gives it back through Value
)

// probe is an ID that no smaller kind of number can hold. It is odd and has 63 bits, so a float64,
// whose mantissa has 53, cannot keep it.
const probe int64 = 7_000_000_000_000_000_001

// smallProbe fits the smallest integers, which may hold the numbers of a named source.
const smallProbe int64 = 101

// newColumn decides how the field holds an ID of up to so many decimal digits, or says why it cannot. A
// field for the numbers of a named source may be smaller.
func newColumn(field *schema.Field, digits int, source *namedSource) (*column, error) {
	if field.Serializer != nil {
		return nil, errors.New("a field with a serializer cannot hold an ID: remove the serializer or the tag")
	}
	c := &column{field: field, value: field.FieldType, direct: -1, source: source}
	if index := field.StructField.Index; len(index) == 1 && index[0] >= 0 {
		c.direct = index[0]
	}
	if c.value.Kind() == reflect.Pointer {
		c.pointer, c.value = true, c.value.Elem()
	}
	wide := c.value.Size() == binaryLen || source != nil
	tried := probe
	if source != nil {
		tried = smallProbe
	}
	switch t := c.value; {
	case wide && reflect.Int <= t.Kind() && t.Kind() <= reflect.Int64:
		c.kind = kindInt
	case wide && reflect.Uint <= t.Kind() && t.Kind() <= reflect.Uint64:
		c.kind = kindUint
	case t.Kind() == reflect.String:
		c.kind = kindString
	case t == reflect.TypeFor[[]byte]():
		c.kind = kindBytes
	default:
		exact, text := scansExactly(t, tried)
		if exact {
			c.kind, c.text = kindScan, text
			break
		}
		return nil, fmt.Errorf("type %v cannot hold a 64-bit ID: use snowflakeplugin.ID, int64, "+
			"uint64, string or []byte, or a pointer to or sql.Null of one of the first four",
			field.FieldType)
	}
	c.plain = c.kind == kindInt && !c.pointer && c.direct >= 0 && source == nil
	if source != nil {
		return c, nil // each number is looked at
	}
	return c, c.checkSize(digits)
}

// checkSize refuses a declared size that is too small.
func (c *column) checkSize(digits int) error {
	size, need := c.field.Size, 0
	switch c.kind {
	case kindInt, kindUint:
		need = 64
	case kindString:
		need = digits
	case kindBytes:
		need = binaryLen
	}
	if size > 0 && size < need {
		return fmt.Errorf("size:%d is too small for an ID of this layout: it needs at least %d", size, need)
	}
	return nil
}

// scansExactly reports whether a struct type can hold an ID. It scans the number into a value of the type,
// and reads it back by the Valuer. exact means that the same number came back, and text that it came back
// as its decimal digits. Only a trial can tell: sql.NullFloat64, for one, scans an int64 and then loses
// digits.
func scansExactly(t reflect.Type, number int64) (exact, text bool) {
	defer func() {
		if recover() != nil { // the Scan or Value of a foreign type
			exact = false
		}
	}()
	if t.Kind() != reflect.Struct {
		return false, false
	}
	pointer := reflect.New(t)
	scanner, ok := pointer.Interface().(sql.Scanner)
	if !ok || scanner.Scan(number) != nil {
		return false, false
	}
	switch value := ValueOf(pointer.Elem()).(type) {
	case int64:
		return value == number, false
	case string:
		return value == strconv.FormatInt(number, 10), true
	}
	return false, false
}

// namedSource is a source that tags name.
type namedSource struct {
	name   string
	source Source
	texter Texter // nil if the numbers have no text of their own
}

// String names the source, and its counter if it says so.
func (n *namedSource) String() string {
	words := fmt.Sprintf("the source %q", n.name)
	if counter, ok := n.source.(fmt.Stringer); ok {
		words += " (" + counter.String() + ")"
	}
	return words
}

// failed is the error of a source that gave no number.
func (n *namedSource) failed(err error) error { return fmt.Errorf("source %q: %w", n.name, err) }

// sourceName is the name of the named source, or nothing.
func (c *column) sourceName() string {
	if c.source == nil {
		return ""
	}
	return c.source.name
}

// hasText reports whether the numbers of the column are kept as texts of the source.
func (c *column) hasText() bool {
	return c.source != nil && c.source.texter != nil && (c.kind == kindString || c.text)
}

// textOf returns the text of an ID in a field that holds text.
func (c *column) textOf(id int64) string {
	if c.hasText() {
		return c.source.texter.Text(id)
	}
	return strconv.FormatInt(id, 10)
}

func (c *column) tooLarge(id int64) error {
	return fmt.Errorf("the number %d does not fit %v: give the field a larger type", id, c.value)
}

// fits returns an error unless a number of a named source fits the declared size of the field.
func (c *column) fits(id int64) error {
	size := c.field.Size
	switch {
	case size <= 0:
	case c.kind == kindInt && size < 64 && id >= 1<<(size-1), c.kind == kindUint && size < 64 && id >= 1<<size:
		return fmt.Errorf("the number %d does not fit %d bits (size:%d): give the field a larger type and size",
			id, size, size)
	case c.kind == kindString || c.text:
		if text := c.textOf(id); utf8.RuneCountInString(text) > size {
			return fmt.Errorf("the text %q of the number %d does not fit size:%d: give the field a larger size",
				text, id, size)
		}
	case c.kind == kindBytes && size < binaryLen:
		return fmt.Errorf("a number needs %d bytes, and the field has size:%d", binaryLen, size)
	}
	return nil
}

// get reads the ID in v, the value of the field. set tells whether somebody has set the field, to an
// ID or to something else. A pointer to zero counts as set, and so does a text that is no number.
func (c *column) get(v reflect.Value) (id int64, set bool) {
	if c.pointer {
		if v.IsNil() {
			return 0, false
		}
		id, _ = c.read(v.Elem())
		return id, true
	}
	return c.read(v)
}

func (c *column) read(v reflect.Value) (id int64, set bool) {
	switch c.kind {
	case kindInt:
		id = v.Int()
		return id, id != 0
	case kindUint:
		id = int64(v.Uint())
		return id, id != 0
	case kindString:
		text := v.String()
		id, _ = parseInt(text)
		return id, text != ""
	case kindBytes:
		raw := v.Bytes()
		if len(raw) == binaryLen {
			id = int64(binary.BigEndian.Uint64(raw))
		}
		return id, len(raw) > 0
	default:
		if v.IsZero() {
			return 0, false
		}
		switch value := ValueOf(v).(type) {
		case nil:
			return 0, false
		case int64:
			id = value
		case string:
			id, _ = parseInt(value)
		}
		return id, true
	}
}

// isVacant reports whether the field waits for an ID in a row.
func (c *column) isVacant(row reflect.Value) bool {
	if c.plain { // the common case, which takes a third of the time of the other
		return row.Field(c.direct).Int() == 0
	}
	cell, ok := c.locate(row, false)
	if !ok {
		// The struct that would hold the field is a nil pointer. Allocating it would turn the NULLs
		// of its other columns into zeros, which only a key is worth. Then all of it is filled.
		return c.grows
	}
	_, set := c.get(cell)
	return !set
}

// put writes an ID into v, the value of the field.
func (c *column) put(v reflect.Value, id int64) error {
	if c.pointer {
		fresh := reflect.New(c.value)
		if err := c.write(fresh.Elem(), id); err != nil {
			return err
		}
		v.Set(fresh)
		return nil
	}
	return c.write(v, id)
}

func (c *column) write(v reflect.Value, id int64) error {
	switch c.kind {
	case kindInt:
		if v.OverflowInt(id) {
			return c.tooLarge(id)
		}
		v.SetInt(id)
	case kindUint:
		if v.OverflowUint(uint64(id)) {
			return c.tooLarge(id)
		}
		v.SetUint(uint64(id))
	case kindString:
		v.SetString(c.textOf(id))
	case kindBytes:
		v.SetBytes(binary.BigEndian.AppendUint64(nil, uint64(id)))
	default:
		if c.text {
			return v.Addr().Interface().(sql.Scanner).Scan(c.textOf(id))
		}
		return v.Addr().Interface().(sql.Scanner).Scan(id)
	}
	return nil
}

// locate finds the field in a row. Where an embedded struct on the way is a nil pointer it returns
// false, or allocates it if grow is set.
func (c *column) locate(row reflect.Value, grow bool) (reflect.Value, bool) {
	if c.direct >= 0 {
		return row.Field(c.direct), true
	}
	for _, index := range c.field.StructField.Index {
		if index >= 0 {
			row = row.Field(index)
			continue
		}
		row = row.Field(-index - 1) // how GORM notes an embedded pointer
		if row.IsNil() {
			if !grow {
				return reflect.Value{}, false
			}
			row.Set(reflect.New(row.Type().Elem()))
		}
		row = row.Elem()
	}
	return row, true
}

// growsWith reports whether a key that is filled makes all embedded structs on the way to the field.
func (c *column) growsWith(key *column) bool {
	path, other, last := c.field.StructField.Index, key.field.StructField.Index, 0
	for i, index := range path {
		if index < 0 {
			last = i + 1
		}
	}
	return key.field.PrimaryKey && last <= len(other) && slices.Equal(path[:last], other[:last])
}

// isTagged reads the tag of a field. It returns an error for a tag that looks as if it was meant to ask for
// an ID, but does not: nothing would fill the field, and the database would count from 1.
func isTagged(tag reflect.StructTag) (bool, error) {
	value, present := tag.Lookup(TagName)
	if !present {
		return false, misspelled(tag)
	}
	if strings.HasPrefix(value, TagLike) || strings.HasPrefix(value, TagFrom) {
		return true, nil
	}
	tagged, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("tag %s:%q is not a boolean: write %s:\"true\"", TagName, value, TagName)
	}
	return tagged, nil
}

var (
	// tagValue is the value of a key of a tag.
	tagValue = regexp.MustCompile(`"(?:[^"\\\n]|\\[abfnrtv\\"xuU0-7])*"`)
	// ownWord is the key of the plugin by itself, in whatever letters.
	ownWord = regexp.MustCompile(`(?i)(?:^|[^\pL\p{Nd}_-])` + TagName + `(?:$|[^\pL\p{Nd}_-])`)
)

// misspelled returns an error for a tag without the key snowflake, if that stands in it in other letters,
// where Go does not find it, or among the settings of GORM.
func misspelled(tag reflect.StructTag) error {
	if ownWord.MatchString(tagValue.ReplaceAllLiteralString(string(tag), " ")) {
		return fmt.Errorf("tag `%s` asks for no ID as it is written: write %s:\"true\", in small letters and "+
			"with nothing but a blank between it and the other keys", tag, TagName)
	}
	for setting := range schema.ParseTagSetting(tag.Get("gorm"), ";") {
		if ownWord.MatchString(setting) {
			return fmt.Errorf("tag `%s` has %s among the settings of gorm, which knows no such setting: write "+
				"%s:\"true\" behind the quotes of gorm", tag, TagName, TagName)
		}
	}
	return nil
}

// LikeField reads the tag of a field and returns the field whose shard its IDs share, or nil if the
// tag names none.
func LikeField(s *schema.Schema, field *schema.Field) (*schema.Field, error) {
	name, found := strings.CutPrefix(field.Tag.Get(TagName), TagLike)
	if !found {
		return nil, nil
	}
	like := s.LookUpField(name)
	if like == nil || like == field || like.DBName == "" {
		return nil, fmt.Errorf("tag %s:\"%s%s\" names no other column of %s: name the field that holds the ID "+
			"of the row to be colocated with", TagName, TagLike, name, s.Name)
	}
	return like, nil
}

// isColumn reports whether the field stands for a column that a create may write. A field does not if
// a field of the outer struct hides it, if it is excluded, or if it is read-only.
func isColumn(s *schema.Schema, field *schema.Field) bool {
	return field.DBName != "" && s.FieldsByDBName[field.DBName] == field && field.Creatable
}

// sentFields says which fields the INSERT had. In any other field the row may hold something else than
// the element.
func sentFields(stmt *gorm.Statement) func(*schema.Field) bool {
	if len(stmt.Selects) == 0 && len(stmt.Omits) == 0 {
		return func(field *schema.Field) bool { return field.Creatable }
	}
	chosen, restricted := stmt.SelectAndOmitColumns(true, false)
	return func(field *schema.Field) bool {
		wanted, named := chosen[field.DBName]
		return wanted || !named && !restricted
	}
}

// isForeignKey reports whether the field refers to another row. Such a field may carry the tag
// because it comes from a shared struct; an ID made for it would point nowhere.
//
// It does not look at Relationships.Relations, because other schemas write into that map while they
// are parsed.
func isForeignKey(s *schema.Schema, field *schema.Field) bool {
	for _, relation := range s.Relationships.BelongsTo {
		for _, ref := range relation.References {
			if ref.ForeignKey == field {
				return true
			}
		}
	}
	return false
}

// notNull tells GORM that the column of a key has no NULL. On SQLite alone a primary key can be NULL, in any
// number of rows. GORM does not alter the column of a key that is there.
func notNull(field *schema.Field) { field.NotNull = field.NotNull || field.PrimaryKey }

// plainColumn tells GORM that the values of a field come from the program. The caller makes sure that
// this happens before the first statement of the schema is built.
func plainColumn(s *schema.Schema, field *schema.Field) {
	if !field.AutoIncrement {
		return
	}
	field.AutoIncrement = false
	field.HasDefaultValue = false
	field.TagSettings["AUTOINCREMENT"] = "false"
	s.FieldsWithDefaultDBValue = slices.DeleteFunc(slices.Clone(s.FieldsWithDefaultDBValue),
		func(f *schema.Field) bool { return f == field })
}

// NumbersInJSON returns the fields of a plan with the plugin's own IDs that encoding/json writes as numbers.
func NumbersInJSON(p *Plan) (fields []*schema.Field) {
	for _, c := range p.columns {
		if c.source == nil && isNumberInJSON(c) {
			fields = append(fields, c.field)
		}
	}
	return fields
}

// isNumberInJSON finds out by a trial, with the tag of the field, how its type writes an ID.
func isNumberInJSON(c *column) (is bool) {
	defer func() {
		if recover() != nil { // in a method of a foreign type
			is = false
		}
	}()
	alone := reflect.New(reflect.StructOf([]reflect.StructField{
		{Name: "Field", Type: c.field.FieldType, Tag: c.field.StructField.Tag},
	})).Elem()
	if c.put(alone.Field(0), probe) != nil {
		return false
	}
	text, err := json.Marshal(alone.Interface())
	digits := strconv.FormatInt(probe, 10)
	return err == nil && strings.Contains(string(text), digits) && !strings.Contains(string(text), `"`+digits)
}
