package shardmap

import (
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// A database that forgets in a crash which shards it has got leaves these to nobody: the other one has given them up.
func TestAChangeOfTheMapIsOnTheDiskOfPostgreSQL(t *testing.T) {
	t.Parallel()
	dbtest.Run(t, dbtest.ServersOf("postgres"), func(t *testing.T, target dbtest.Target) {
		db := target.Open(t, nil)
		var before, within, after string
		err := db.Connection(func(c *gorm.DB) error {
			r := Registry{&Topology{Databases: []*gorm.DB{c}}}
			c.Raw("SHOW synchronous_commit").Scan(&before)
			err := r.transaction(t.Context(), 0, func(tx *gorm.DB) error {
				return tx.Raw("SHOW synchronous_commit").Scan(&within).Error
			})
			c.Raw("SHOW synchronous_commit").Scan(&after)
			return err
		})
		if err != nil || before != "off" || within != "on" || after != "off" {
			t.Errorf("synchronous_commit is %q, %q in a transaction of the map, and %q afterwards: %v", before, within, after, err)
		}
	})
}
