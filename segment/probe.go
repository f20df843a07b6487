package segment

import (
	"context"
	"errors"
	"time"
)

// probeShare of the patience of a claim that calls wait for lies between two probes.
const probeShare = 8

// errOvertaken is the cause for which a claim is given up that the store has overtaken: it has not answered
// the claim, but a probe that was sent later.
var errOvertaken = errors.New("segment: the store has answered a later request")

// accompany probes the store while the claim that has just begun lasts longer than the patience of calls that
// wait for it. When a probe is answered, the request of the claim is lost, or the store is slow to do what it
// is asked. The claim is given up then and sent once more, at once. Each one after that has more time, so
// that a slow store is believed. Of a store that has answered no claim yet nothing is known, so there a probe
// counts only after one that had no answer. The caller holds mu.
func (l *lane) accompany(ctx context.Context, giveUp context.CancelCauseFunc) {
	f := &l.fetch
	prober, able := l.store.(Prober)
	if !able || f.unprobed {
		return
	}
	hasty := l.hastyPatience()
	if f.limit.Sub(f.attempt) <= hasty {
		return
	}
	grace := hasty
	for range f.overtaken {
		grace = min(patienceFactor*grace, patience)
	}
	silent := f.slowest > 0
	if !silent {
		grace = hasty / probeShare // so that a probe meets the same silence
	}
	go func() {
		for wait := time.After(grace); ; wait = time.After(hasty / probeShare) {
			select {
			case <-ctx.Done():
				return
			case <-wait:
			}
			if !l.awaited() {
				continue
			}
			limited, cancel := context.WithTimeout(ctx, hasty)
			err := prober.Probe(limited)
			cancel()
			switch {
			case err == nil && silent:
				giveUp(errOvertaken)
				return
			case err == nil:
			case errors.Is(err, errors.ErrUnsupported):
				l.mu.Lock()
				f.unprobed = true
				l.mu.Unlock()
				return
			default:
				silent = true
			}
		}
	}()
}

// awaited tells whether somebody waits for the claim that is under way.
func (l *lane) awaited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting > 0 || l.fetch.probe
}

// next counts one more in a row, or begins again.
func next(n int, more bool) int {
	if more {
		return n + 1
	}
	return 0
}
