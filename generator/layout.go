package generator

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// maxBits is the number of bits of a non-negative int64.
const maxBits = 63

// Within these bounds all arithmetic of this package is exact.
const (
	// minTick is a microsecond, because the clocks of common systems cannot tell shorter ticks
	// apart.
	minTick = time.Microsecond
	// minEpochYear and maxEpochYear keep instants near the epoch within int64 nanoseconds.
	minEpochYear, maxEpochYear = 1970, 2200
	// maxEndYear is the last year that RFC 3339, and therefore JSON, can represent.
	maxEndYear = 9999
	// hoursPerYear is the length of a Julian year of 365.25 days, the unit of all lifetimes here.
	hoursPerYear = 8766
)

// Field is one named part of the node number, such as a datacenter or a game server.
type Field struct {
	// Name describes what the number counts. It must not be empty and must be unique within a
	// layout.
	Name string
	// Bits is the width of the field, at least 1.
	Bits int
}

// Layout defines how an ID is packed into at most 63 bits: from high to low, the time, the node
// fields and the sequence. The zero Layout is not valid. Start from a preset, or set every field
// and call [Layout.Validate].
//
// A Layout is a value. Its methods do not change it and are safe for concurrent use.
type Layout struct {
	// Name appears in errors and diagrams. It may be empty.
	Name string
	// Epoch is the instant at which tick 0 begins, between the years 1970 and 2200. Its time zone
	// does not matter. If you change the epoch of a table that already has IDs, IDs are repeated or
	// out of order.
	Epoch time.Time
	// Tick is the length of one unit of the time part, at least one microsecond.
	Tick time.Duration
	// TimeBits is the width of the time part, at least 1. It determines when the layout ends.
	TimeBits int
	// Node lists the fields that together form the node number, high to low. Without fields there
	// is exactly one node, with number 0.
	Node []Field
	// SequenceBits is the width of the sequence, at least 1. A tick has 2^SequenceBits IDs.
	SequenceBits int
}

// epoch2025 is the epoch of the layouts that this project defines.
func epoch2025() time.Time { return time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Default returns the layout for services. It has 1,024 nodes and 4,096 IDs per millisecond and
// node, and lasts 69.7 years from 2025.
func Default() Layout {
	return Layout{
		Name: "default", Epoch: epoch2025(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"node", 10}}, SequenceBits: 12,
	}
}

// Twitter returns the layout of Twitter's Snowflake. Use it to read and issue IDs that are
// compatible with those of Twitter and of the many systems that copied it. It has 41 bits of
// milliseconds since 2010-11-04T01:42:54.657Z, 5 bits of datacenter, 5 bits of worker and 12 bits
// of sequence, and lasts 69.7 years. Its source is IdWorker.scala in
// github.com/twitter-archive/snowflake, where twepoch is 1288834974657.
func Twitter() Layout {
	return Layout{
		Name: "twitter", Epoch: time.UnixMilli(1288834974657).UTC(), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"datacenter", 5}, {"worker", 5}}, SequenceBits: 12,
	}
}

// ShardingSphere returns the layout of Apache ShardingSphere's SNOWFLAKE algorithm. It has 41 bits
// of milliseconds since 2016-11-01 (UTC), 10 bits of worker and 12 bits of sequence, and lasts 69.7
// years. Releases before ShardingSphere's change #38932 computed their epoch in the server's time
// zone. For IDs of such a server, set Epoch to midnight in that time zone.
func ShardingSphere() Layout {
	return Layout{
		Name:  "shardingsphere",
		Epoch: time.Date(2016, time.November, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond,
		TimeBits: 41, Node: []Field{{"worker", 10}}, SequenceBits: 12,
	}
}

// Business returns a layout that names the kind of row in the ID. It has 16 businesses, 4 data
// centers (idc) with 128 machines each, and 128 IDs per millisecond, and lasts 17.4 years from
// 2016.
func Business() Layout {
	return Layout{
		Name:  "business",
		Epoch: time.Date(2016, time.January, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond,
		TimeBits: 39, Node: []Field{{"business", 4}, {"idc", 2}, {"machine", 7}}, SequenceBits: 7,
	}
}

// JavaScript returns a layout of 53 bits, whose IDs are exact as JavaScript numbers. It has 256
// nodes and 256 IDs per hundredth of a second (25,600 per second), and lasts 43.6 years from 2025. Its
// tick is 10 ms, so IDs may be up to 100 ms ahead of the clock, and the IDs that two processes make
// within one tick are ordered by the numbers of their nodes.
func JavaScript() Layout {
	return Layout{
		Name: "javascript", Epoch: epoch2025(), Tick: 10 * time.Millisecond,
		TimeBits: 37, Node: []Field{{"node", 8}}, SequenceBits: 8,
	}
}

// Game returns the layout for one database per game server, if the databases may be merged later.
// It has 1,048,576 servers and 1,024 IDs per tenth of a second (10,240 per second), and lasts 27.2
// years from 2025. The 20 server bits leave 43 bits for time and sequence, so rate times life is
// 8.8e12 IDs per server, whatever the tick is. The longer tick allows larger bursts and more
// shards.
func Game() Layout {
	return Layout{
		Name: "game", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 33, Node: []Field{{"server", 20}}, SequenceBits: 10,
	}
}

// GameLong is [Game] for long-lived titles, with 512 IDs per tenth of a second for 54.4 years.
func GameLong() Layout {
	return Layout{
		Name: "gamelong", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 34, Node: []Field{{"server", 20}}, SequenceBits: 9,
	}
}

// GameSecond is [Game] for turn-based games, with 4,096 IDs per second for 68.0 years. Its tick is
// a whole second, so the first ID after a start may take up to a second.
func GameSecond() Layout {
	return Layout{
		Name: "gamesecond", Epoch: epoch2025(), Tick: time.Second,
		TimeBits: 31, Node: []Field{{"server", 20}}, SequenceBits: 12,
	}
}

// Game16 is [Game] with 65,536 servers, which is enough for nearly every studio. It has 4,096 IDs
// per tenth of a second for 108.9 years.
func Game16() Layout {
	return Layout{
		Name: "game16", Epoch: epoch2025(), Tick: 100 * time.Millisecond,
		TimeBits: 35, Node: []Field{{"server", 16}}, SequenceBits: 12,
	}
}

// Game16Fast is [Game16] for busy logs, with 1,024 IDs per hundredth of a second for 43.6 years.
func Game16Fast() Layout {
	return Layout{
		Name: "game16fast", Epoch: epoch2025(), Tick: 10 * time.Millisecond,
		TimeBits: 37, Node: []Field{{"server", 16}}, SequenceBits: 10,
	}
}

// Validate reports all faults of the layout at once. The error is a [*LayoutError] that wraps
// [ErrInvalidLayout] and names the field of every fault. For a valid layout Validate returns nil.
func (l Layout) Validate() error {
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	year := l.Epoch.UTC().Year()
	epochOK := minEpochYear <= year && year <= maxEpochYear
	switch {
	case l.Epoch.IsZero():
		fault("Epoch is not set")
	case !epochOK:
		fault("Epoch %s is outside the years %d to %d",
			l.Epoch.UTC().Format(time.RFC3339), minEpochYear, maxEpochYear)
	}

	tickOK := l.Tick >= minTick
	if !tickOK {
		fault("Tick %v is shorter than %v", l.Tick, minTick)
	}

	widthsOK := true
	if l.TimeBits < 1 || l.TimeBits > maxBits {
		widthsOK = false
		fault("TimeBits %d is not between 1 and %d", l.TimeBits, maxBits)
	}
	if l.SequenceBits < 1 || l.SequenceBits > maxBits {
		widthsOK = false
		fault("SequenceBits %d is not between 1 and %d", l.SequenceBits, maxBits)
	}
	for i, f := range l.Node {
		if f.Name == "" {
			fault("Node[%d] has no Name", i)
		}
		named := slices.IndexFunc(l.Node[:i], func(o Field) bool { return o.Name == f.Name })
		if named >= 0 && f.Name != "" {
			fault("Node[%d] has the Name %q of Node[%d]", i, f.Name, named)
		}
		if f.Bits < 1 || f.Bits > maxBits {
			widthsOK = false
			fault("Node[%d] (%s) has %d Bits, not between 1 and %d", i, f.Name, f.Bits, maxBits)
		}
	}

	if widthsOK {
		l.validateSums(fault, epochOK, tickOK)
	}
	if len(faults) == 0 {
		return nil
	}
	return &LayoutError{Layout: l.label(), Faults: faults}
}

// validateSums checks what depends on several fields, after each field is valid by itself.
func (l Layout) validateSums(fault func(string, ...any), epochOK, tickOK bool) {
	if bits := l.bits(); bits > maxBits {
		life := ""
		if tickOK {
			life = fmt.Sprintf("; %d bits of %v last %s years", l.TimeBits, l.Tick, l.years())
		}
		fault("TimeBits %d + Node %d + SequenceBits %d = %d bits, %d more than the %d of an ID%s",
			l.TimeBits, l.NodeBits(), l.SequenceBits, bits, bits-maxBits, maxBits, life)
	}
	if !epochOK || !tickOK {
		return
	}
	if end, ok := l.end(); !ok || end.Year() > maxEndYear {
		fault("TimeBits %d of %v last %s years, beyond the year %d: use fewer bits or a shorter Tick",
			l.TimeBits, l.Tick, l.years(), maxEndYear)
	}
}

// years returns the life of the time bits in Julian years for messages.
func (l Layout) years() string {
	life := float64(l.maxTick()) * l.Tick.Hours() / hoursPerYear
	return strings.TrimSuffix(fmt.Sprintf("%.2f", life), ".00")
}

// NodeBits returns the width of the node number, the sum over all node fields.
func (l Layout) NodeBits() int {
	bits := 0
	for _, f := range l.Node {
		bits += f.Bits
	}
	return bits
}

// MaxNode returns the largest node number. It is 0 if the layout has no node fields.
func (l Layout) MaxNode() int64 { return maxOf(l.NodeBits()) }

// MaxSequence returns the largest sequence number of a tick.
func (l Layout) MaxSequence() int64 { return maxOf(l.SequenceBits) }

// End returns the first instant, in UTC, that no longer fits into the time bits. For an invalid
// layout it returns the zero time.
func (l Layout) End() time.Time {
	if l.Validate() != nil {
		return time.Time{}
	}
	end, _ := l.end()
	return end
}

// PackNode joins one value for every node field, high to low, into a node number. It returns an
// error that wraps [ErrNodeRange] if the number of values differs from the number of fields or a
// value does not fit its field, and an error that wraps [ErrInvalidLayout] for an invalid layout.
func (l Layout) PackNode(values ...int64) (int64, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	if len(values) != len(l.Node) {
		return 0, fmt.Errorf("%w: layout %s has %d node fields, but %d values were given",
			ErrNodeRange, l.label(), len(l.Node), len(values))
	}
	var node int64
	for i, f := range l.Node {
		if values[i] < 0 || values[i] > maxOf(f.Bits) {
			return 0, fmt.Errorf("%w: %s %d does not fit its %d bits, 0 to %d",
				ErrNodeRange, f.Name, values[i], f.Bits, maxOf(f.Bits))
		}
		node = node<<f.Bits | values[i]
	}
	return node, nil
}

// UnpackNode splits a node number into one value for every node field, high to low. Bits
// above [Layout.NodeBits] are ignored.
func (l Layout) UnpackNode(node int64) []int64 {
	values := make([]int64, len(l.Node))
	for i, f := range slices.Backward(l.Node) {
		values[i] = node & maxOf(f.Bits)
		node >>= clampBits(f.Bits)
	}
	return values
}

// Parts are the parts of an ID.
type Parts struct {
	// Time is the beginning of the ID's tick, in UTC.
	Time time.Time
	// Node is the node number; [Layout.UnpackNode] splits it into its fields.
	Node int64
	// Sequence is the number of the ID within its tick and node.
	Sequence int64
}

// Compose packs parts into an ID. If Time is inside a tick, the beginning of that tick is used.
// Compose returns an error that wraps [ErrBeforeEpoch] or [ErrTimeExhausted] for a time that the
// layout cannot represent, [ErrNodeRange] or [ErrSequenceRange] for a number that does not fit its
// bits, and [ErrInvalidLayout] for an invalid layout.
func (l Layout) Compose(p Parts) (int64, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	tick, _, err := l.tickOf(p.Time)
	if err != nil {
		return 0, err
	}
	if err := l.checkNode(p.Node); err != nil {
		return 0, err
	}
	if p.Sequence < 0 || p.Sequence > l.MaxSequence() {
		return 0, fmt.Errorf("%w: sequence %d is not between 0 and %d, the %d sequence bits of layout %s",
			ErrSequenceRange, p.Sequence, l.MaxSequence(), l.SequenceBits, l.label())
	}
	return tick<<l.timeShift() | p.Node<<l.SequenceBits | p.Sequence, nil
}

// Decompose splits an ID into its parts. It returns an error that wraps [ErrInvalidID] if the ID is
// negative or wider than the layout, and [ErrInvalidLayout] for an invalid layout. It accepts every
// other int64, because an ID does not record which layout made it.
func (l Layout) Decompose(id int64) (Parts, error) {
	if err := l.Validate(); err != nil {
		return Parts{}, err
	}
	if id < 0 || id > maxOf(l.bits()) {
		return Parts{}, fmt.Errorf("%w: %d is not between 0 and %d, the %d bits of layout %s",
			ErrInvalidID, id, maxOf(l.bits()), l.bits(), l.label())
	}
	instant, _ := l.timeOf(uint64(id >> l.timeShift()))
	return Parts{
		Time:     instant,
		Node:     id >> l.SequenceBits & l.MaxNode(),
		Sequence: id & l.MaxSequence(),
	}, nil
}

// Range returns the IDs of a time range as a half-open range [lo, hi). It holds every ID of this
// layout whose time, as returned by [Layout.Decompose], is at or after the earliest time and before
// the limit. A time before the epoch counts as the epoch, and a time after the end counts as the end,
// because no ID has such a time. A query for "the rows of yesterday" therefore needs no time
// column:
//
//	lo, hi, err := layout.Range(midnight.AddDate(0, 0, -1), midnight)
//	db.Where("id >= ? AND id < ?", lo, hi)
//
// The time of an ID can be ahead of the wall clock by up to MaxAhead ([WithMaxAhead]). A query for
// "the rows of the last minute" should therefore have no upper bound.
//
// In a layout of 63 bits, the range of the last tick would end at 2^63, which is one more than the
// largest int64. In this case hi is the largest int64, and the ID with that value is not in the
// range.
//
// Range returns an error if limit is before earliest, and an error that wraps [ErrInvalidLayout] for an
// invalid layout.
func (l Layout) Range(earliest, limit time.Time) (lo, hi int64, err error) {
	if err := l.Validate(); err != nil {
		return 0, 0, err
	}
	// Compare by the wall clock, even if both have monotonic readings.
	earliest, limit = earliest.Round(0), limit.Round(0)
	if limit.Before(earliest) {
		return 0, 0, fmt.Errorf("generator: range from %s to %s ends before it begins",
			stamp(earliest), stamp(limit))
	}
	return l.firstID(earliest), l.firstID(limit), nil
}

// firstID returns the smallest ID whose time is not before t.
func (l Layout) firstID(t time.Time) int64 {
	if !t.After(l.Epoch) {
		return 0
	}
	tick, exact, err := l.tickOf(t)
	if err != nil {
		tick, exact = l.maxTick(), false // at or after the end: the tick after the last one
	}
	next := uint64(tick)
	if !exact {
		next++
	}
	return int64(min(next<<l.timeShift(), math.MaxInt64))
}

// checkNode returns an error for a node number that does not fit the node bits.
func (l Layout) checkNode(node int64) error {
	if node < 0 || node > l.MaxNode() {
		return fmt.Errorf("%w: node %d is not between 0 and %d, the %d node bits of layout %s",
			ErrNodeRange, node, l.MaxNode(), l.NodeBits(), l.label())
	}
	return nil
}

// Diagram draws the bits of an ID for people. Each part has one line with its highest bit, its bits
// and its value. For an ID that the layout cannot represent, Diagram returns the reason. The text
// is not meant to be parsed and may change between versions.
func (l Layout) Diagram(id int64) string {
	parts, err := l.Decompose(id)
	if err != nil {
		return err.Error() + "\n"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d  layout %s, %d bits\n", id, l.label(), l.bits())

	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "bit\tpart\tbits\tvalue\n")
	high := l.bits()
	row := func(name string, width int, value int64, note string) {
		fmt.Fprintf(table, "%d\t%s\t%0*b\t%d%s\n", high-1, name, width, value, value, note)
		high -= width
	}
	row("time", l.TimeBits, id>>l.timeShift(), "  "+stamp(parts.Time))
	for i, value := range l.UnpackNode(parts.Node) {
		row(l.Node[i].Name, l.Node[i].Bits, value, "")
	}
	row("sequence", l.SequenceBits, parts.Sequence, "")
	_ = table.Flush() // a strings.Builder cannot fail
	return text.String()
}

// bits returns the width of the whole ID.
func (l Layout) bits() int { return l.TimeBits + l.NodeBits() + l.SequenceBits }

func (l Layout) timeShift() int { return l.NodeBits() + l.SequenceBits }

func (l Layout) maxTick() int64 { return maxOf(l.TimeBits) }

// label returns the name for messages.
func (l Layout) label() string {
	if l.Name == "" {
		return "(unnamed)"
	}
	return l.Name
}

// clone returns a copy that does not share the caller's node slice.
func (l Layout) clone() Layout {
	l.Node = slices.Clone(l.Node)
	return l
}

// maxOf returns the largest number with that many bits. It clamps invalid widths, so the accessors
// of a layout that was never validated still return.
func maxOf(bits int) int64 {
	return int64(uint64(1)<<clampBits(bits) - 1)
}

func clampBits(bits int) int { return min(max(bits, 0), maxBits) }

// The conversions between instants and ticks count nanoseconds in 128 bits, because a time.Duration
// ends after 292 years and a layout may last longer.

const nanosPerSecond = uint64(time.Second)

// tickOf returns the tick that contains t, and whether t is exactly its beginning. The caller
// guarantees a valid layout. Before the epoch and from [Layout.End] on, tickOf returns an error.
func (l Layout) tickOf(t time.Time) (tick int64, exact bool, err error) {
	// Round removes a monotonic reading, which would otherwise be used for the comparison.
	if t.Round(0).Before(l.Epoch) {
		return 0, false, fmt.Errorf("%w: %s is before %s, the epoch of layout %s", ErrBeforeEpoch,
			stamp(t), stamp(l.Epoch), l.label())
	}
	// Unsigned subtraction is exact even if the signed difference would overflow.
	seconds := uint64(t.Unix()) - uint64(l.Epoch.Unix())
	nanos := t.Nanosecond() - l.Epoch.Nanosecond()
	if nanos < 0 {
		seconds--
		nanos += int(nanosPerSecond)
	}
	hi, lo := bits.Mul64(seconds, nanosPerSecond)
	lo, carry := bits.Add64(lo, uint64(nanos), 0)
	hi += carry
	if hi < uint64(l.Tick) {
		quotient, rest := bits.Div64(hi, lo, uint64(l.Tick))
		if quotient <= uint64(l.maxTick()) {
			return int64(quotient), rest == 0, nil
		}
	}
	return 0, false, l.exhausted(t)
}

// timeOf returns the instant, in UTC, at which tick begins. It returns false if the instant is too
// far away for a time.Time.
func (l Layout) timeOf(tick uint64) (t time.Time, ok bool) {
	hi, lo := bits.Mul64(tick, uint64(l.Tick))
	if hi >= nanosPerSecond {
		return time.Time{}, false
	}
	seconds, nanos := bits.Div64(hi, lo, nanosPerSecond)
	const farthest = 1 << 50 // in seconds; 35 million years, far beyond maxEndYear
	if seconds > farthest {
		return time.Time{}, false
	}
	return time.Unix(l.Epoch.Unix()+int64(seconds), int64(l.Epoch.Nanosecond())+int64(nanos)).UTC(), true
}

// end is [Layout.End] without the validation.
func (l Layout) end() (time.Time, bool) { return l.timeOf(uint64(1) << clampBits(l.TimeBits)) }

// exhausted returns the error for an instant after the end of the time bits.
func (l Layout) exhausted(t time.Time) error {
	return fmt.Errorf("%w: %s is not before %s, when the %d time bits of layout %s run out: "+
		"new rows need a layout with more time bits or a longer tick", ErrTimeExhausted,
		stamp(t), stamp(l.End()), l.TimeBits, l.label())
}
