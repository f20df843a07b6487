package leaseops

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

const (
	// MarkNode is the node of a mark. No layout has it.
	MarkNode int64 = math.MaxInt64
	// MarkName is the node as a text, under which stores keep the mark.
	MarkName = "9223372036854775807"

	markOwner = "reserved for the identity "
)

// Mark returns the record that tells the identity of a store. It lies among the records of the store and is
// made before the first of them, so it is lost with them. While it is missing, no first record is granted,
// because nothing tells which windows run.
//
// Versions that do not know it read it as the record of a number which is reserved, is beyond those of every
// layout, and binds nobody to a layout.
func Mark(identity string) lease.Record {
	return lease.Record{
		Node: MarkNode, Owner: markOwner + identity, Until: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		Version: 1, Layout: lease.UnboundLayout, UpdatedAt: time.Unix(0, 0).UTC(),
	}
}

// MarkText is the mark in the form that stores of texts keep.
func MarkText(identity string) string {
	text, _ := Mark(identity).MarshalJSON() // a note that is no UTF-8 makes no mark
	return string(text)
}

// Remedies are the commands that lead back where records and their note do not agree.
type Remedies struct {
	Mark string // gives the records the identity that is noted
	Note string // notes the identity that the records have
}

// CheckNote returns an error wrapping errs.ErrAuthority unless records have the identity that is noted beside
// them. found is empty if the records have lost their mark. records and note are what both are called.
func CheckNote(records, note, noted, found string, r Remedies) error {
	const lost = "stop all programs that lease from there, wait until their windows have ended (15 s, or the " +
		"span that you have set), and run this when no process holds a number of the lost records any more"
	switch found {
	case "":
		return fmt.Errorf("%w: %s had the identity %s and were deleted, evicted or renamed. Nothing tells which "+
			"windows were in there, so nothing is granted. Restore them, or %s:\n\n%s", errs.ErrAuthority, records,
			noted, lost, r.Mark)
	case noted:
		return nil
	}
	return fmt.Errorf("%w: %s have the identity %s, and %s notes %s: one of the two was replaced. Databases "+
		"note the right one (\"snowflake nodes authority show\"). If that is %[3]s, run this:\n\n%[6]s\n\nIf it "+
		"is %[5]s, restore the records, or %[7]s:\n\n%[8]s", errs.ErrAuthority, records, found, note, noted,
		r.Note, lost, r.Mark)
}

// Identity is the identity of the records of a store, which their mark tells, and a note beside them. It is
// made with the mark, and noted afterwards, so a note without a mark tells that the records were lost. It is
// safe for concurrent use. Its fields are set before its first use.
type Identity struct {
	Package       string // of the store; begins the errors
	Records, Note string // what both are called in messages
	// Entry is what keeps one record, such as a key, and Where what comes before its name in messages. Before
	// says how one sees what it was before, if there is a way.
	Entry, Where, Before string

	// MarkBy and NoteBy are the commands that lead back, see Remedies.
	MarkBy, NoteBy func(identity string) string

	// ReadNote returns the identity that is noted, or nothing.
	ReadNote func(ctx context.Context) (noted string, err error)
	// MakeMark returns the identity that the mark tells. Without a mark it makes one first; with ifUsed it does
	// that only if there is a record, and otherwise returns nothing.
	MakeMark func(ctx context.Context, identity string, ifUsed bool) (found string, err error)
	// MakeNote notes an identity unless one is noted, and returns what is noted then.
	MakeNote func(ctx context.Context, identity string) (noted string, err error)

	// seen is the identity that the records had when they were first used, with their note; nil before.
	seen atomic.Pointer[string]
}

// Seen returns the identity that the records and their note had first. It makes what is missing of records
// that are new, or that an earlier version has made.
func (i *Identity) Seen(ctx context.Context) (string, error) {
	if seen := i.seen.Load(); seen != nil {
		return *seen, nil
	}
	// The note is never there before the mark. In the other order, a fresh start of somebody else between the
	// two would look like records that were lost.
	noted, err := i.ReadNote(ctx)
	if err != nil {
		return "", err
	}
	found, err := i.MakeMark(ctx, cmp.Or(noted, rand.Text()), noted != "")
	if err == nil && noted == "" {
		noted, err = i.MakeNote(ctx, found)
	}
	if err != nil {
		return "", err
	}
	err = CheckNote(i.Records, i.Note, noted, found, Remedies{Mark: i.MarkBy(noted), Note: i.NoteBy(found)})
	if err != nil {
		return "", fmt.Errorf("%s: %w", i.Package, err)
	}
	i.seen.Store(&found)
	return found, nil
}

// Decode reads the record of the node that a store keeps under a name, which is the number. The error wraps
// [lease.ErrInvalidRecord], and says where the record is, and what to do.
func (i *Identity) Decode(name string, value []byte) (r lease.Record, err error) {
	node, err := strconv.ParseInt(name, 10, 64)
	if err != nil || node < 0 || strconv.FormatInt(node, 10) != name {
		return r, i.invalid(name, fmt.Errorf("%w: %q is no node number", lease.ErrInvalidRecord, name))
	}
	if err = r.UnmarshalJSON(value); err == nil && r.Node != node {
		err = fmt.Errorf("%w: it is one of node %d", lease.ErrInvalidRecord, r.Node)
	}
	if err != nil {
		return lease.Record{}, i.invalid(name, err)
	}
	return r, nil
}

// In returns the identity that the text of the mark tells. The errors are those of Decode.
func (i *Identity) In(text []byte) (string, error) {
	mark, err := i.Decode(MarkName, text)
	if err != nil {
		return "", err
	}
	identity, found := strings.CutPrefix(mark.Owner, markOwner)
	if !found || identity == "" {
		return "", i.invalid(MarkName, fmt.Errorf("%w of node %d: %q is no identity", lease.ErrInvalidRecord,
			mark.Node, mark.Owner))
	}
	return identity, nil
}

func (i *Identity) invalid(name string, err error) error {
	return fmt.Errorf("%s: %s%s: %w: no keeper wrote this: write what it was before%s, or delete the %s once "+
		"no process has had the number for a span", i.Package, i.Where, name, err, i.Before, i.Entry)
}

// List returns the records that are read, together with the identity that they have. It returns an error
// wrapping errs.ErrAuthority unless that is the one which was seen there first.
func (i *Identity) List(
	ctx context.Context, read func(seen string) (records []lease.Record, found string, err error),
) ([]lease.Record, error) {
	seen, err := i.Seen(ctx)
	if err != nil {
		return nil, err
	}
	records, found, err := read(seen)
	if err == nil {
		err = i.Check(seen, found)
	}
	if err != nil {
		return nil, err
	}
	return records, nil
}

// Check returns an error wrapping errs.ErrAuthority unless records have the identity that was seen first.
func (i *Identity) Check(seen, found string) error {
	if found == seen {
		return nil
	}
	if found == "" {
		err := CheckNote(i.Records, i.Note, seen, found, Remedies{Mark: i.MarkBy(seen)})
		return fmt.Errorf("%s: %w", i.Package, err)
	}
	return fmt.Errorf("%s: %w: %s had the identity %s, and were replaced by others that have %s. Nothing is "+
		"granted from them to those who knew the first. Stop all programs that lease from there, wait until "+
		"their windows have ended, and start them again", i.Package, errs.ErrAuthority, i.Records, seen, found)
}
