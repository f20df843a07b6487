package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

func TestAFailureThatIsMadeUpForIsNotWorthALine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, j.option())
		for range 10 {
			s.spoilWith(down)
			time.Sleep(span / 3) // from one extension to the next, or less
			s.spoilWith(nil)
			before := k.Extensions()
			eventually(t, "an extension", span/3, func() bool { return k.Extensions() > before })
		}
		j.want(t, "INFO node taken")
	})
}

func TestAnOutageIsLoggedWhenItBecomesSeriousWhenTheWindowEndsAndWhenItIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		k := acquire(t, quick{s}, lease.WithNodes(4, 4), j.option())
		for outage := range 2 {
			before := k.Extensions()
			eventually(t, "an extension", span/3, func() bool { return k.Extensions() > before })
			until := k.Window().Until
			s.spoilWith(down)
			time.Sleep(span / 3)
			j.want(t, []string{"INFO node taken", "WARN", "ERROR", "INFO"}[:1+3*outage]...)

			// Attempts lie a third of a span apart at most, so one has failed with less than half of
			// the window left.
			time.Sleep(span / 2)
			lines := j.all()
			if len(lines) != 2+3*outage {
				t.Fatalf("logged so far: %v", lines)
			}
			warned := lines[len(lines)-1]
			if warned.text != "WARN the window cannot be extended; IDs go on until it ends" {
				t.Errorf("logged: %s", warned.text)
			}
			warned.wantAttrs(t, map[string]string{"node": "4", "until": until.String()})

			time.Sleep(10 * span)
			lines = j.all()
			if len(lines) != 3+3*outage {
				t.Fatalf("logged so far: %v", lines)
			}
			ended := lines[len(lines)-1]
			if ended.text != "ERROR no IDs until the store grants a window; a restart does not help" {
				t.Errorf("logged: %s", ended.text)
			}
			ended.wantAttrs(t, map[string]string{
				"node": "4", "until": until.String(), "failing_since": warned.attrs["failing_since"],
			})

			s.spoilWith(nil)
			time.Sleep(span / 3)
			lines = j.all()
			if len(lines) != 4+3*outage {
				t.Fatalf("logged so far: %v", lines)
			}
			over := lines[len(lines)-1]
			if over.text != "INFO the window is extended again" {
				t.Errorf("logged: %s", over.text)
			}
			over.wantAttrs(t, map[string]string{"node": "4", "failing_since": warned.attrs["failing_since"]})
		}
	})
}

// Somebody has to do something about it, so it is said while IDs still go on.
func TestAFailureThatDoesNotEndByItselfIsLoggedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		changed := func(s *table, layout string) {
			r := s.of(t, 4)
			r.Version, r.Layout = r.Version+1, layout
			s.put(r)
		}
		for sentinel, spoil := range map[error]func(s *table){
			lease.ErrClockSkew:      func(s *table) { s.clock.Step(time.Minute) },
			lease.ErrLayoutMismatch: func(s *table) { changed(s, "another") },
			lease.ErrInvalidRecord:  func(s *table) { changed(s, "") },
		} {
			began := time.Now()
			s := newTable()
			var j journal
			k := acquire(t, s, lease.WithNodes(4, 4), j.option())
			spoil(s)
			eventually(t, "a warning", span/3, func() bool { return len(j.all()) > 1 })
			time.Sleep(time.Until(began.Add(span / 2)))
			lines := j.want(t, "INFO node taken", "WARN the window cannot be extended; IDs go on until it ends")
			if why := lines[1].attrs["error"]; !strings.Contains(why, sentinel.Error()) {
				t.Errorf("the reason is said to be %q, want %q", why, sentinel)
			}
			mustNext(t, newGenerator(t, k))
			_ = k.Close(t.Context()) // not every one of them can be given back
		}
	})
}
