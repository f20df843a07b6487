package generator

import (
	"fmt"
	"strings"
	"time"
)

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

// Validate reports all faults of the layout at once. The error is a [*LayoutError] that wraps
// [ErrInvalidLayout] and names the field of every fault. For a valid layout Validate returns nil.
func (l Layout) Validate() error {
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	epochOK := true
	switch year := l.Epoch.UTC().Year(); {
	case l.Epoch.IsZero():
		epochOK = false
		fault("Epoch is not set")
	case year < minEpochYear || year > maxEpochYear:
		epochOK = false
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
		for j := range i {
			if f.Name != "" && l.Node[j].Name == f.Name {
				fault("Node[%d] has the Name %q of Node[%d]", i, f.Name, j)
				break
			}
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
