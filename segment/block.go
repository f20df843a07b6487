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

// reserve takes up to n numbers. They begin at index. It also tells whether they are the ones that
// should trigger the next claim.
func (b *block) reserve(n int64) (index, got int64, refill bool) {
	end := b.taken.Add(n)
	index = end - n
	got = min(n, max(b.count-index, 0))
	return index, got, index < b.refill && b.refill <= index+got
}

// fill sets the first elements of ids to numbers of the block, as many as there are.
func (b *block) fill(ids []int64) (got int, refill bool) {
	index, n, refill := b.reserve(int64(len(ids)))
	number, step := b.first+index*b.step, b.step
	for i := range ids[:n] {
		ids[i] = number
		number += step
	}
	return int(n), refill
}

func (b *block) used() int64 { return min(b.taken.Load(), b.count) }

// left is how many numbers can still be given out.
func (b *block) left() int64 { return b.count - b.used() }

// last is the greatest number of the block. The block must not be empty.
func (b *block) last() int64 { return b.first + (b.count-1)*b.step }
