package segment

import "sync/atomic"

// A block is a run of claimed numbers: first, first + step, and so on. One atomic addition reserves some
// of them.
type block struct {
	first, step, count int64
	// refill is how many numbers are taken when the next block should be claimed. It is 0 if none should.
	refill int64

	_ [cacheLine]byte // the fields above are only read, and taken is written by every core
	// taken counts the numbers that were asked for. It goes on beyond count.
	taken atomic.Int64
	_     [cacheLine]byte
}

const cacheLine = 64

// fill sets the first elements of ids to numbers of the block, as many as there are. It also tells whether
// they are the ones that should trigger the next claim.
func (b *block) fill(ids []int64) (got int, refill bool) {
	n := int64(len(ids))
	index := b.taken.Add(n) - n
	n = min(n, max(b.count-index, 0))
	number, step := b.first+index*b.step, b.step
	for i := range ids[:n] {
		ids[i] = number
		number += step
	}
	return int(n), index < b.refill && b.refill <= index+n
}

func (b *block) used() int64 { return min(b.taken.Load(), b.count) }

// left is how many numbers can still be given out.
func (b *block) left() int64 { return b.count - b.used() }

// last is the greatest number of the block. The block must not be empty.
func (b *block) last() int64 { return b.first + (b.count-1)*b.step }
