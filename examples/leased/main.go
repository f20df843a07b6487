// Command leased shows how processes share node numbers, and what becomes of the number of one
// that is killed:
//
//	go run ./examples/leased
//
// Three processes, A, B and C, insert into one SQLite file and have two numbers between them. What
// each of them does is in worker.go, which is all that a program of yours would have of this.
// story.go starts and kills them, watch.go looks at the table snowflake_nodes meanwhile, findings.go
// compares it with the rows, and report.go prints what was seen.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	name, task := os.Getenv(nameVar), run
	if name != "" { // it was started by the story
		task = func(ctx context.Context, w io.Writer) error {
			return work(ctx, name, os.Getenv(fileVar), os.Stdin, w)
		}
	}
	if err := task(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "leased:", name, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	s, err := playAside(ctx)
	if err != nil {
		return err
	}
	return s.print(w)
}

// playAside tells the story in a directory of its own, which it removes.
func playAside(ctx context.Context) (s *story, err error) {
	dir, err := os.MkdirTemp("", "leased")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return play(ctx, filepath.Join(dir, "shop.db"))
}
