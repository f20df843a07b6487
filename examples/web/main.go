// Command web is a shop with a JSON API and a page, and shows what IDs need on their way to a browser:
//
//	go run ./examples/web                     # and open the address that it prints
//	go run ./examples/web -listen :8080
//
// A number of JavaScript is exact up to 2^53 only, and an ID is longer. IDs are texts in JSON, as values, in
// bodies that come back, and as keys of maps. The page says what the same ID would have become as a number.
// Orders also have a short address and a sealed one, which tells a stranger nothing. Lists are read page by
// page, and "since yesterday" is a range of keys, so there is no column for the time and no index for it.
//
// The file shop.go has the table and the questions to it, api.go the addresses, and page.html the page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the `ADDRESS` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *listen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

// run serves the shop until ctx ends.
func run(ctx context.Context, address string) (err error) {
	dir, err := os.MkdirTemp("", "web")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := openShop(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.fill(ctx); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("Open http://%s\n", listener.Addr())
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(limited) // the process ends anyway
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
