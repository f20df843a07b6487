package merge

import "time"

// progress counts rows and tells about it a few times a second.
type progress struct {
	Progress
	fn    func(Progress)
	began time.Time
	told  time.Time
	here  int64 // rows of this process, without those of a run before
}

func (m *Merge) newProgress(phase string, total int64) *progress {
	return &progress{Progress: Progress{Phase: phase, Total: total}, fn: m.progress, began: time.Now()}
}

// skip counts rows that were done before.
func (p *progress) skip(n int64) { p.Done += n }

// add counts rows.
func (p *progress) add(table, server string, n int) {
	p.Table, p.Server = table, server
	p.Done += int64(n)
	p.here += int64(n)
	if now := time.Now(); now.Sub(p.told) >= 100*time.Millisecond {
		p.told = now
		p.tell()
	}
}

// end tells about the last rows.
func (p *progress) end() { p.tell() }

func (p *progress) tell() {
	if p.fn == nil {
		return
	}
	p.Elapsed = time.Since(p.began)
	p.RowsPerSecond = float64(p.here) / max(p.Elapsed.Seconds(), 1e-6)
	p.Left = 0
	if p.RowsPerSecond > 0 && p.Total > p.Done {
		p.Left = time.Duration(float64(p.Total-p.Done) / p.RowsPerSecond * float64(time.Second))
	}
	p.fn(p.Progress)
}
