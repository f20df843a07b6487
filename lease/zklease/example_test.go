package zklease_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
)

// A process that makes IDs with a number from ZooKeeper.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hosts := zklease.NewHostProvider(ctx)
	conn, _, err := zk.Connect([]string{"127.0.0.1:2181"}, 10*time.Second, zk.WithHostProvider(hosts), zk.WithDialer(hosts.Dial))
	if err != nil {
		log.Print(err)
		return
	}
	defer conn.Close()
	store, err := zklease.New(conn, "/snowflake")
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
