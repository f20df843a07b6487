package generator

import "math/rand/v2"

// deck is an endless series of the numbers 0..n-1 in which every run of n cards that begins at a
// multiple of n holds each number exactly once, in an order that nothing outside can resonate
// with. It is shuffled as it is dealt, one exchange a card (Fisher and Yates, in Durstenfeld's
// form), so that no single draw pays for a whole shuffle. Not safe for concurrent use.
//
// Why a shuffled deck and not a counter or a random number: a counter puts two tables that draw
// in turn on even and odd shards; random numbers are even only in the long run.
type deck struct {
	cards []uint16
	at    int // the top card; those before it are dealt
}

func newDeck(n int) *deck {
	d := &deck{cards: make([]uint16, n)}
	for i := range d.cards {
		d.cards[i] = uint16(i)
	}
	d.turn()
	return d
}

// top returns the card on top without dealing it.
func (d *deck) top() int64 { return int64(d.cards[d.at]) }

// deal takes the top card away.
func (d *deck) deal() {
	d.at++
	if d.at == len(d.cards) {
		d.at = 0
	}
	d.turn()
}

// turn makes a random one of the cards not dealt yet the top card.
func (d *deck) turn() {
	i := d.at + rand.IntN(len(d.cards)-d.at)
	d.cards[d.at], d.cards[i] = d.cards[i], d.cards[d.at]
}
