package generator

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Diagram draws the bits of an ID for people, one line a part: its highest bit, its bits, its
// value. An ID that the layout cannot hold is drawn as the reason why not. The text is meant to
// be read, not parsed; it may change between versions.
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
