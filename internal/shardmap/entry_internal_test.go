package shardmap

import "testing"

// The name is asked for with each row, and is all that it allocates.
func TestTheNameOfATableOfAShard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		residue, generation int
		want                string
	}{
		{0, 0, "orders_00"}, {3, 0, "orders_03"}, {10, 0, "orders_10"}, {1023, 0, "orders_1023"}, {3, 1, "orders_03_g1"},
		{100, 12, "orders_100_g12"},
	} {
		e := Entry{Class: Class{Residue: c.residue, Modulus: 1024}, Generation: c.generation}
		if got := e.TableOn("orders"); got != c.want {
			t.Errorf("%+v: the table is called %q, want %q", e, got, c.want)
		}
	}
}

func TestTheNameOfATableTakesOneAllocation(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts those of all goroutines
	e, name := Entry{Class: Class{Residue: 1023, Modulus: 1024}, Generation: 12}, ""
	if n := testing.AllocsPerRun(100, func() { name = e.TableOn("orders") }); n > 1 {
		t.Errorf("%s: %v allocations, want at most 1", name, n)
	}
}
