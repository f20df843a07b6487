package snowflakeplugin

import (
	"time"

	"gorm.io/gorm"
)

// Model is gorm.Model with a key that the plugin fills. Embed it:
//
//	type Order struct {
//		snowflakeplugin.Model
//		Total int64
//	}
//
// Like gorm.Model it brings soft deletion: Delete sets DeletedAt, and queries leave such rows out.
// A model that does not want that declares its own field instead:
//
//	ID snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
type Model struct {
	// ID is the primary key, set before the INSERT if it is zero.
	ID ID `gorm:"primaryKey" snowflake:"true"`
	// CreatedAt is the time of the INSERT by the clock of this process, kept by GORM.
	CreatedAt time.Time
	// UpdatedAt is the time of the last INSERT or UPDATE by the same clock, kept by GORM.
	UpdatedAt time.Time
	// DeletedAt is NULL until the row is deleted.
	DeletedAt gorm.DeletedAt `gorm:"index"`
}
