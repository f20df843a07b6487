package redislease_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/redislease"
)

// A process that makes IDs with a number from Redis.
func Example() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer client.Close()
	// One replica, which has to confirm; it is refused if the server is set to forget.
	store, err := redislease.New(client, "snowflake:", redislease.WithStrict(1, 2*time.Second))
	if err != nil {
		log.Print(err)
		return
	}
	layout := generator.Default()
	keeper, err := lease.Acquire(ctx, store, layout)
	if err != nil {
		log.Print(err)
		return
	}
	defer keeper.Close(ctx)
	g, err := generator.New(layout, keeper)
	if err != nil {
		log.Print(err)
		return
	}
	id, err := g.Next(ctx)
	fmt.Println(id, err)
}
