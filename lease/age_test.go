package lease_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// longest is what a store of these tests asks for, as SQLite does.
const longest = 10 * time.Minute

func TestWindowsGrowWithTheAgeOfTheirHolder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			hi    int64
			young time.Duration
		}{
			"of many numbers": {1023, time.Minute},
			"of 16 numbers":   {15, span},
		} {
			s := newTable()
			k := acquire(t, slow{s, longest}, lease.WithNodes(0, c.hi))
			began := time.Now()
			wantTime(t, "the end of the first window "+name, k.Window().Until, began.Add(c.young))
			time.Sleep(20 * time.Minute)
			for _, r := range s.asked(asksSwap) {
				age := r.at.Sub(began)
				want := max(c.young, min(age, longest))
				if left := r.next.Until.Sub(r.at); left < want-time.Millisecond || left > want {
					t.Errorf("%s: at the age of %v a window of %v was granted, want %v", name, age, left, want)
				}
			}
			if left := time.Until(k.Window().Until); left < longest*2/3 {
				t.Errorf("%s: after twenty minutes the window has %v left", name, left)
			}
			mustClose(t, k)
		}
	})
}

func TestASpanThatIsNamedDoesNotGrow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := acquire(t, slow{newTable(), longest}, lease.WithSpan(20*time.Second))
		time.Sleep(20 * time.Minute)
		if left := time.Until(k.Window().Until); left > 20*time.Second {
			t.Errorf("the window has %v left", left)
		}
	})
}

// A supervisor starts a program that dies at once, every second for ten minutes.
func TestCrashesAtTheStartUseUpNoNumbers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		few := generator.JavaScript()
		few.TimeBits, few.Node = 41, []generator.Field{{Name: "node", Bits: 4}}
		for _, layout := range []generator.Layout{generator.JavaScript(), few} {
			s := slow{newTable(), longest}
			var waited, wait time.Duration
			for starts := 0; starts < 600; {
				k, err := lease.Acquire(t.Context(), s, layout, quiet())
				if err != nil && !errors.Is(err, lease.ErrNoFreeNode) {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if err != nil {
					wait += time.Second
					waited = max(waited, wait)
					continue
				}
				k.Crash()
				starts++
				wait = 0
			}
			switch numbers := layout.MaxNode() + 1; {
			case numbers == 256 && waited > 0:
				t.Errorf("with %d numbers a start waited for %v", numbers, waited)
			case waited > time.Minute:
				t.Errorf("with %d numbers a start waited for %v", numbers, waited)
			}
		}
	})
}

func TestAWindowThatATransactionOutlastsSaysHowToGetALongerOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, slow{s, longest}, j.option())
		g := newGenerator(t, k)
		mustNext(t, g)
		s.spoilWith(down) // a transaction that writes
		time.Sleep(59 * time.Second)
		mustNext(t, g)
		time.Sleep(2 * time.Second)
		const advice = "here the windows of a process last from 1m0s at first up to 10m0s, as it grows older; if it " +
			"begins with a transaction that writes for longer, set their span (lease.WithSpan)"
		_, err := g.Next(t.Context())
		wantError(t, err, lease.ErrStore, advice)
		s.spoilWith(nil)
		time.Sleep(longest + time.Minute)
		mustNext(t, g)
		s.spoilWith(down)
		time.Sleep(longest + time.Second)
		_, err = g.Next(t.Context())
		wantError(t, err, lease.ErrStore)
		if text := fmt.Sprint(err); strings.Contains(text, advice) {
			t.Errorf("a grown keeper says %q", text)
		}
	})
}

// The names of owners are those that package lease makes by default.
func TestTheErrorWhenAllNumbersAreHeldSaysWhoSeemsToHaveEnded(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	gone := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	owner := func(host string, pid int, since time.Time) string {
		return fmt.Sprintf("%s pid %d since %s #0123456789abcdef", host, pid, since.Format(time.RFC3339))
	}
	s := newTable()
	for node, name := range []string{
		owner(host, gone.Process.Pid, now),                     // seems to have ended
		owner("another"+host, gone.Process.Pid, now),           // nobody here knows
		owner(host, os.Getpid(), now),                          // this very process
		owner(host, os.Getpid(), now.AddDate(-1, 0, 0)),        // its number was another's a year ago
		fmt.Sprintf("%s pid %d", host, gone.Process.Pid),       // a name of WithOwner
		owner(host, -1, now), owner(host, 0, now), "web 1", "", // no processes
	} {
		s.put(heldBy(name, int64(node), now.Add(time.Minute)))
	}
	_, err = lease.Acquire(t.Context(), s, generator.Default(), quiet(), lease.WithNodes(0, 8))
	wantError(t, err, lease.ErrNoFreeNode, owner(host, gone.Process.Pid, now)+`" (seems to have ended); `,
		"without Close, so their numbers fall free by themselves; wait, stop a process", `"snowflake nodes list"`,
		`"snowflake nodes release NODE --force --until now"`)
	want := 1
	if _, known := os.Stat("/proc/self/stat"); known == nil {
		want = 2
	}
	if text := err.Error(); strings.Count(text, "(seems to have ended)") != want ||
		!strings.Contains(text, fmt.Sprintf("; %d of the processes were on this machine", want)) {
		t.Errorf("the error does not name %d:\n%s", want, text)
	}
}
