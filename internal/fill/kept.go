package fill

import (
	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// resolver is the name of the plugin dbresolver. If it has sources or replicas for certain tables, it looks
// for those of a statement by parsing its model. That gives the statement the schema of the model, which
// knows no shard. If dbresolver was registered before the router, it does so after the statement was routed.
const resolver = "gorm:db_resolver"

const keptSetting = PluginName + ":schema"

// keptSchema is the schema that a router has given to a statement.
type keptSchema struct {
	stmt   *gorm.Statement // others may have a copy of its settings
	schema *schema.Schema
}

// Resolves reports whether dbresolver is in use.
func Resolves(stmt *gorm.Statement) bool { return stmt.Plugins[resolver] != nil }

// SetSchema gives a statement a schema that [KeepSchema] gives back to it.
func SetSchema(stmt *gorm.Statement, s *schema.Schema) {
	stmt.Schema = s
	if Resolves(stmt) {
		stmt.Settings.Store(keptSetting, keptSchema{stmt, s})
	}
}

// KeepSchema gives a statement the schema of SetSchema back.
func KeepSchema(stmt *gorm.Statement) {
	if !Resolves(stmt) {
		return // Every create asks, and a look into its settings would be a tenth of what the plugin takes.
	}
	kept, _ := stmt.Settings.Load(keptSetting)
	if k, ok := kept.(keptSchema); ok && k.stmt == stmt && stmt.Schema != nil &&
		stmt.Schema.ModelType == k.schema.ModelType {
		stmt.Schema = k.schema
	}
}

// ForgetSchema takes back what SetSchema has noted, before the statement is routed anew.
func ForgetSchema(stmt *gorm.Statement) {
	if Resolves(stmt) {
		stmt.Settings.Delete(keptSetting)
	}
}
