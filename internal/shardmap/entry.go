package shardmap

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// Class is a part of all IDs: those whose sequence has a residue by a modulus.
type Class struct{ Residue, Modulus int }

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
	Generation, Database int
	// Closed is set from before the tables get other names until the entries that replace this one are
	// recorded, on databases that cannot do both in one transaction. Whoever finds no table waits for that.
	Closed bool
}

// TableOn returns the name of a table of the entry.
func (e Entry) TableOn(base string) string {
	if e.Generation == 0 {
		return TableOn(base, e.Residue)
	}
	return fmt.Sprintf("%s_g%d", TableOn(base, e.Residue), e.Generation)
}

// open returns the entry as it is when it is not closed.
func (e Entry) open() Entry {
	e.Closed = false
	return e
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

// Entries returns the entries of the map, by their residues. The index of an entry is the number of its shard
// inside this module.
func (t *Topology) Entries() []Entry { return slices.Clone(t.entries) }

// EntryOf returns the entry of a class.
func (t *Topology) EntryOf(c Class) (Entry, error) {
	for _, e := range t.entries {
		if e.Class == c {
			return e, nil
		}
	}
	var near []string
	for _, e := range t.entries {
		if c.Modulus > 0 && e.meets(c) {
			near = append(near, e.String())
		}
	}
	return Entry{}, fmt.Errorf("%w: no shard of the map is the class %s; those that share IDs with it are %s",
		errs.ErrSharding, c, strings.Join(near, " and "))
}

// Entry returns the entry of a shard.
func (t *Topology) Entry(shard int) Entry { return t.entries[shard] }

// setEntries makes a topology use entries that are sorted and have all IDs.
func (t *Topology) setEntries(entries []Entry) error {
	t.entries, t.ShardCount, t.Place, t.index = entries, len(entries), nil, nil
	common := commonModulus(entries)
	if common != len(entries) {
		t.index = make([]int32, common)
	}
	for shard, e := range entries {
		t.Place = append(t.Place, e.Database)
		if t.index != nil {
			for residue := e.Residue; residue < common; residue += e.Modulus {
				t.index[residue] = int32(shard) //nolint:gosec // A sequence has far fewer numbers.
			}
		}
		if spread := t.Engine.Generator().Shards(); spread%e.Modulus != 0 {
			return fmt.Errorf("by now the map has shard %s, but %[2]d does not divide %d, over which the plugin "+
				"spreads its IDs: pass WithShards(%[2]d) to snowflakeplugin.New", e.Class, e.Modulus, spread)
		}
	}
	return nil
}

// checkModulus refuses a modulus by which IDs do not spread evenly.
func (t *Topology) checkModulus(modulus int) error {
	switch spread := t.Engine.Generator().Shards(); {
	case (t.Mask+1)%int64(modulus) != 0:
		return fmt.Errorf("%w: the modulus %d does not divide %d, the size of the sequence in layout %s",
			errs.ErrSharding, modulus, t.Mask+1, t.Layout.Name)
	case spread%modulus != 0:
		return fmt.Errorf("%w: the modulus %d does not divide %d, over which the plugin spreads its IDs: pass "+
			"WithShards(%d) to snowflakeplugin.New in every program first", errs.ErrSharding, modulus, spread,
			modulus)
	}
	return nil
}

func (t *Topology) checkDatabase(database int) error {
	if database < 0 || database >= len(t.Databases) {
		return fmt.Errorf("%w: there is no database %d: the router has %d", errs.ErrSharding, database,
			len(t.Databases))
	}
	return nil
}

// Split is the resharding that replaces the entry of a class by those of its parts. The part i lies in the
// i-th of the databases, or where the class lies if none are given.
func (t *Topology) Split(c Class, factor int, databases ...int) (Change, error) {
	e, err := t.EntryOf(c)
	switch {
	case err != nil:
		return Change{}, err
	case factor < 2 || len(databases) != 0 && len(databases) != factor:
		return Change{}, fmt.Errorf("%w: shard %s into %d parts in %d databases: the factor is 2 or more, and "+
			"there is no database or one for each part", errs.ErrSharding, c, factor, len(databases))
	}
	if err := t.checkModulus(c.Modulus * factor); err != nil {
		return Change{}, err
	}
	var parts []Entry
	for i := range factor {
		part := Entry{
			Class{c.Residue + i*c.Modulus, c.Modulus * factor}, e.Generation + 1, e.Database, false,
		}
		if len(databases) > 0 {
			part.Database = databases[i]
		}
		if err := t.checkDatabase(part.Database); err != nil {
			return Change{}, err
		}
		parts = append(parts, part)
	}
	return newChange(t, []Entry{e.open()}, parts), nil
}

// Join is the resharding that replaces the entries which have the IDs of a class together by one.
func (t *Topology) Join(c Class, database int) (Change, error) {
	if err := t.checkDatabase(database); err != nil {
		return Change{}, err
	}
	var parts []Entry
	into := Entry{c, 0, database, false}
	for _, e := range t.entries {
		if c.Modulus < 1 || !e.meets(c) {
			continue
		}
		if e.Modulus <= c.Modulus || e.Modulus%c.Modulus != 0 || len(parts) > 0 && e.Modulus != parts[0].Modulus {
			parts = nil
			break
		}
		parts, into.Generation = append(parts, e.open()), max(into.Generation, e.Generation+1)
	}
	if len(parts) == 0 {
		return Change{}, fmt.Errorf("%w: the class %s is not one that shards of one modulus have together",
			errs.ErrSharding, c)
	}
	return newChange(t, parts, []Entry{into}), nil
}

// Move is the resharding that replaces the entry of a class by one in another database.
func (t *Topology) Move(c Class, database int) (Change, error) {
	e, err := t.EntryOf(c)
	if err == nil {
		err = t.checkDatabase(database)
	}
	if err == nil && e.Database == database {
		err = fmt.Errorf("%w: shard %s is in database %d already", errs.ErrSharding, c, database)
	}
	if err != nil {
		return Change{}, err
	}
	return newChange(t, []Entry{e.open()}, []Entry{{c, e.Generation + 1, database, false}}), nil
}
