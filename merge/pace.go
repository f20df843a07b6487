package merge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/merge/internal/sqldb"
)

// pace holds a run to a number of rows per second.
type pace struct {
	ws    *workspace
	began time.Time
	rows  int64
}

// wait waits until the rows that were copied so far are no more than the rate allows.
func (p *pace) wait(ctx context.Context, rows int) error {
	if p == nil || p.ws.rate == 0 {
		return nil
	}
	p.rows += int64(rows)
	due := time.Duration(float64(p.rows) / float64(p.ws.rate) * float64(time.Second))
	if early := due - time.Since(p.began); early > 0 {
		return p.ws.sleep(ctx, early)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// later reports whether a table is left to another run. It is an error if a table that is copied now
// refers to one that is not there yet.
func (r *runner) later(j *tableJob) (bool, error) {
	only := r.ws.only
	if len(only) == 0 {
		return false, nil
	}
	if !slices.Contains(only, j.name) {
		return true, nil
	}
	for _, ref := range j.refs {
		parent := r.ws.jobs[ref.Parent]
		circular := slices.ContainsFunc(j.circular,
			func(c sqldb.Reference) bool { return c.Parent == ref.Parent })
		if !ref.Enforced || parent == nil || circular || slices.Contains(only, parent.name) || r.copied(parent) {
			continue
		}
		return false, fmt.Errorf("%w: the table %s is to be copied now, but it refers to %s, which is not "+
			"copied yet and is left to a later run", ErrPlan, j.name, parent.name)
	}
	return false, nil
}

// copied reports whether a table of every server is copied.
func (r *runner) copied(j *tableJob) bool {
	for i, src := range j.sources {
		e := r.entries[stepCopy][tableServer{j.name, r.ws.servers[i].Number}]
		if src != nil && (e == nil || !e.done) {
			return false
		}
	}
	return true
}
