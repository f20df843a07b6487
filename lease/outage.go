package lease

import (
	"errors"
	"time"
)

// outage is what was said of failures in a row, each thing once.
type outage struct {
	since  time.Time
	warned bool // that extensions fail
	ended  bool // that the window has ended
}

// observe logs how attempts go. A failure that the next attempt makes up for is not worth a line.
func (k *Keeper) observe(began time.Time, err error) {
	o := &k.outage
	if err == nil {
		if o.warned || o.ended {
			k.log.Info("lease: the window is extended again", "node", k.record.Node,
				"until", k.record.Until, "failing_since", o.since)
		}
		if o.ended {
			k.tell(NodeBack, k.record.Node, nil)
		}
		*o = outage{}
		return
	}
	if o.since.IsZero() {
		o.since = began
	}
	window := k.window.Load()
	left := window.Until.Sub(k.now())
	switch {
	case left <= 0 && !o.ended:
		o.warned, o.ended = true, true
		k.log.Error("lease: no IDs until the store grants a window; a restart does not help", "node", window.Node,
			"until", window.Until, "failing_since", o.since, "error", err)
		k.notifier.send(Event{
			Kind: NodeOverdue, Node: window.Node, Previous: window.Node, Until: window.Until,
			Err: err, Time: k.now(),
		})
	case !o.warned && (left < k.span/2 || permanent(err)):
		o.warned = true
		k.log.Warn("lease: the window cannot be extended; IDs go on until it ends", "node", window.Node,
			"until", window.Until, "failing_since", o.since, "error", err)
	}
}

// permanent tells whether somebody has to do something about err.
func permanent(err error) bool {
	for _, sentinel := range []error{ErrClockSkew, ErrLayoutMismatch, ErrInvalidRecord} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}
