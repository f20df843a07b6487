package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

func TestItPrintsAnID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stdout := os.Stdout
	os.Stdout = file
	t.Cleanup(func() { os.Stdout = stdout })

	main()

	printed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := snowflakeplugin.ParseID(strings.TrimSpace(string(printed)))
	if err != nil {
		t.Fatalf("it printed %q: %v", printed, err)
	}
	parts, err := generator.Default().Decompose(id.Int64())
	if err != nil || time.Since(parts.Time).Abs() > time.Minute {
		t.Errorf("%d is of node %d at %v, %v; want now", id, parts.Node, parts.Time, err)
	}
}
