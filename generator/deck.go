package generator

import "math/rand/v2"

// deck is an endless series of the numbers 0..n-1 in which every run of n that begins at a
// multiple of n holds each number exactly once, in an order that nothing outside can resonate
// with. So after any number of cards the counts of any two numbers differ by at most 1.
//
// It is a tree of small shuffled decks, one level for every prime factor of n, small ones first:
// the first level deals the number modulo its factor, and each of its cards leads to a deck of
// its own on the next level. So what holds for n holds for the products of its first factors as
// well, which for a power of two is every divisor. Each small deck is shuffled as it is dealt, one
// exchange a card (Fisher and Yates, in Durstenfeld's form). Not safe for concurrent use.
//
// Why shuffled decks and not a counter or random numbers: a counter puts two tables that draw in
// turn on even and odd shards; random numbers are even only in the long run.
type deck struct {
	levels []level
	card   int64 // on top
}

// level has one small deck for each number that the levels above can make.
type level struct {
	fan   int
	cards []uint16 // the decks, one after the other, fan cards each
	dealt []uint16 // how many cards of each are dealt
}

func newDeck(n int) *deck {
	d := &deck{}
	for factor, decks := 2, 1; n > 1; {
		if n%factor != 0 {
			factor++
			continue
		}
		l := level{fan: factor, cards: make([]uint16, decks*factor), dealt: make([]uint16, decks)}
		for i := range l.cards {
			l.cards[i] = uint16(i % factor)
		}
		d.levels = append(d.levels, l)
		n /= factor
		decks *= factor
	}
	d.deal()
	return d
}

// top returns the card on top without dealing it.
func (d *deck) top() int64 { return d.card }

// deal takes the top card away.
func (d *deck) deal() {
	number, weight := 0, 1
	coins := rand.Uint64()
	for i := range d.levels {
		l := &d.levels[i]
		number += weight * l.draw(number, &coins)
		weight *= l.fan
	}
	d.card = int64(number)
}

// draw deals a card from one of the level's decks. The coins are random bits, of which a deck of
// two takes one.
func (l *level) draw(deck int, coins *uint64) int {
	cards := l.cards[deck*l.fan : (deck+1)*l.fan]
	at := int(l.dealt[deck])
	pick := at
	switch left := l.fan - at; left {
	case 1:
	case 2:
		pick += int(*coins & 1)
		*coins >>= 1
	default:
		pick += rand.IntN(left)
	}
	cards[at], cards[pick] = cards[pick], cards[at]
	l.dealt[deck] = uint16((at + 1) % l.fan)
	return int(cards[at])
}
