// Command quickstart shows what the plugin does. It uses a database in memory, so it needs no
// setup:
//
//	go run ./examples/quickstart
//
// The file models.go defines the tables, and quickstart.go contains the story.
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
