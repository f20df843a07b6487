package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// A figure is worth nothing if the library was not really called, so every series makes IDs that differ.
func TestEveryLibraryMakesIDs(t *testing.T) {
	for _, p := range peers() {
		s, err := p.open()
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		seen := map[key]bool{}
		for range 1000 {
			id, err := s.next()
			if err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			if seen[id] {
				t.Errorf("%s made %x twice", p.name, id)
			}
			seen[id] = true
		}
	}
}

// The lead is read from the IDs, so the time of each library has to be read rightly.
func TestTheTimeInAnIDIsNow(t *testing.T) {
	for _, p := range peers() {
		if p.timeOf == nil {
			continue
		}
		s, err := p.open()
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		id, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if at := p.timeOf(id); at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: the time in an ID is %v", p.name, at)
		}
	}
}

// Among the libraries that keep the order, bound their lead and fit into 63 bits, this one is the fastest in
// every measure of the data that is kept.
func TestThisLibraryIsFirstAmongItsEquals(t *testing.T) {
	r := kept(t)
	equals, speeds := 0, 0
	for _, f := range r.Figures {
		if f.Unit != perIDUnit {
			continue
		}
		speeds++
		own := median(f.Values[this])
		for _, p := range r.Peers {
			other := median(f.Values[p.Name])
			if p.Name == this || p.Otherwise != "" || other == 0 {
				continue
			}
			if equals++; other < own {
				t.Errorf("%s: %s takes %v ns, and this library %v", f.Name, p.Name, other, own)
			}
		}
	}
	if speeds != 5 || equals < 12 {
		t.Errorf("%d measures and %d comparisons are too few", speeds, equals)
	}
}

func kept(t *testing.T) (r report) {
	t.Helper()
	raw, err := os.ReadFile("results/raw.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The tables that are kept are those of the raw data that is kept.
func TestTheKeptTablesAreMadeOfTheKeptData(t *testing.T) {
	r := kept(t)
	tables, err := os.ReadFile("results/tables.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.tables(); got != string(tables) {
		t.Errorf("results/tables.md is not what raw.json gives:\n%s", got)
	}
	page, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(tables)) {
		if !strings.Contains(string(page), strings.TrimSpace(line)) {
			t.Errorf("docs/benchmarks.md lacks this line of results/tables.md: %s", line)
		}
	}
	for name, measure := range map[string]string{"single.svg": "one goroutine", "idle.svg": "1,000 from idle"} {
		if kept, err := os.ReadFile("results/" + name); err != nil || string(kept) != r.plot(measure) {
			t.Errorf("results/%s is not what raw.json gives: %v", name, err)
		}
	}
}
