package census

import (
	"math/rand/v2"
	"testing"
)

// The bits of random keys are compared with a map of these keys.
func TestASetTellsEachKeyAndHowManyLieInARange(t *testing.T) {
	t.Parallel()
	for range 5000 {
		keys := map[int64]bool{}
		set := &keySet{span: span{min: rand.Int64N(400) - 200, zero: rand.IntN(2) == 0}}
		set.max = set.min + rand.Int64N(300)
		if rand.IntN(4) > 0 {
			set.bits = make([]uint64, (set.max-set.min+1)/64+1)
		}
		for x := set.min; x <= set.max; x++ {
			if n := x - set.min; x != 0 && (set.bits == nil || rand.IntN(3) > 0) {
				if keys[x] = true; set.bits != nil {
					set.bits[n/64] |= 1 << (n % 64)
				}
			}
		}
		if set.bits == nil && set.holds(0) { // 0 is no value, so such numbers have a gap
			continue
		}
		if keys[0] = set.zero; set.zero && set.holds(0) {
			set.bits[-set.min/64] |= 1 << (-set.min % 64)
		}
		least, greatest, want := rand.Int64N(1000)-500, rand.Int64N(1000)-500, int64(0)
		for x := int64(-600); x < 600; x++ {
			if set.has(x) != keys[x] {
				t.Fatalf("%d: the set of %d to %d says %t", x, set.min, set.max, set.has(x))
			}
			if keys[x] && least <= x && x <= greatest {
				want++
			}
		}
		if got := set.within(span{min: least, max: greatest}); got != want {
			t.Fatalf("%d keys of %d to %d lie between %d and %d, want %d", got, set.min, set.max, least, greatest, want)
		}
	}
}
