package snowflakeplugin_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin"
)

func TestBase62IsElevenCharactersAndReadsBack(t *testing.T) {
	for id, want := range map[snowflakeplugin.ID]string{
		0:                   "00000000000",
		9:                   "00000000009",
		10:                  "0000000000A",
		35:                  "0000000000Z",
		36:                  "0000000000a",
		61:                  "0000000000z",
		62:                  "00000000010",
		839299365868340223:  "0zzzzzzzzzz", // 62^10 - 1
		839299365868340224:  "10000000000",
		1541815603606036480: "1ptWyK4WgZU",
		maxID:               "AzL8n0Y58m7",
	} {
		if got := id.Base62(); got != want {
			t.Errorf("Base62 of %d = %q, want %q", id, got, want)
		}
		if got, err := snowflakeplugin.ParseBase62(want); err != nil || got != id {
			t.Errorf("ParseBase62(%q) = %d, %v; want %d", want, got, err, id)
		}
	}
}

func TestBase62SortsAsTheIDsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		// Numbers of every length, and close pairs: a plain random int64 is nearly always long.
		a := snowflakeplugin.ID(r.Int64() >> r.IntN(63))
		b := snowflakeplugin.ID(r.Int64() >> r.IntN(63))
		if r.IntN(4) == 0 && a < maxID {
			b = a + 1
		}
		if (a < b) != (a.Base62() < b.Base62()) {
			t.Fatalf("%d and %d sort differently as %q and %q", a, b, a.Base62(), b.Base62())
		}
	}
}

func TestParseBase62RefusesEverySecondSpelling(t *testing.T) {
	for _, bad := range []struct{ text, why string }{
		{"", "0 bytes long"},
		{"1", "1 bytes long"},
		{"0000000001", "10 bytes long"},
		{"000000000001", "12 bytes long"},
		{strings.Repeat("z", 1<<16), "65536 bytes long"},
		{"0000000000-", `"-" at offset 10`},
		{"-0000000001", `"-" at offset 0`},
		{"+0000000001", `"+" at offset 0`},
		{" 0000000001", `" " at offset 0`},
		{"0000000001_", `"_" at offset 10`},
		{"000000000é", `at offset 9`}, // eleven bytes
		{"AzL8n0Y58m8", "largest id"}, // 2^63
		{"Azzzzzzzzzz", "largest id"},
		{"LygHa16AHYF", "largest id"}, // 2^64 - 1
		{"LygHa16AHYG", "largest id"}, // 2^64: wraps to 0 in a careless sum
		{"LygHa16AHYH", "largest id"}, // wraps to 1
		{"zzzzzzzzzzz", "largest id"},
	} {
		got, err := snowflakeplugin.ParseBase62(bad.text)
		wantInvalid(t, err, bad.why)
		if got != 0 {
			t.Errorf("ParseBase62(%.20q) returned %d beside an error", bad.text, got)
		}
	}
}

func TestBase62OfANegativeNumberReadsBackAsNoID(t *testing.T) {
	for _, n := range []snowflakeplugin.ID{-1, -1234567890, math.MinInt64} {
		short := n.Base62()
		if short != n.String() {
			t.Errorf("Base62 of %d = %q", n, short)
		}
		if _, err := snowflakeplugin.ParseBase62(short); err == nil {
			t.Errorf("ParseBase62 accepts %q", short)
		}
	}
}
