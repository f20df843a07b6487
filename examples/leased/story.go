package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
)

const (
	enough   = 60                    // rows that a process inserts before the story continues
	glance   = 20 * time.Millisecond // time between two reads of the table
	patience = time.Minute           // time limit of the whole story
)

// process is a worker from the story's point of view.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	ids   []int64 // IDs of the rows that it reported as stored

	refused []time.Time
	killed  time.Time // zero unless the process was killed
	ended   bool
}

// line is one line of the report of events.
type line struct {
	when time.Time
	who  string
	what string
}

// story holds the processes and everything that was observed.
type story struct {
	path   string
	store  lease.Store
	events chan event
	began  time.Time

	processes []*process
	lines     []line
	watch
	orders []Order // the orders in the table at the end, by ID
}

// play plays the story on a file that does not exist yet.
func play(ctx context.Context, path string) (s *story, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the story takes too long"))
	defer cancel()
	db, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeDB(db)) }()
	store, err := gormlease.New(db.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	s = &story{path: path, events: make(chan event), store: store, began: time.Now()}
	s.watch = watch{current: map[int64]*tenure{}, last: map[int64]lease.Record{}}
	defer s.end()
	if err := s.tell(ctx, db); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *story) tell(ctx context.Context, db *gorm.DB) error {
	a, err := s.start(ctx, "A")
	if err != nil {
		return err
	}
	b, err := s.start(ctx, "B")
	if err != nil {
		return err
	}
	if err := s.until(ctx, func() bool { return len(a.ids) >= enough && len(b.ids) >= enough }); err != nil {
		return err
	}
	c, err := s.start(ctx, "C")
	if err != nil {
		return err
	}
	err = s.until(ctx, func() bool { return len(c.refused) > 0 && s.first("B").extended > 0 })
	if err != nil {
		return err
	}

	b.killed = time.Now()
	if err := b.cmd.Process.Kill(); err != nil { // the same as kill -9
		return err
	}
	if err := s.until(ctx, func() bool { return b.ended }); err != nil {
		return err
	}
	s.note(b.killed, "B", "is killed with -9, so it cannot give its number back")

	if err := s.until(ctx, func() bool { return len(c.ids) >= enough }); err != nil {
		return err
	}
	if err := errors.Join(a.stdin.Close(), c.stdin.Close()); err != nil {
		return err
	}
	if err := s.until(ctx, func() bool { return a.ended && c.ended }); err != nil {
		return err
	}
	if err := s.look(ctx, s.store); err != nil {
		return err
	}
	return db.WithContext(ctx).Order("id").Find(&s.orders).Error
}

func (s *story) start(ctx context.Context, name string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), nameVar+"="+name, fileVar+"="+s.path)
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	go s.listen(p, stdout)
	return p, nil
}

// listen forwards the events of a worker.
func (s *story) listen(p *process, stdout io.Reader) {
	lines := json.NewDecoder(stdout)
	for {
		e := event{who: p}
		if lines.Decode(&e) != nil { // the output has ended, possibly in the middle of a line
			_ = p.cmd.Wait()
			s.events <- event{who: p, ended: true}
			return
		}
		s.events <- e
	}
}

// until handles events until the given condition is true.
func (s *story) until(ctx context.Context, happened func() bool) error {
	clock := time.NewTicker(glance)
	defer clock.Stop()
	for !happened() {
		select {
		case e := <-s.events:
			if err := s.hear(e); err != nil {
				return err
			}
		case <-clock.C:
			if err := s.look(ctx, s.store); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *story) hear(e event) error {
	p := e.who
	switch {
	case e.ended:
		p.ended = true
		if status := p.cmd.ProcessState; !status.Success() && p.killed.IsZero() {
			return fmt.Errorf("process %s: %v", p.name, status)
		}
	case e.What == "row":
		p.ids = append(p.ids, e.ID)
	case e.What == "leased":
		s.note(e.At, p.name, fmt.Sprintf("has number %d", e.Node))
	case e.What == "refused":
		p.refused = append(p.refused, e.At)
		s.note(e.At, p.name, "finds no number free:")
		for _, r := range e.Holders {
			s.note(e.At, "", fmt.Sprintf("%d is held until %s by %s", r.Node, s.clock(r.Until), r.Owner))
		}
	case e.What == "closed":
		s.note(e.At, p.name, "ends and gives its number back")
	}
	return nil
}

func (s *story) note(when time.Time, who, what string) {
	s.lines = append(s.lines, line{when, who, what})
}

// end makes sure that no process is left.
func (s *story) end() {
	for _, p := range s.processes {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range s.processes {
		for !p.ended {
			e := <-s.events
			e.who.ended = e.who.ended || e.ended
		}
	}
}

// findings are the results of comparing the rows with the tenures.
type findings struct {
	stretches []stretch
	rows      int
	different int // distinct IDs of the rows
	told      int // IDs that a process reported as stored
	missing   int // reported IDs that are not in the table
	outside   int // IDs that are in no window of the process that issued them
}

// stretch holds the IDs of one tenure.
type stretch struct {
	*tenure
	ids         []int64   // in order
	first, last time.Time // of the IDs
}

// find compares the rows with the tenures.
func (s *story) find() (f findings, err error) {
	for _, t := range s.tenures {
		f.stretches = append(f.stretches, stretch{tenure: t})
	}
	stored := map[int64]bool{}
	for _, order := range s.orders {
		id := order.ID.Int64()
		stored[id] = true
		parts, err := generator.Default().Decompose(id)
		if err != nil {
			return f, err
		}
		i := slices.IndexFunc(f.stretches, func(made stretch) bool {
			return made.process() == order.MadeBy && made.node == parts.Node &&
				!parts.Time.Before(made.from) && parts.Time.Before(made.until)
		})
		if i < 0 {
			f.outside++
			continue
		}
		made := &f.stretches[i]
		if len(made.ids) == 0 {
			made.first = parts.Time
		}
		made.ids, made.last = append(made.ids, id), parts.Time
	}
	f.rows, f.different = len(s.orders), len(stored)
	for _, p := range s.processes {
		f.told += len(p.ids)
		for _, id := range p.ids {
			if !stored[id] {
				f.missing++
			}
		}
	}
	return f, nil
}
