package leaseops_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
	"github.com/snowflakeplugin/snowflakeplugin/internal/leaseops"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestAMarkIsARecordThatVersionsWithoutMarksLeaveAlone(t *testing.T) {
	t.Parallel()
	mark := leaseops.Mark("XYZ")
	if name := strconv.FormatInt(mark.Node, 10); name != leaseops.MarkName {
		t.Errorf("the node is %s", name)
	}
	if err := mark.Validate(); err != nil || !lease.Reserved(mark, time.Now()) || leaseops.Layout([]lease.Record{mark}) != "" {
		t.Errorf("the mark is %+v, %v", mark, err)
	}
	text, err := mark.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var again lease.Record
	if err := again.UnmarshalJSON(text); err != nil || again != mark {
		t.Errorf("it comes back as %+v, %v", again, err)
	}
	if id, err := new(leaseops.Identity).In(text); err != nil || id != "XYZ" {
		t.Errorf("its identity is %q, %v", id, err)
	}
	for _, owner := range []string{"reserved for the identity ", "reserved for an import", "web-1"} {
		mark.Owner = owner
		text, err := mark.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if id, err := new(leaseops.Identity).In(text); id != "" || !errors.Is(err, lease.ErrInvalidRecord) {
			t.Errorf("of %q the identity is %q, %v", owner, id, err)
		}
	}
}

func TestRecordsOfAnotherIdentityThanTheirNoteAreRefusedWithTheCommandsThatLeadBack(t *testing.T) {
	t.Parallel()
	r := leaseops.Remedies{Mark: "GIVE A", Note: "NOTE B"}
	identity := leaseops.Identity{Records: "the records", MarkBy: func(id string) string { return "GIVE " + id }}
	for _, c := range []struct {
		err  error
		says []string // nothing: there is no error
	}{
		{leaseops.CheckNote("the records", "the note", "A", "A", r), nil},
		{leaseops.CheckNote("the records", "the note", "", "", r), []string{"deleted, evicted or renamed"}},
		{leaseops.CheckNote("the records", "the note", "A", "", r), []string{"identity A", "deleted, evicted or renamed", "holds a number", "\n\nGIVE A"}},
		{leaseops.CheckNote("the records", "the note", "A", "B", r), []string{"the note notes A", "If that is B", "\n\nNOTE B\n\nIf it is A", "\n\nGIVE A"}},
		{identity.Check("A", "A"), nil},
		{identity.Check("A", ""), []string{"identity A", "\n\nGIVE A"}},
		{identity.Check("A", "B"), []string{"identity A", "have B", "start them again"}},
	} {
		if len(c.says) == 0 && c.err == nil {
			continue
		}
		if !errors.Is(c.err, errs.ErrAuthority) {
			t.Errorf("the error is %v", c.err)
			continue
		}
		for _, words := range c.says {
			if !strings.Contains(c.err.Error(), words) {
				t.Errorf("%v does not say %q", c.err, words)
			}
		}
	}
}

// kept is a store in memory, as far as its identity goes.
type kept struct {
	note, mark string
	used       bool
	meanwhile  string // what somebody else notes before MakeNote
	err        error
}

func (k *kept) identity() *leaseops.Identity {
	command := func(identity string) string { return "RUN " + identity }
	return &leaseops.Identity{
		Package: "kept", Records: "the records", Note: "the note", MarkBy: command, NoteBy: command,
		ReadNote: func(context.Context) (string, error) { return k.note, k.err },
		MakeMark: func(_ context.Context, identity string, ifUsed bool) (string, error) {
			if k.mark == "" && (k.used || !ifUsed) {
				k.mark = identity
			}
			return k.mark, k.err
		},
		MakeNote: func(_ context.Context, identity string) (string, error) {
			k.note = cmp.Or(k.note, k.meanwhile, identity)
			return k.note, k.err
		},
	}
}

func TestAnIdentityIsMadeWhereItIsMissingAndNotWhereItWasLost(t *testing.T) {
	t.Parallel()
	broken := errors.New("it does not answer")
	for name, c := range map[string]struct {
		kept kept
		want string // empty: any
		err  error
	}{
		"nothing is there":                         {kept{}, "", nil},
		"all is there":                             {kept{note: "A", mark: "A", used: true}, "A", nil},
		"a mark without a note":                    {kept{mark: "A", used: true}, "A", nil},
		"a note and records of an earlier version": {kept{note: "A", used: true}, "A", nil},
		"records of an earlier version alone":      {kept{used: true}, "", nil},
		"a note alone":                             {kept{note: "A"}, "", errs.ErrAuthority},
		"a mark that is not noted":                 {kept{note: "A", mark: "B", used: true}, "", errs.ErrAuthority},
		"a note of others that comes meanwhile":    {kept{mark: "A", used: true, meanwhile: "B"}, "", errs.ErrAuthority},
		"no answer":                                {kept{err: broken}, "", broken},
	} {
		store := c.kept
		identity := store.identity()
		id, err := identity.Seen(t.Context())
		if !errors.Is(err, c.err) || c.want != "" && id != c.want {
			t.Errorf("%s: %q, %v", name, id, err)
		}
		if err != nil {
			if _, again := identity.Seen(t.Context()); !errors.Is(again, c.err) {
				t.Errorf("%s: the second time there is %v", name, again)
			}
			continue
		}
		if id == "" || store.note != id || store.mark != id {
			t.Errorf("%s: %q, noted as %q, marked as %q", name, id, store.note, store.mark)
		}
		store.err = broken
		if again, err := identity.Seen(t.Context()); err != nil || again != id {
			t.Errorf("%s: the second time it is %q, %v", name, again, err)
		}
	}
}
