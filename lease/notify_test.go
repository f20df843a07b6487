package lease_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// eventLog keeps the events of a keeper.
type eventLog struct {
	mu     sync.Mutex
	events []lease.Event
}

func (l *eventLog) option() lease.Option {
	return lease.WithNotify(func(e lease.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
	})
}

// want fails unless exactly these kinds of events came. It returns them.
func (l *eventLog) want(t *testing.T, kinds ...lease.EventKind) []lease.Event {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var got []lease.EventKind
	for _, e := range l.events {
		got = append(got, e.Kind)
	}
	if fmt.Sprint(got) != fmt.Sprint(kinds) {
		t.Fatalf("the events are %v, want %v", l.events, kinds)
	}
	return l.events
}

func TestAnOutageIsAnEventWhenTheWindowEndsAndWhenItIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var l eventLog
		k := acquire(t, quick{s}, lease.WithNodes(4, 4), l.option())
		until := k.Window().Until
		s.spoilWith(down)
		time.Sleep(span)
		l.want(t)
		time.Sleep(10 * span)
		overdue := l.want(t, lease.NodeOverdue)[0]
		if overdue.Node != 4 || overdue.Previous != 4 || !overdue.Until.Equal(until) || overdue.Time.Before(until) {
			t.Errorf("overdue: %+v", overdue)
		}
		wantError(t, overdue.Err, errDown)
		wantError(t, overdue.Err, lease.ErrStore)
		if text := overdue.String(); !strings.Contains(text, "node 4 overdue: lease: store failed") {
			t.Errorf("in words: %s", text)
		}
		s.spoilWith(nil)
		time.Sleep(span / 3)
		back := l.want(t, lease.NodeOverdue, lease.NodeBack)[1]
		if back.Node != 4 || back.Err != nil || !back.Until.After(back.Time) {
			t.Errorf("back: %+v", back)
		}
		time.Sleep(time.Hour)
		mustClose(t, k)
		l.want(t, lease.NodeOverdue, lease.NodeBack)
	})
}

func TestANumberThatIsLostAndTheNextOneAreEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var l eventLog
		k := acquire(t, quick{s}, lease.WithNodes(4, 9), l.option())
		lost := k.Window()
		s.put(heldBy("an operator", lost.Node, after(time.Hour)))
		time.Sleep(span / 3)
		events := l.want(t, lease.NodeLost, lease.NodeChanged)
		if e := events[0]; e.Node != lost.Node || e.Previous != lost.Node || e.Err == nil ||
			!strings.Contains(e.Err.Error(), "its record belongs to somebody else") {
			t.Errorf("lost: %+v", e)
		}
		w := k.Window()
		if e := events[1]; e.Node != w.Node || e.Previous != lost.Node || !e.Until.Equal(w.Until) || e.Err != nil {
			t.Errorf("changed: %+v, the window is %+v", e, w)
		}
		if text := events[1].String(); !strings.Contains(text, fmt.Sprintf("node %d changed from %d", w.Node, lost.Node)) {
			t.Errorf("in words: %s", text)
		}
	})
}

// The only number is lost, so there is none until somebody else has ended.
func TestANumberThatComesBackIsOverdueChangedAndBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var l eventLog
		acquire(t, quick{s}, lease.WithNodes(4, 4), l.option())
		s.put(heldBy("an operator", 4, after(time.Minute)))
		time.Sleep(2 * time.Minute)
		events := l.want(t, lease.NodeLost, lease.NodeOverdue, lease.NodeChanged, lease.NodeBack)
		for _, e := range events {
			if e.Node != 4 || e.Previous != 4 {
				t.Errorf("the event is about another node: %+v", e)
			}
		}
		wantError(t, events[1].Err, lease.ErrNodeHeld)
	})
}

func TestAFunctionThatBlocksDelaysNothingAndMissesTheOldestEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var j journal
		var l eventLog
		block := make(chan struct{})
		k := acquire(t, quick{s}, j.option(), lease.WithNotify(func(e lease.Event) {
			<-block
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, e)
		}))
		for range 40 { // two events each
			node := k.Window().Node
			r := s.of(t, node)
			r.Version, r.Owner = r.Version+1, "an operator"
			s.put(r)
			eventually(t, "another number", span/3, func() bool {
				w := k.Window()
				return w.Node != node && !w.Until.IsZero()
			})
		}
		last := k.Window().Node
		began := time.Now()
		mustClose(t, k)
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %v", took)
		}
		dropped := 0
		for _, line := range j.all() {
			if strings.Contains(line.text, "WARN the function of WithNotify does not keep up") {
				dropped++
			}
		}
		if dropped != 1 {
			t.Errorf("the log says %d times that events were dropped, want once", dropped)
		}
		close(block)
		synctest.Wait()
		if n := len(l.events); n != 65 { // one was in the function's hands
			t.Errorf("%d events", n)
		}
		if e := l.events[len(l.events)-1]; e.Kind != lease.NodeChanged || e.Node != last {
			t.Errorf("the last event is %+v, the last number was %d", e, last)
		}
	})
}

func TestAFunctionMayCloseTheKeeper(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTable()
		var k *lease.Keeper
		closed := make(chan error, 1)
		k = acquire(t, quick{s}, lease.WithNotify(func(e lease.Event) {
			if e.Kind == lease.NodeLost {
				closed <- k.Close(t.Context())
			}
		}))
		s.remove(k.Window().Node)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

func TestNotifyRefusesNil(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, err := tryAcquire(t, newTable(), lease.WithNotify(nil))
		wantError(t, err, lease.ErrInvalidOption, "WithNotify(nil)")
	})
}
