package checker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// A Run is a number of IDs without a gap that one process has made.
type Run struct {
	At    int64 // when the process had them: real microseconds since 1970
	First int64 // the first ID
	Count int64 // how many there are
}

// A Journal is what one process has written, in the order in which it was written.
type Journal struct {
	Name string
	Runs []Run
}

// ErrJournal is returned for a file that is no journal.
var ErrJournal = errors.New("not a journal")

// Read reads a journal. The last line does not count unless it is complete: the process was killed
// while it wrote it, so it had not handed out those IDs yet.
func Read(name string, file io.Reader) (Journal, error) {
	text, err := io.ReadAll(file)
	if err != nil {
		return Journal{}, fmt.Errorf("%s: %w", name, err)
	}
	j := Journal{Name: name, Runs: make([]Run, 0, bytes.Count(text, []byte("\n")))}
	for number := 1; ; number++ {
		line, rest, complete := bytes.Cut(text, []byte("\n"))
		if !complete {
			return j, nil
		}
		run, err := parse(line)
		if err != nil {
			return Journal{}, fmt.Errorf("%s, line %d: %w", name, number, err)
		}
		j.Runs, text = append(j.Runs, run), rest
	}
}

// parse reads one line: three numbers with a blank between them.
func parse(line []byte) (Run, error) {
	var numbers [3]int64
	words := bytes.Split(line, []byte(" "))
	if len(words) != len(numbers) {
		return Run{}, fmt.Errorf("%w: %d words in %.80q, and not 3", ErrJournal, len(words), line)
	}
	for i, word := range words {
		n, err := strconv.ParseInt(string(word), 10, 64)
		if err != nil || n < 0 {
			return Run{}, fmt.Errorf("%w: %.80q is no number from 0 up", ErrJournal, word)
		}
		numbers[i] = n
	}
	r := Run{At: numbers[0], First: numbers[1], Count: numbers[2]}
	if r.Count < 1 || r.First > math.MaxInt64-r.Count {
		return Run{}, fmt.Errorf("%w: %d IDs from %d on cannot be", ErrJournal, r.Count, r.First)
	}
	return r, nil
}
