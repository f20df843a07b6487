package generator_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

// chiSquare is the chi-square statistic of counts that should be equal.
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	expected, sum := float64(total)/float64(len(counts)), 0.0
	for _, c := range counts {
		sum += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	return sum
}

// chiLimit is what chiSquare of so many fair counts exceeds less than once in 10^11 runs, by the
// approximation of Wilson and Hilferty at seven standard deviations. All such checks of one run
// of the tests together raise a false alarm less than once in 10^9 runs. The number of draws is
// fixed, so that no number of shards or processors changes that.
func chiLimit(counts int) float64 {
	freedom := float64(counts - 1)
	root := 1 - 2/(9*freedom) + 7*math.Sqrt(2/(9*freedom))
	return freedom * root * root * root
}

// wantFair fails if the counts cannot come from a fair choice.
func wantFair(t testing.TB, what string, counts []int) {
	t.Helper()
	if got, limit := chiSquare(counts), chiLimit(len(counts)); got > limit {
		t.Errorf("%s: chi-square %.1f of %d counts, at most %.1f is fair: %v", what, got, len(counts), limit,
			counts[:min(len(counts), 32)])
	}
}

func TestEveryRoundOfTheDeckIsAPermutation(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 16, 100, 1000, 1024, 65535, 65536} {
		deck := generator.NewDeck(n)
		for round := range 3 {
			seen := make([]bool, n)
			for range n {
				card := deck.Top()
				if again := deck.Top(); again != card {
					t.Fatalf("n=%d: looking at the top card changed it from %d to %d", n, card, again)
				}
				if deck.Draw(); card < 0 || card >= int64(n) || seen[card] {
					t.Fatalf("n=%d: card %d comes twice in round %d, or is none", n, card, round)
				}
				seen[card] = true
			}
		}
	}
}

// Every order that a small deck can have is as likely as any other. For a prime number of cards
// those are all orders; otherwise all in which the residues modulo its factors come in rounds too.
func TestEveryOrderOfTheDeckIsEquallyLikely(t *testing.T) {
	for _, test := range []struct{ cards, orders int }{
		{2, 2}, {3, 6}, {5, 120},
		{4, 2 * 2 * 2 * 2},      // two rounds of odd and even, two decks of two
		{6, 2 * 2 * 2 * 6 * 6},  // three rounds of odd and even, two decks of three
		{8, 1 << (4 + 2*2 + 4)}, // four rounds, two decks of two rounds, four of one
		{7, 7 * 6 * 5 * 4 * 3 * 2},
	} {
		if raceEnabled && test.orders > 300 {
			continue
		}
		deck, seen := generator.NewDeck(test.cards), map[string]int{}
		for range test.orders * 200 {
			order := make([]byte, test.cards)
			for i := range order {
				order[i] = byte(deck.Draw())
			}
			seen[string(order)]++
		}
		if len(seen) != test.orders {
			t.Errorf("%d cards come in %d orders, want %d", test.cards, len(seen), test.orders)
		}
		wantFair(t, "orders of a deck", slices.Collect(maps.Values(seen)))
	}
}

// At every place of a round every card is as likely as any other, whatever the number of cards.
func TestEveryCardIsEquallyLikelyAtEveryPlace(t *testing.T) {
	for _, n := range []int{2, 3, 4, 10, 12, 16, 30} {
		deck, places := generator.NewDeck(n), make([][]int, n)
		for i := range places {
			places[i] = make([]int, n)
		}
		for range n * 500 {
			for i := range places {
				places[i][deck.Draw()]++
			}
		}
		for i, cards := range places {
			wantFair(t, fmt.Sprintf("cards of a deck of %d at place %d", n, i), cards)
		}
	}
}

// A round tells nothing about the next one: pairs of their orders are equally likely, and so are the
// last card of one and the first of the next.
func TestRoundsOfTheDeckAreIndependent(t *testing.T) {
	const n = 3
	deck := generator.NewDeck(n)
	order := map[[n]int64]int{{0, 1, 2}: 0, {0, 2, 1}: 1, {1, 0, 2}: 2, {1, 2, 0}: 3, {2, 0, 1}: 4, {2, 1, 0}: 5}
	orders, cards := make([]int, 6*6), make([]int, n*n)
	draw := func() [n]int64 { return [n]int64{deck.Draw(), deck.Draw(), deck.Draw()} }
	for range 36 * 1000 {
		before, after := draw(), draw()
		orders[order[before]*6+order[after]]++
		cards[before[n-1]*n+after[0]]++
	}
	wantFair(t, "orders of two rounds", orders)
	wantFair(t, "last card and first card", cards)
}

func TestTwoDecksAreShuffledDifferently(t *testing.T) {
	a, b := generator.NewDeck(1024), generator.NewDeck(1024)
	for range 1024 {
		if a.Draw() != b.Draw() {
			return
		}
	}
	t.Error("two decks of 1024 cards have the same order")
}
