// Command leased shows how processes share node numbers, and what happens to the number of a
// process that is killed:
//
//	go run ./examples/leased
//
// Three processes, A, B and C, insert into one SQLite file and share two numbers. The file
// worker.go holds the code of a process, which is the only part that a real program needs. The file
// story.go starts and kills the processes, and compares the rows with what watch.go has read from the
// table snowflake_nodes meanwhile, and report.go prints the result.
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
	if name != "" { // the story started this process as a worker
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

// playAside plays the story in its own directory and removes the directory afterwards.
func playAside(ctx context.Context) (s *story, err error) {
	dir, err := os.MkdirTemp("", "leased")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return play(ctx, filepath.Join(dir, "shop.db"))
}
