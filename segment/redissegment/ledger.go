package redissegment

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// fields are the values of a counter in the hash.
type fields struct{ next, residue, updated, kind string }

// residue is the form in which a residue is stored and compared.
func residue(remainder, modulus int64) string { return fmt.Sprintf("%d %d", remainder, modulus) }

// Counters returns the counters whose names begin with prefix, sorted by name. The reading is answered by
// the master, and with [WithStrict] what it says is where no failover loses it.
func (s *Store) Counters(ctx context.Context, prefix string) ([]segment.Counter, error) {
	answer, err := s.write(ctx, listScript, prefix)
	if err != nil {
		return nil, err
	}
	if len(answer)%2 != 0 {
		return nil, s.kept.Unexpected(answer)
	}
	named := make(map[string]fields)
	for pair := range slices.Chunk(answer, 2) {
		kind, name, _ := strings.Cut(pair[0], ":")
		f := named[name]
		switch kind {
		case "next":
			f.next = pair[1]
		case "residue":
			f.residue = pair[1]
		case "updated":
			f.updated = pair[1]
		case "kind":
			f.kind = pair[1]
		default:
			return nil, s.invalid(name, fmt.Sprintf("no store writes a field %q", pair[0]))
		}
		named[name] = f
	}
	found := make([]segment.Counter, 0, len(named))
	for name, f := range named {
		if f == (fields{kind: f.kind}) {
			continue // an earlier version has removed the counter
		}
		c, err := s.counter(name, f)
		if err != nil {
			return nil, err
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b segment.Counter) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Change replaces a counter, or makes it, with a single script.
func (s *Store) Change(ctx context.Context, prev, next segment.Counter) (bool, error) {
	if err := segment.CheckChange(prev, next); err != nil {
		return false, err
	}
	return s.change(ctx, next.Name, prev, next)
}

// Remove removes a counter with a single script.
func (s *Store) Remove(ctx context.Context, prev segment.Counter) (bool, error) {
	if prev.Next < 1 {
		return false, nil // no counter has these values
	}
	return s.change(ctx, prev.Name, prev, segment.Counter{})
}

func (s *Store) change(ctx context.Context, name string, prev, next segment.Counter) (bool, error) {
	answer, err := s.write(ctx, changeScript, name,
		prev.Next, residue(prev.Remainder, prev.Modulus), prev.Kind,
		next.Next, residue(next.Remainder, next.Modulus), next.Kind)
	if err != nil {
		return false, err
	}
	if len(answer) != 1 || answer[0] != "0" && answer[0] != "1" {
		return false, s.kept.Unexpected(answer)
	}
	return answer[0] == "1", nil
}

// counter reads the fields of a counter. The scripts compare texts, so a number has only one form.
func (s *Store) counter(name string, f fields) (segment.Counter, error) {
	c := segment.Counter{Name: name, Kind: f.kind}
	var err error
	if c.Next, err = strconv.ParseInt(f.next, 10, 64); err != nil || c.Next < 1 ||
		strconv.FormatInt(c.Next, 10) != f.next {
		return c, s.invalid(name, fmt.Sprintf("its next number is %.40q", f.next))
	}
	remainder, modulus, _ := strings.Cut(f.residue, " ")
	c.Remainder, _ = strconv.ParseInt(remainder, 10, 64)
	c.Modulus, _ = strconv.ParseInt(modulus, 10, 64) // what is no number differs below
	if residue(c.Remainder, c.Modulus) != f.residue || c.Modulus < 0 || c.Remainder < 0 ||
		c.Remainder >= max(c.Modulus, 1) {
		return c, s.invalid(name, fmt.Sprintf("its residue is %.40q", f.residue))
	}
	// Nothing is decided by the time, so one that cannot be read is only unknown.
	if seconds, err := strconv.ParseInt(f.updated, 10, 64); err == nil {
		c.UpdatedAt = time.Unix(seconds, 0).UTC()
	}
	return c, nil
}

func (s *Store) invalid(name, what string) error {
	return fmt.Errorf("%w: redissegment: %s: counter %q: %s: somebody changed it by hand; set the field "+
		"next:NAME to a number that is greater than every number in use, and residue:NAME to the "+
		"remainder and the modulus with a blank between them, which is \"0 1\" without a residue",
		segment.ErrInvalidCounter, s.kept.Key(), name, what)
}
