package filling_test

import (
	"database/sql"
	"reflect"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

func TestTags(t *testing.T) {
	run(t, []behavior{
		{
			Name: "a tag that is almost right is refused by name, by Prepare and by every create",
			Run:  refusedTags(almostRight),
		},
		{
			Name: "a tag that Go cannot read is refused as well",
			Run:  malformedTags,
		},
		{
			Name: "an ID that encoding/json cannot read back is refused",
			Run:  refusedTags(jsonStrings),
		},
		{
			Name: "a tree with such a model in it is refused as a whole",
			Run:  almostRightBelow,
		},
		{
			Name: "what only looks like the tag is left alone",
			Run:  otherTags,
		},
	})
}

type (
	tagCapital struct {
		ID   int64  `Snowflake:"true" gorm:"primaryKey"`
		Name string `gorm:"size:50"`
	}
	tagShouted struct {
		ID   uint   `gorm:"primaryKey" SNOWFLAKE:"1"`
		Name string `gorm:"size:50"`
	}
	tagSetting struct {
		ID   int64  `gorm:"primaryKey;snowflake:true"`
		Name string `gorm:"size:50"`
	}
	tagSettingAlone struct {
		ID   uint64 `gorm:"Snowflake"`
		Name string `gorm:"size:50"`
	}
	tagOther struct {
		ID   snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Code int64              `gorm:"snowflake:from:codes"`
		Name string             `gorm:"size:50"`
	}
	tagEmbedded struct {
		gorm.Model `snowflake:"true"`
		Name       string `gorm:"size:50"`
	}
	tagEmbeddedPointer struct {
		*gorm.Model `snowflake:"1"`
		Name        string `gorm:"size:50"`
	}
	tagEmbeddedSetting struct {
		gorm.Model `gorm:"snowflake:true"`
		Name       string `gorm:"size:50"`
	}
	tagEmbeddedByName struct {
		Base tagBase `gorm:"embedded" snowflake:"true"`
		Name string  `gorm:"size:50"`
	}
	tagBase struct {
		Key tagKey `gorm:"embedded" Snowflake:"true"`
	}
	tagKey struct {
		ID int64 `gorm:"primaryKey"`
	}
)

// A refusedTag is a model and what its error names.
type refusedTag struct {
	model any
	names []string
}

// almostRight has models whose tags are almost right.
var almostRight = map[string]refusedTag{
	"a capital":                  {&tagCapital{}, []string{"tagCapital.ID", "Snowflake"}},
	"capitals":                   {&tagShouted{}, []string{"tagShouted.ID", "SNOWFLAKE"}},
	"a setting of GORM":          {&tagSetting{}, []string{"tagSetting.ID", "gorm"}},
	"the only setting":           {&tagSettingAlone{}, []string{"tagSettingAlone.ID", "gorm"}},
	"a setting beside the key":   {&tagOther{}, []string{"tagOther.Code", "gorm"}},
	"gorm.Model":                 {&tagEmbedded{}, []string{"tagEmbedded.Model", "snowflakeplugin.Model"}},
	"a pointer to gorm.Model":    {&tagEmbeddedPointer{}, []string{"tagEmbeddedPointer.Model", "embedded"}},
	"a setting of gorm.Model":    {&tagEmbeddedSetting{}, []string{"tagEmbeddedSetting.Model", "gorm"}},
	"structs embedded by a name": {&tagEmbeddedByName{}, []string{"ByName.Base:", "ByName.Base.Key:"}},
}

type (
	tagJSON struct {
		ID   snowflakeplugin.ID `json:"id,string" gorm:"primaryKey" snowflake:"true"`
		Name string             `gorm:"size:50"`
	}
	tagJSONReference struct {
		ID     snowflakeplugin.ID  `gorm:"primaryKey" snowflake:"true"`
		UserID *snowflakeplugin.ID `json:",omitempty,string"`
		Name   string              `gorm:"size:50"`
	}
	tagJSONUntagged struct {
		ID     uint
		UserID snowflakeplugin.ID `json:"user_id,string"`
		Name   string             `gorm:"size:50"`
	}
	tagJSONEmbedded struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		TagOwner `gorm:"embeddedPrefix:by_"`
		Name     string `gorm:"size:50"`
	}
	TagOwner struct {
		OwnerID snowflakeplugin.ID `json:"owner,string"`
	}
)

// jsonStrings has models whose IDs cannot be read from the JSON that they write.
var jsonStrings = map[string]refusedTag{
	"a key":                        {&tagJSON{}, []string{"tagJSON.ID", `json:"id,string"`, `json:"id"`}},
	"a reference":                  {&tagJSONReference{}, []string{"tagJSONReference.UserID", ",string"}},
	"a reference beside other IDs": {&tagJSONUntagged{}, []string{"tagJSONUntagged.UserID", ",string"}},
	"an embedded reference":        {&tagJSONEmbedded{}, []string{"tagJSONEmbedded.OwnerID", ",string"}},
}

// refusesModel fails the test unless Prepare and creates of every shape refuse the model.
func refusesModel(t *testing.T, db *gorm.DB, plugin *snowflakeplugin.Plugin, model any, names ...string) {
	t.Helper()
	of := reflect.TypeOf(model).Elem()
	fresh := func() any { return reflect.New(of).Interface() }
	slice := reflect.New(reflect.SliceOf(of))
	slice.Elem().Set(reflect.MakeSlice(slice.Elem().Type(), 2, 2))
	for what, err := range map[string]error{
		"Prepare":          plugin.Prepare(db, model),
		"Create":           db.Create(fresh()).Error,
		"another Create":   db.Create(fresh()).Error,
		"Create of many":   db.Create(slice.Interface()).Error,
		"Save":             db.Save(fresh()).Error,
		"Create of a map":  db.Model(model).Create(map[string]any{"name": "a"}).Error,
		"Create of maps":   db.Model(model).Create(&[]map[string]any{{"name": "a"}, {"name": "b"}}).Error,
		"CreateInBatches":  db.CreateInBatches(slice.Interface(), 1).Error,
		"an unscoped one":  db.Unscoped().Create(fresh()).Error,
		"one by Omit":      db.Omit("ID").Create(fresh()).Error,
		"one in a Session": db.Session(&gorm.Session{SkipHooks: true}).Create(fresh()).Error,
	} {
		wantErr(t, err, snowflakeplugin.ErrInvalidField, what)
		says(t, err, names...)
	}
	var count int64
	must(t, db.Model(model).Unscoped().Count(&count).Error, "count")
	same(t, "rows", count, 0)
}

// refusedTags refuses every model of a table, by Prepare and at its first create.
func refusedTags(models map[string]refusedTag) func(*testing.T, dbtest.Target) {
	return func(t *testing.T, target dbtest.Target) {
		t.Helper()
		dsn := target.DSN(t)
		db, bare := target.OpenDSN(t, dsn, nil), target.OpenDSN(t, dsn, nil)
		plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
		must(t, db.Use(plugin), "Use")
		for name, c := range models {
			t.Run(name, func(t *testing.T) {
				wantErr(t, db.AutoMigrate(c.model), snowflakeplugin.ErrInvalidField, "AutoMigrate")
				must(t, bare.AutoMigrate(c.model), "AutoMigrate without the plugin")
				refusesModel(t, db, plugin, c.model, c.names...)
			})
		}
	}
}

func malformedTags(t *testing.T, target dbtest.Target) {
	db := target.Open(t, nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	must(t, db.Use(plugin), "Use")
	plainExec(t, db, "CREATE TABLE malformed (id bigint, name varchar(50))")
	for name, tag := range map[string]reflect.StructTag{
		"a comma":        `gorm:"primaryKey", snowflake:"true"`,
		"a semicolon":    `gorm:"primaryKey"; snowflake:"true"`,
		"a space":        `gorm:"primaryKey" snowflake: "true"`,
		"no quotes":      `gorm:"primaryKey" snowflake:true`,
		"other quotes":   `gorm:"primaryKey" snowflake:'true'`,
		"an equals sign": `gorm:"primaryKey" snowflake="true"`,
		"no value":       `gorm:"primaryKey" snowflake`,
		"an open quote":  `gorm:"primaryKey" snowflake:"true`,
		"itself alone":   `snowflake`,
	} {
		t.Run(name, func(t *testing.T) {
			model := reflect.New(reflect.StructOf([]reflect.StructField{
				{Name: "ID", Type: reflect.TypeFor[int64](), Tag: tag},
				{Name: "Name", Type: reflect.TypeFor[string]()},
			})).Interface()
			refusesModel(t, db.Table("malformed").Session(&gorm.Session{}), plugin, model, ".ID", string(tag))
		})
	}
}

type (
	tagParent struct {
		ID       snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
		Children []tagChild         `gorm:"foreignKey:ParentID"`
	}
	tagChild struct {
		gorm.Model `snowflake:"true"`
		ParentID   *snowflakeplugin.ID
		UncleID    *uint
	}
	// tagUncle has no ID of the plugin, but a child that should have one.
	tagUncle struct {
		ID    uint
		Child *tagChild `gorm:"foreignKey:UncleID"`
	}
)

func almostRightBelow(t *testing.T, target dbtest.Target) {
	dsn := target.DSN(t)
	db := target.OpenDSN(t, dsn, nil)
	must(t, db.Use(snowflakeplugin.New(snowflakeplugin.WithNode(1))), "Use")
	models := []any{&tagParent{}, &tagUncle{}, &tagChild{}}
	wantErr(t, db.AutoMigrate(models...), snowflakeplugin.ErrInvalidField, "AutoMigrate")
	must(t, target.OpenDSN(t, dsn, nil).AutoMigrate(models...), "AutoMigrate without the plugin")
	parent, uncle := tagParent{Children: make([]tagChild, 2)}, tagUncle{Child: &tagChild{}}
	for _, err := range []error{db.Create(&parent).Error, db.Create(&uncle).Error} {
		wantErr(t, err, snowflakeplugin.ErrInvalidField, "create the tree")
		says(t, err, "tagChild.Model")
	}
	same(t, "the ID of the parent", parent.ID, 0)
	holds(t, db, &tagParent{}, 0)
	holds(t, db, &tagUncle{}, 0)
	holds(t, db, &tagChild{}, 0)
}

type (
	tagMentions struct {
		ID    uint   `gorm:"primaryKey;comment:no snowflake:true" snowflake_kind:"true" json:"snowflake"`
		Flake string `gorm:"column:snowflake;size:50;index:idx_snowflake" yaml:"snowflake:true"`
	}
	tagDenied struct {
		gorm.Model `snowflake:"false"`
		Name       string `gorm:"size:50"`
	}
	tagTwice struct {
		snowflakeplugin.Model `snowflake:"true"`
		Name                  string `gorm:"size:50"`
	}
	tagJSONKept struct {
		ID     int64                        `json:"id,string" gorm:"primaryKey" snowflake:"true"`
		String snowflakeplugin.ID           `json:"string"`
		Hidden snowflakeplugin.ID           `json:"-"`
		Maybe  sql.Null[snowflakeplugin.ID] `json:",string"`                 //nolint:staticcheck // what is wrong with it
		Name   string                       `gorm:"size:50" xml:"id,string"` //nolint:staticcheck // not of JSON
	}
	tagBeside struct {
		ID   int64  `gorm:"primaryKey;snowflake:true" snowflake:"true" Snowflake:"true"`
		Name string `gorm:"size:50"`
	}
)

func otherTags(t *testing.T, target dbtest.Target) {
	db, _ := open(t, target, nil, &tagMentions{}, &tagDenied{}, &tagTwice{}, &tagBeside{}, &tagJSONKept{})
	mentions, denied := tagMentions{Flake: "a"}, tagDenied{Name: "a"}
	twice, beside := tagTwice{Name: "a"}, tagBeside{Name: "a"}
	for _, row := range []any{&mentions, &denied, &twice, &beside, &tagJSONKept{Name: "a"}} {
		must(t, db.Create(row).Error, "create")
	}
	same(t, "the key of the database", mentions.ID, 1)
	same(t, "the key of the database", denied.ID, 1)
	if twice.ID < 1<<32 || beside.ID < 1<<32 {
		t.Errorf("the IDs are %d and %d, want those of the plugin", twice.ID, beside.ID)
	}
}
