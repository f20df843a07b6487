//go:build unix

package faults_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
)

// A report is one line that a worker writes.
type report struct {
	Kind  string
	Lane  string  `json:",omitempty"` // which of its loops
	Count []int64 `json:",omitempty"` // what the lane has numbered its rows
	IDs   []int64 `json:",omitempty"`
	Nodes []int64 `json:",omitempty"`
	Class string  `json:",omitempty"` // of the error
	Error string  `json:",omitempty"`

	At, Until time.Time // when it began and ended
	WindowEnd time.Time // when it began
}

// Kinds of reports.
const (
	reportReady    = "ready"    // it has a number: Nodes
	reportRefused  = "refused"  // it could not get one
	reportRows     = "rows"     // the database has acknowledged the commit of rows
	reportFailed   = "failed"   // a create or its commit failed
	reportHolding  = "holding"  // it stops itself at the place that was asked for: Lane
	reportReleased = "released" // it is not to stop any more
	reportNext     = "next"     // the answer to the command next
	reportOpened   = "opened"   // a crowd is ready to start
	reportNumber   = "number"   // a create of a numbered row has ended: the number in IDs, 0 if it got none
	reportClosed   = "closed"   // it has given its number back, or not: Error
)

// Classes of errors.
const (
	classConflict = "conflict" // the key was taken: a duplicate
	classWindow   = "window"   // the window is over, so no ID
	classNoFree   = "no free node"
	classHeld     = "node held"
	classStore    = "store"
	classBack     = "went back" // the counter is not above what was claimed, so no number
	classClosed   = "closed"
	classDatabase = "database" // anything that the database said of a create
)

func classOf(err error) string {
	text := strings.ToLower(err.Error())
	for _, c := range []struct {
		is    bool
		class string
	}{
		{errors.Is(err, gorm.ErrDuplicatedKey), classConflict},
		{strings.Contains(text, "duplicate") || strings.Contains(text, "unique constraint"), classConflict},
		{errors.Is(err, generator.ErrOutsideWindow), classWindow},
		{errors.Is(err, lease.ErrNoFreeNode), classNoFree},
		{errors.Is(err, lease.ErrNodeHeld), classHeld},
		{errors.Is(err, lease.ErrStore), classStore},
		{errors.Is(err, segment.ErrWentBack), classBack},
		{errors.Is(err, snowflakeplugin.ErrClosed), classClosed},
	} {
		if c.is {
			return c.class
		}
	}
	return classDatabase
}

// failure puts an error into a report.
func (r report) failure(err error) report {
	const maxText = 2000 // a line fits the buffer of a pipe, so that it is written whole or not at all
	if err != nil {
		r.Class, r.Error = classOf(err), err.Error()
		r.Error = r.Error[:min(len(r.Error), maxText)]
	}
	return r
}

// say writes the report as one line, with one call.
func (r report) say() {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		os.Exit(2) // nobody listens any more
	}
}
