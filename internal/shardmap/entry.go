package shardmap

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Class is a part of all IDs: those whose sequence has a residue by a modulus.
type Class struct {
	Residue int `json:"shard"`
	Modulus int `json:"modulus"`
}

// String names it in errors.
func (c Class) String() string { return fmt.Sprintf("%d of %d", c.Residue, c.Modulus) }

// meets reports whether two classes have an ID in common.
func (c Class) meets(other Class) bool {
	return (c.Residue-other.Residue)%greatestDivisor(c.Modulus, other.Modulus) == 0
}

func greatestDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Entry is one shard of the map: a class, the database that has its tables, and how often the tables have
// been made anew. A table of generation 0 is orders_03, and one of generation 1 orders_03_g1, so no
// generation has the name of another one.
//
// The classes of a map have no ID in common, so no two of them have the same residue, which is the number of
// the shard. The column held of the records lists the entries of a database. In 0-2,5!,3/16.1 the first ones
// are of the record's own number of shards and of generation 0, 5 is closed, and the last one is the class 3
// of 16 in generation 1.
type Entry struct {
	Class
	Generation int `json:"generation"`
	Database   int `json:"database"`
	// Closed is set from before the tables get other names until the entries that replace this one are
	// recorded, on databases that cannot do both in one transaction. Whoever finds no table waits for that.
	Closed bool `json:"closed"`
}

// TableOn returns the name of a table of the entry. The number has at least two digits, and does not depend
// on how many shards there are, so no table is renamed when the shards are doubled. It is asked for with each
// row, so the name is all that it allocates.
func (e Entry) TableOn(base string) string {
	name := append(append(make([]byte, 0, 64), base...), '_')
	if e.Residue < 10 {
		name = append(name, '0')
	}
	name = strconv.AppendInt(name, int64(e.Residue), 10)
	if e.Generation > 0 {
		name = strconv.AppendInt(append(name, "_g"...), int64(e.Generation), 10)
	}
	return string(name)
}

func (e Entry) open() Entry {
	e.Closed = false
	return e
}

func entriesIn(database int, entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Database != database })
}

// formatEntries is the text of the entries in the column held.
func formatEntries(entries []Entry, first int) string {
	isPlain := func(e Entry) bool { return e.Generation == 0 && e.Modulus == first && !e.Closed }
	var parts []string
	for len(entries) > 0 {
		e, n := entries[0], 1
		for n < len(entries) && isPlain(e) && isPlain(entries[n]) && entries[n].Residue == e.Residue+n {
			n++
		}
		text := strconv.Itoa(e.Residue)
		switch {
		case n > 1:
			text += fmt.Sprintf("-%d", e.Residue+n-1)
		case e.Generation > 0 || e.Modulus != first:
			text += fmt.Sprintf("/%d.%d", e.Modulus, e.Generation)
		}
		if e.Closed {
			text += "!"
		}
		parts, entries = append(parts, text), entries[n:]
	}
	return strings.Join(parts, ",")
}

// entryText is an entry, or a run of consecutive ones, in the column held.
var entryText = regexp.MustCompile(`^(\d{1,9})(?:-(\d{1,9})|/(\d{1,9})\.(\d{1,9}))?(!?)$`)

// readEntries is the inverse of formatEntries.
func readEntries(held string, first, database int) (entries []Entry, err error) {
	if held == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(held, ",") {
		found := entryText.FindStringSubmatch(part)
		number := func(i, otherwise int) int {
			if len(found) == 0 || found[i] == "" {
				return otherwise
			}
			n, _ := strconv.Atoi(found[i])
			return n
		}
		e := Entry{Class{number(1, 0), number(3, first)}, number(4, 0), database, strings.HasSuffix(part, "!")}
		last := number(2, e.Residue)
		if found == nil || last >= e.Modulus {
			return nil, fmt.Errorf("the entry %q is none that this version of the module can read", part)
		}
		for ; e.Residue <= last; e.Residue++ {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Residue, b.Residue), cmp.Compare(a.Modulus, b.Modulus),
			cmp.Compare(a.Generation, b.Generation))
	})
}

// commonModulus is the least number that all moduli divide.
func commonModulus(entries []Entry) int {
	common := 1
	for _, e := range entries {
		common *= e.Modulus / greatestDivisor(common, e.Modulus)
	}
	return common
}

// valid returns the entries that are in use, of those that all databases have recorded. Two databases change
// their records one after the other. So an entry gives way to those of later generations as soon as these
// have its whole class, and until then they are not in use. whole is false if an ID is of no entry.
func valid(all []Entry) (entries []Entry, whole bool) {
	common := commonModulus(all)
	latest := slices.Clone(all)
	slices.SortStableFunc(latest, func(a, b Entry) int { return cmp.Compare(b.Generation, a.Generation) })
	for _, e := range latest {
		replaced := 0 // residues of the common modulus
		for _, other := range entries {
			if other.meets(e.Class) {
				replaced += common / commonModulus([]Entry{e, other})
			}
		}
		if replaced < common/e.Modulus {
			entries = append(slices.DeleteFunc(entries, func(other Entry) bool { return other.meets(e.Class) }), e)
		}
	}
	covered := 0
	for _, e := range entries {
		covered += common / e.Modulus
	}
	sortEntries(entries)
	return entries, covered == common
}
