package leaseops_test

import (
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
	if id, err := leaseops.IdentityIn(text); err != nil || id != "XYZ" {
		t.Errorf("its identity is %q, %v", id, err)
	}
	for _, owner := range []string{"reserved for the identity ", "reserved for an import", "web-1"} {
		mark.Owner = owner
		text, err := mark.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if id, err := leaseops.IdentityIn(text); id != "" || !errors.Is(err, lease.ErrInvalidRecord) {
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
