package gormlease_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	mysqldriver "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// MariaDB shows the attributes of a connection only if the administrator has switched its performance
// schema on, so the test looks at what the driver sends. MySQL is asked, too.
func TestAConnectionOfMySQLSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	eachMySQL(t, func(t *testing.T, target dbtest.Target) {
		for attributes, want := range map[string]string{
			"":                  sqllease.ConnectionName(),
			"program_name:shop": "shop", // which the application has chosen
		} {
			sent := &recording{}
			network := "recorded-" + rand.Text()
			cfg, err := mysql.ParseDSN(target.DSN(t))
			if err != nil {
				t.Fatal("the DSN is not one of the mysql driver")
			}
			watcher := target.OpenDSN(t, cfg.FormatDSN(), nil, dbtest.MaxOpenConns(1))
			usual := cfg.Net
			mysql.RegisterDialContext(network, func(ctx context.Context, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, usual, address)
				return recorded{conn, sent}, err
			})
			cfg.Net = network
			dsn := cfg.FormatDSN() // which leaves the attributes out
			if attributes != "" {
				dsn += "&connectionAttributes=" + url.QueryEscape(attributes)
			}
			db, err := gorm.Open(mysqldriver.Open(dsn), &gorm.Config{Logger: logger.Discard})
			must(t, err)
			application := poolOf(t, db)
			t.Cleanup(func() { must(t, application.Close()) })
			if attributes == "" && sent.has("program_name") {
				t.Error("the application's own connection has a name already")
			}
			newStore(t, db)
			if !sent.has("program_name" + string(rune(len(want))) + want) {
				t.Errorf("with the attributes %q the store's connection is not called %q", attributes, want)
			}
			if target.IsMySQL(t) {
				var names []string
				must(t, watcher.Raw("SELECT attr_value FROM performance_schema.session_account_connect_attrs "+
					"WHERE attr_name = 'program_name' AND processlist_id IN ?", target.Connections(t, watcher)).
					Scan(&names).Error)
				if !slices.Contains(names, want) {
					t.Errorf("with the attributes %q the server knows connections called %q", attributes, names)
				}
			}
			if attributes != "" && sent.has(sqllease.ConnectionName()) {
				t.Error("the name that the application has chosen is replaced")
			}
		}
	})
}

// recording is what was sent to a server.
type recording struct {
	mu   sync.Mutex
	sent bytes.Buffer
}

func (r *recording) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.sent.Bytes(), []byte(text))
}

type recorded struct {
	net.Conn
	to *recording
}

func (c recorded) Write(p []byte) (int, error) {
	c.to.mu.Lock()
	c.to.sent.Write(p)
	c.to.mu.Unlock()
	return c.Conn.Write(p)
}
