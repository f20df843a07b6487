// Command quickstart shows what the plugin does, on a database in memory that needs no set-up:
//
//	go run ./examples/quickstart
//
// models.go has the tables, quickstart.go the story.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}
