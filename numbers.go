package snowflakeplugin

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/internal/authority"
	"github.com/snowflakeplugin/snowflakeplugin/internal/fill"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// noteNumbers returns what notes from which counters columns get their numbers, in the databases to which the
// statements of a handle lead. The node is asked for at each note, because it may change.
func noteNumbers(c *config, currentNode func() *node, db *gorm.DB) fill.NumbersNote {
	var places sync.Map // has where the table lies, by the pool, where no node knows it
	return func(
		ctx context.Context, d fill.Destination, table string, columns []fill.Numbered,
	) (lasts bool, err error) {
		if c.isOwnSchema(d.Schema) {
			return true, nil
		}
		ctx, cancel := context.WithTimeout(ctx, lateNoteTimeout)
		defer cancel()
		claim := func(ctx context.Context, database authority.Database) error {
			noted := make([]authority.Numbered, len(columns))
			for i, column := range columns {
				shares, err := sharesOf(ctx, column.Source)
				if err != nil {
					return fmt.Errorf("snowflakeplugin: no numbers for %s.%s: source %q: %w", table, column.Column,
						column.Name, err)
				}
				noted[i] = authority.Numbered{
					Column: column.Column, Shares: shares, Field: column.Field, Source: column.Name,
					Unique: column.Unique,
				}
			}
			database, err := placeOfNumbers(ctx, currentNode(), &places, database, d.Schema)
			if err != nil {
				return err
			}
			return authority.ClaimNumbers(ctx, database, table, noted)
		}
		database := databaseOf(db)
		if d.Pool == nil {
			return true, claim(ctx, database)
		}
		database = authority.In(d.Dialect, d.Pool)
		switch {
		case !d.Pinned:
			return true, claim(ctx, database)
		case database.Embedded():
			// A file of SQLite has one writer, which may be the caller. What he writes is there together with his
			// rows, or with them it is not.
			return false, claim(ctx, authority.In(d.Dialect, d.Conn))
		}
		return true, database.Beneath(ctx, d.Pool, claim)
	}
}

// placeOfNumbers returns the database with the table in which the columns of a schema are noted. For a schema
// that has the table of the database, or the leases, it is the one where the keys are noted. The database
// decides that alone, so all processes find the same one.
func placeOfNumbers(
	ctx context.Context, n *node, places *sync.Map, database authority.Database, schema string,
) (authority.Database, error) {
	own := database
	pool, _ := database.Pool.(*sql.DB)
	if known, found := places.Load(pool); found && pool != nil {
		own, _ = known.(authority.Database)
	} else if n != nil && pool != nil && pool == n.home.Pool {
		own = n.home
	}
	own, err := own.Locate(ctx)
	if err == nil && pool != nil {
		places.Store(pool, own)
	}
	if err != nil || schema == "" || slices.Contains(own.Schemas(true), schema) {
		return own, err
	}
	return database.OfSchema(schema), nil
}

// sharesOf returns where the numbers of a source come from.
func sharesOf(ctx context.Context, source fill.Source) (shares []authority.Share, err error) {
	counted, ok := source.(interface {
		Origins(ctx context.Context) ([]segment.Origin, error)
	})
	if !ok {
		return []authority.Share{{Origin: authority.External(source), Modulus: 1}}, nil
	}
	origins, err := counted.Origins(ctx)
	for _, o := range origins {
		share := authority.Share{
			Origin:    authority.Counted(o.ID, o.Counter, o.Place),
			Remainder: o.Remainder, Modulus: o.Modulus,
		}
		if o.ID == "" {
			share.Origin = authority.External(o.Store)
		}
		shares = append(shares, share)
	}
	return shares, err
}
