package generator

import "math/rand/v2"

// deck is an endless series of the numbers 0..n-1. Every run of n cards that begins at a multiple
// of n holds each number exactly once, in a random order, so no pattern of requests can resonate
// with it. After any number of cards, the counts of two numbers therefore differ by at most 1.
//
// The deck is a tree of small shuffled decks with one level for every prime factor of n, smallest
// factor first. The first level deals the number modulo its factor, and each of its cards leads to
// a separate deck on the next level. The guarantee for n therefore also holds for every product of
// the first factors. For a power of two, these products are all of its divisors. Each small deck is
// shuffled while it is dealt, with one exchange for each card (Fisher and Yates, in Durstenfeld's
// form). A deck is not safe for concurrent use.
//
// A counter or random numbers would not do. With a counter, two tables that draw in turn would get
// the even and the odd shards. Random numbers are even only in the long run.
type deck struct {
	levels []level
	card   int64 // the top card
}

// level has one small deck for each number that the levels above can produce.
type level struct {
	fan   int
	cards []uint16 // all decks in sequence, with fan cards each
	dealt []uint16 // how many cards of each deck have been dealt
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

// deal removes the top card.
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

// draw deals a card from one of the level's decks. The coins are random bits. A deck of two cards
// uses one of them.
func (l *level) draw(deck int, coins *uint64) int {
	cards := l.cards[deck*l.fan : (deck+1)*l.fan]
	next := int(l.dealt[deck])
	pick := next
	switch left := l.fan - next; left {
	case 1:
	case 2:
		pick += int(*coins & 1)
		*coins >>= 1
	default:
		pick += rand.IntN(left)
	}
	cards[next], cards[pick] = cards[pick], cards[next]
	l.dealt[deck] = uint16((next + 1) % l.fan)
	return int(cards[next])
}
