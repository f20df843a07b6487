package generator_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// The frozen IDs of every preset. Tables of users hold IDs of these layouts, so what an ID means
// may never change, and nobody should ever need this flag: a test that fails here means that the
// code is wrong, not the file. The flag only adds the vectors of a preset that has none yet; it
// never rewrites one that is there.
var update = flag.Bool("update", false, "add frozen IDs for presets that have none; see the source")

const goldenFile = "testdata/golden.json"

// vector is an ID and all that it says. Numbers are strings where they may be wider than the 53
// bits that other languages read exactly.
type vector struct {
	Preset   string    `json:"preset"`
	Case     string    `json:"case"`
	ID       int64     `json:"id,string"`
	Time     time.Time `json:"time"`
	Node     []int64   `json:"node"`
	Sequence int64     `json:"sequence"`
}

func TestFrozenIDsOfEveryPreset(t *testing.T) {
	text, err := os.ReadFile(goldenFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var vectors []vector
	if len(text) > 0 {
		if err := json.Unmarshal(text, &vectors); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range presets() {
		known := func(v vector) bool { return v.Preset == p.name }
		if *update && !slices.ContainsFunc(vectors, known) {
			vectors = append(vectors, newVectors(t, p.layout)...)
		}
		mine := slices.DeleteFunc(slices.Clone(vectors), func(v vector) bool { return !known(v) })
		if len(mine) < 6 {
			t.Errorf("%s: %d frozen ids, want at least 6", p.name, len(mine))
		}
		for _, v := range mine {
			checkVector(t, p.layout, v)
		}
	}
	if *update && !t.Failed() {
		writeVectors(t, vectors)
	}
}

func checkVector(t *testing.T, l generator.Layout, v vector) {
	t.Helper()
	node, err := l.PackNode(v.Node...)
	if err != nil {
		t.Errorf("%s, %s: %v", v.Preset, v.Case, err)
		return
	}
	want := generator.Parts{Time: v.Time, Node: node, Sequence: v.Sequence}
	if got, err := l.Decompose(v.ID); err != nil || got != want {
		t.Errorf("%s, %s: Decompose(%d) = %+v, %v, want %+v", v.Preset, v.Case, v.ID, got, err, want)
	}
	if got, err := l.Compose(want); err != nil || got != v.ID {
		t.Errorf("%s, %s: Compose(%+v) = %d, %v, want %d", v.Preset, v.Case, want, got, err, v.ID)
	}
	if got := l.UnpackNode(node); !slices.Equal(got, v.Node) {
		t.Errorf("%s, %s: UnpackNode(%d) = %v, want %v", v.Preset, v.Case, node, got, v.Node)
	}
}

// newVectors creates the vectors of a new preset with the oracle and not with the code under test.
func newVectors(t *testing.T, l generator.Layout) []vector {
	t.Helper()
	first, last := l.Epoch.UTC(), l.End().Add(-l.Tick)
	// Some instant of an ordinary day, at the beginning of its tick.
	someday := l.Epoch.Add(midLife().Sub(l.Epoch).Truncate(l.Tick) + 4321*l.Tick).UTC()
	zeros, full, mixed := make([]int64, len(l.Node)), make([]int64, len(l.Node)), make([]int64, len(l.Node))
	for i, f := range l.Node {
		full[i] = int64(1)<<f.Bits - 1
		mixed[i] = full[i]*2/3 - int64(i)
	}
	vectors := []vector{
		{Case: "first tick, all zero", Time: first, Node: zeros},
		{Case: "first tick, greatest node", Time: first, Node: full},
		{Case: "first tick, greatest sequence", Time: first, Node: zeros, Sequence: l.MaxSequence()},
		{Case: "some day", Time: someday, Node: mixed, Sequence: l.MaxSequence() / 3},
		{Case: "some day, all full", Time: someday, Node: full, Sequence: l.MaxSequence()},
		{Case: "last tick, all zero", Time: last, Node: zeros},
		{Case: "last tick, all full", Time: last, Node: full, Sequence: l.MaxSequence()},
	}
	for i := range vectors {
		v := &vectors[i]
		v.Preset = l.Name
		v.ID = composeByText(t, l, v.Time, v.Node, v.Sequence)
	}
	return vectors
}

func writeVectors(t *testing.T, vectors []vector) {
	t.Helper()
	var text bytes.Buffer
	text.WriteString("[\n")
	for i, v := range vectors {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		comma := ","
		if i == len(vectors)-1 {
			comma = ""
		}
		fmt.Fprintf(&text, "  %s%s\n", line, comma)
	}
	text.WriteString("]\n")
	if err := os.WriteFile(goldenFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
