// Package snowflakeplugin gives every row that GORM creates a unique, time-ordered 64-bit key. The
// program makes the key and sets it before the INSERT.
//
// A field asks for an ID by its tag, and a database uses the plugin once:
//
//	type Order struct {
//		ID    snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
//		Total int64
//	}
//
//	plugin := snowflakeplugin.New() // leases a node number from this very database
//	if err := db.Use(plugin); err != nil {
//		return err
//	}
//	defer plugin.Close(context.Background()) // gives it back
//
//	order := Order{Total: 990}
//	err := db.Create(&order).Error // order.ID is set
//
// An [ID] holds the time of its making, the number of the node that made it, and a sequence number.
// Package generator defines which bits hold what, and makes IDs without GORM.
//
// The plugin fills zero fields with the tag in structs, slices, maps, associations and upserts, before
// the transaction begins and before hooks run. After a failed create the IDs are zero again. After an
// upsert a struct holds the ID of the row that is in the database, or zero. If no ID can be had, nothing
// is written. docs/creates.md has every case, and docs/errors.md every error.
//
// The IDs of one plugin are unique and strictly increasing. The IDs of all processes that lease from
// one store are unique, whatever their clocks do, however long a process is paused, and whichever
// process is killed. This needs the store's compare-and-swap and nothing else; package lease has the
// argument, and says which stores can break it. IDs have gaps and are no secret.
//
// The shard of a row is (id & MaxSequence) % N. The tag snowflake:"like:OrderID" puts a row on the
// shard of the ID in its field OrderID. A [Router] has a table for every shard, and routes creates,
// reads and pages to them. Package merge joins databases of servers whose keys never collide.
package snowflakeplugin
