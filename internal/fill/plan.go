package fill

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// TagName is the struct tag that asks for an ID.
const TagName = "snowflake"

// TagLike begins a tag that asks for an ID on the shard of the ID in another field.
const TagLike = "like:"

// TagFrom begins a tag that asks for a number of a named source.
const TagFrom = "from:"

// columnMask is a set of the columns of a plan, by their index.
type columnMask uint64

// maxColumns is how many tagged fields a model may have: as many as a columnMask has bits.
const maxColumns = 64

// Plan is what the plugin knows of a model. It is immutable, except that the unique keys are read on
// first use.
type Plan struct {
	schema  *schema.Schema
	columns []*column
	err     error // what is wrong with the tagged fields; reported by every create

	// tree: the model has associations, so creating a row may create others. Then a failure has to be
	// undone in all of them.
	tree bool
	// nests: the model has associations, or hooks, which may create rows as well.
	nests bool
	// refills: the model has hooks that run before the INSERT and may set an ID back to 0.
	refills bool
	// oneCell: a struct of the model has one cell to fill, and nothing else has to be remembered of it.
	oneCell bool
	// bound: some IDs of the model have to lie on a certain shard.
	bound bool
	// named: some IDs of the model come from named sources.
	named bool
	// shard is set for the schema of a router's model on one shard. The keys of its rows lie there.
	shard *Shard
	// wrap turns a number into an ID of the application.
	wrap func(int64) any

	reachOnce sync.Once
	reaches   bool // see reachesTagged

	keysOnce    sync.Once
	uniqueKeys  []UniqueKey
	otherUnique bool // see hasOtherUnique
}

// Shard is where the rows of a plan lie.
type Shard struct {
	number, of int
	// check refuses a key that lies on another shard.
	check func(s *schema.Schema, key any) error
}

// NewShard returns the shard of that number, of so many, and the check that refuses keys of others.
func NewShard(number, of int, check func(s *schema.Schema, key any) error) *Shard {
	return &Shard{number, of, check}
}

// has reports whether the column of that index is in the set.
func (m columnMask) has(c int) bool { return m>>c&1 == 1 }

// reachesTagged reports whether a create or an update of the model may create rows with tagged fields
// through its associations. The schemas of all models that it can reach are looked at once.
func (p *Plan) reachesTagged(db *gorm.DB) bool {
	if !p.tree {
		return false
	}
	p.reachOnce.Do(func() {
		p.reaches = reachesTagged(db, p.schema, map[*schema.Schema]bool{p.schema: true})
	})
	return p.reaches
}

func reachesTagged(db *gorm.DB, s *schema.Schema, seen map[*schema.Schema]bool) bool {
	for _, related := range relatedSchemas(s) {
		if seen[related] {
			continue
		}
		seen[related] = true
		// Another goroutine may still be parsing this schema. Parse waits for that. An error means
		// that no row of the model can be created.
		_ = (&gorm.Statement{DB: db}).Parse(reflect.New(related.ModelType).Interface())
		if slices.ContainsFunc(related.Fields, func(field *schema.Field) bool {
			tagged, err := isTagged(field.Tag)
			return tagged || err != nil
		}) || len(idleTags(related)) > 0 || reachesTagged(db, related, seen) {
			return true
		}
	}
	return false
}

// relatedSchemas lists the models at the other ends of a model's associations, and their join tables.
func relatedSchemas(s *schema.Schema) []*schema.Schema {
	var related []*schema.Schema
	all := [][]*schema.Relationship{
		s.Relationships.BelongsTo, s.Relationships.HasOne, s.Relationships.HasMany, s.Relationships.Many2Many,
	}
	for _, relations := range all {
		for _, relation := range relations {
			if relation.FieldSchema != nil {
				related = append(related, relation.FieldSchema)
			}
			if relation.JoinTable != nil && !isJoinTable(relation.JoinTable) {
				related = append(related, relation.JoinTable)
			}
		}
	}
	return related
}

// names lists columns for messages: Order.ID, Order.PublicID.
func (p *Plan) names(columns columnMask) string {
	var names []string
	for c, column := range p.columns {
		if columns.has(c) {
			names = append(names, p.schema.Name+"."+column.field.Name)
		}
	}
	return strings.Join(names, ", ")
}

// noID is the error of a statement whose columns could get no ID.
func (p *Plan) noID(columns columnMask, cause error) error {
	return fmt.Errorf("snowflakeplugin: no ID for %s: %w", p.names(columns), cause)
}

// Fills reports whether the plugin fills a field of the model.
func (p *Plan) Fills(field *schema.Field) bool {
	return slices.ContainsFunc(p.columns, func(c *column) bool { return c.field == field })
}

// LikeOf returns the field whose shard the IDs of a field share, or nil if they need not share one.
func (p *Plan) LikeOf(field *schema.Field) *schema.Field {
	for _, column := range p.columns {
		if column.field == field {
			return column.like
		}
	}
	return nil
}

// routes reports whether the statement's shard decides where the IDs of a column lie.
func (p *Plan) routes(column *column) bool { return p.shard != nil && column.field.PrimaryKey }

// textForeignKeys finds foreign keys of text kind that refer to a key of the type ID, or of another
// type made of an integer. GORM sets such a field by a conversion that makes a character of a number.
func textForeignKeys(s *schema.Schema) []error {
	var faults []error
	relations := &s.Relationships
	for _, kind := range [][]*schema.Relationship{relations.BelongsTo, relations.HasOne, relations.HasMany} {
		for _, relation := range kind {
			for _, ref := range relation.References {
				if ref.PrimaryKey == nil || ref.ForeignKey == nil ||
					!isDefinedInteger(ref.PrimaryKey.IndirectFieldType) ||
					ref.ForeignKey.IndirectFieldType.Kind() != reflect.String {
					continue
				}
				faults = append(faults, fmt.Errorf("%w: %s.%s is text and refers to %s.%s, an ID: GORM "+
					"would store "+
					"another value in it, so give it the type of the ID", errs.ErrInvalidField,
					ref.ForeignKey.Schema.Name, ref.ForeignKey.Name, ref.PrimaryKey.Schema.Name, ref.PrimaryKey.Name))
			}
		}
	}
	return faults
}

// jsonStrings finds fields of the application's type of IDs with the option ",string" in their json tag.
// Such an ID writes itself as a string already, and encoding/json takes the quotes off before it reads one.
func (c *PlanCache) jsonStrings(s *schema.Schema) []error {
	id := reflect.TypeOf(c.wrap(0))
	var faults []error
	for _, field := range s.Fields {
		options := strings.Split(field.Tag.Get("json"), ",")
		if field.IndirectFieldType != id || !isDefinedInteger(id) || !slices.Contains(options[1:], "string") {
			continue // a plain int64 is read as it is written
		}
		right := slices.DeleteFunc(options, func(option string) bool { return option == "string" })
		faults = append(faults, fmt.Errorf("%w: %s.%s: tag json:%q has the option \",string\", by which "+
			"encoding/json cannot read the IDs that it writes: %v is a string in JSON by itself, so write json:%q",
			errs.ErrInvalidField, s.Name, field.Name, field.Tag.Get("json"), id, strings.Join(right, ",")))
	}
	return faults
}

// isDefinedInteger reports whether a type is made of an integer and has a name of its own.
func isDefinedInteger(t reflect.Type) bool {
	return t.PkgPath() != "" && (t.Kind() == reflect.Int64 || t.Kind() == reflect.Uint64)
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

// misspelled returns an error for a tag without the key snowflake, if that stands in it in other letters,
// where Go does not find it, or among the settings of GORM.
func misspelled(tag reflect.StructTag) error {
	keys, rest := "", string(tag)
	for rest != "" {
		if value, err := strconv.QuotedPrefix(rest); err == nil && rest[0] == '"' {
			keys, rest = keys+" ", rest[len(value):]
			continue
		}
		keys, rest = keys+rest[:1], rest[1:]
	}
	if hasWord(keys, TagName) {
		return fmt.Errorf("tag `%s` asks for no ID as it is written: write %s:\"true\", in small letters and "+
			"with nothing but a blank between it and the other keys", tag, TagName)
	}
	for setting := range schema.ParseTagSetting(tag.Get("gorm"), ";") {
		if hasWord(setting, TagName) {
			return fmt.Errorf("tag `%s` has %s among the settings of gorm, which knows no such setting: write "+
				"%s:\"true\" behind the quotes of gorm", tag, TagName, TagName)
		}
	}
	return nil
}

// hasWord reports whether a text has the word, in whatever letters.
func hasWord(text, word string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), func(found string) bool { return strings.EqualFold(found, word) })
}

// idleTags finds tags on embedded structs in which no field asks for an ID. GORM takes the fields of such a
// struct for those of the model, and their own tags alone count.
func idleTags(s *schema.Schema) []error {
	var holders []string
	tags, asked := map[string]reflect.StructTag{}, map[string]bool{}
	for _, field := range s.Fields {
		tagged, _ := isTagged(field.Tag)
		outer, holder := s.ModelType, s.Name
		for _, name := range field.BindNames[:len(field.BindNames)-1] {
			embedded, found := outer.FieldByName(name)
			if !found {
				break
			}
			holder += "." + name
			if _, known := tags[holder]; !known {
				holders = append(holders, holder)
			}
			tags[holder], asked[holder] = embedded.Tag, asked[holder] || tagged
			for outer = embedded.Type; outer.Kind() == reflect.Pointer; {
				outer = outer.Elem()
			}
		}
	}
	var faults []error
	for _, holder := range holders {
		if tagged, err := isTagged(tags[holder]); !asked[holder] && (tagged || err != nil) {
			faults = append(faults, fmt.Errorf("%w: %s: tag `%s` is on an embedded struct, where it fills "+
				"nothing: tag the field of the key itself, or embed snowflakeplugin.Model in place of gorm.Model",
				errs.ErrInvalidField, holder, tags[holder]))
		}
	}
	return faults
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
		return nil, fmt.Errorf("tag %s:\"%s%s\" names no other column of %s: name the field that holds "+
			"the ID "+
			"of the row to be colocated with", TagName, TagLike, name, s.Name)
	}
	return like, nil
}

// isColumn reports whether the field stands for a column that a create may write. A field does not if
// a field of the outer struct hides it, if it is excluded, or if it is read-only.
func isColumn(s *schema.Schema, field *schema.Field) bool {
	return field.DBName != "" && s.FieldsByDBName[field.DBName] == field && field.Creatable
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

// isJoinTable reports whether the schema belongs to a join table that GORM made up for a
// many-to-many relation. All its fields are foreign keys, copied from the primary keys of both sides
// together with their tags. GORM builds the struct without a name, and its last fields are the two
// models themselves, excluded by a tag.
func isJoinTable(s *schema.Schema) bool {
	t := s.ModelType
	if t.Name() != "" || t.Kind() != reflect.Struct || t.NumField() == 0 {
		return false
	}
	last := t.Field(t.NumField() - 1)
	return last.Type.Kind() == reflect.Struct && last.Tag.Get("gorm") == "-"
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

// DigitsOf returns how many decimal digits the largest ID of a layout has.
func DigitsOf(l generator.Layout) int {
	largest := uint64(1)<<(l.TimeBits+l.NodeBits()+l.SequenceBits) - 1
	return len(strconv.FormatUint(largest, 10))
}

// UniqueKey is a set of columns of which the model says that no two rows share all values.
type UniqueKey []*schema.Field

// lookupKey turns an index into a key, if it is unique over whole columns of all rows.
func lookupKey(index *schema.Index) (UniqueKey, bool) {
	if index.Class != "UNIQUE" || index.Where != "" {
		return nil, false
	}
	var key UniqueKey
	for _, part := range index.Fields {
		if part.Field == nil || part.Expression != "" || part.Length > 0 {
			return nil, false
		}
		key = append(key, part.Field)
	}
	return key, len(key) > 0
}

// RoutingKey returns the field that a router can route by: the only field of the primary key, if it is
// tagged and an integer. Otherwise it returns nil.
func (p *Plan) RoutingKey() *schema.Field {
	for _, column := range p.columns {
		single := column.field.PrimaryKey && len(p.schema.PrimaryFields) == 1
		if single && column.kind == kindInt && !column.pointer && column.value.Size() == binaryLen {
			return column.field
		}
	}
	return nil
}

// Unroutable returns the name of the source of a key if the source cannot choose shards, and else "".
func (p *Plan) Unroutable(key *schema.Field) string {
	for _, column := range p.columns {
		if column.field == key && column.from != nil && column.from.liker == nil {
			return column.from.name
		}
	}
	return ""
}
