package fill

import "gorm.io/gorm"

// PluginName is the name under which GORM knows the plugin, and the prefix of its callbacks.
const PluginName = "snowflake"

// The plugin's callbacks. Those of creates are listed in the order in which they run.
const (
	callbackGuard     = PluginName + ":guard" // in place of all others after a failed Use
	callbackWatch     = PluginName + ":watch"
	callbackFill      = PluginName + ":fill"
	callbackEnter     = PluginName + ":enter"
	callbackInsert    = PluginName + ":before_insert"
	callbackReconcile = PluginName + ":reconcile"
	callbackReset     = PluginName + ":reset"

	// An update saves associations too.
	callbackTrack = PluginName + ":track"
)

// IsInUse reports whether the callbacks are registered.
func IsInUse(db *gorm.DB) bool { return db.Callback().Create().Get(callbackFill) != nil }
