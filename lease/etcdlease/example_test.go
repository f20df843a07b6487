package etcdlease_test

import (
	"context"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/etcdlease"
)

// A process that makes IDs with a number from etcd.
func Example() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store, err := etcdlease.New(client, "snowflake/")
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
