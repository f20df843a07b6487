package generator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// Two models that draw from one generator in turn, an order and then its item, at ticks of their
// own. A counter gives all orders even numbers and all items odd ones, which looks perfect for
// either alone. Here either is as even as a fair choice.
func TestTwoModelsInTurnDoNotResonate(t *testing.T) {
	const pairs = 60_000
	for _, n := range []int{2, 4, 10, 16, 100} {
		g := newQuiet(t, generator.Default(), n)
		orders, items := make([]int, n), make([]int, n)
		for range scaled(pairs) {
			orders[g.next(t, 3*time.Millisecond)%int64(n)]++
			items[g.next(t, 3*time.Millisecond)%int64(n)]++
		}
		wantFair(t, fmt.Sprintf("orders on %d shards", n), orders)
		wantFair(t, fmt.Sprintf("items on %d shards", n), items)
	}
}

// The same in one tick: then both are exactly even.
func TestTwoModelsInOneTickAreBothEven(t *testing.T) {
	for _, n := range []int{2, 3, 10, 16, 100} {
		g := newQuiet(t, generator.Default(), n)
		orders, items := make([]int, n), make([]int, n)
		for range scaled(20_000) {
			orders[g.next(t, 3*time.Millisecond)%int64(n)]++
			items[g.next(t, 0)%int64(n)]++
			if n <= 16 && (spread(orders) > 1 || spread(items) > 1) {
				t.Fatalf("N=%d: orders %v, items %v", n, orders, items)
			}
		}
		if spread(orders) > 1 || spread(items) > 1 {
			t.Errorf("N=%d: spread of orders %d, of items %d", n, spread(orders), spread(items))
		}
	}
}

// Whatever part of the IDs one looks at, every third or every seventh, it is fair. In peers the
// first of two IDs of a request was odd always or never.
func TestEveryPartOfTheIDsIsFair(t *testing.T) {
	const n = 16
	for every := 2; every <= 9; every++ {
		g := newQuiet(t, generator.Default(), n)
		parts := make([][]int, every)
		for i := range parts {
			parts[i] = make([]int, n)
		}
		for i := range scaled(every * 20_000) {
			parts[i%every][g.next(t, time.Millisecond)%n]++
		}
		for i, counts := range parts {
			wantFair(t, fmt.Sprintf("id %d of every %d", i+1, every), counts)
		}
	}
}
