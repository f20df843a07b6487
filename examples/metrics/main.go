// Metrics is a shop that shows its plugin to Prometheus and to the probes of Kubernetes. It stores ten
// orders a second in an SQLite file until it is interrupted.
//
//	go run . -listen 127.0.0.1:9100
//	curl -s 127.0.0.1:9100/metrics | grep snowflake
//	curl -s 127.0.0.1:9100/readyz
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9100", "address of the metrics")
	flag.Parse()
	if err := run(*listen); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(listen string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "metrics")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/metrics\n", listener.Addr())
	return serve(ctx, listener, filepath.Join(dir, "shop.db"))
}
