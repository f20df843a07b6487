package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/sqllease"
)

// A program without GORM opens a pool for the store alone, beside the one that it works with.
func ExampleNew() {
	run := func(ctx context.Context) (err error) {
		pool, err := sql.Open("pgx", "postgres://shop@db.example.com/shop")
		if err != nil {
			return err
		}
		store, err := sqllease.New(ctx, pool, sqllease.PostgreSQL, sqllease.WithDedicatedPool())
		if err != nil {
			return errors.Join(err, pool.Close())
		}
		defer func() { err = errors.Join(err, store.Close()) }() // which closes the pool
		keeper, err := lease.Acquire(ctx, store, generator.Default())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keeper.Close(ctx)) }()
		g, err := generator.New(generator.Default(), keeper)
		if err != nil {
			return err
		}
		id, err := g.Next(ctx)
		if err != nil {
			return err
		}
		fmt.Println(id)
		return nil
	}
	_ = run // needs a server
}
