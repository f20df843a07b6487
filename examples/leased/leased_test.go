package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"
)

// TestMain turns the test binary into a worker if the story starts it.
func TestMain(m *testing.M) {
	if os.Getenv(nameVar) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// playOnce plays the story. On a very slow machine A may also lose its number. That is correct, but
// it is another story, so the story is then played again.
func playOnce(t *testing.T) (*story, findings) {
	t.Helper()
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} { // the name depends on the system
		t.Setenv(name, temp)
	}
	for range 5 {
		s, err := playAside(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.find()
		if err != nil {
			t.Fatal(err)
		}
		if f.rows == 0 || f.different != f.rows || f.missing != 0 || f.outside != 0 {
			t.Errorf("%d rows with %d different IDs, %d are missing, %d lie outside",
				f.rows, f.different, f.missing, f.outside)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("these files are left: %v, %v", left, err)
		}
		if len(s.tenures) == 3 || t.Failed() {
			return s, f
		}
		t.Logf("there were %d tenures instead of 3, so the story is played again", len(s.tenures))
	}
	t.Fatal("the machine is too slow in every attempt")
	return nil, findings{}
}

func TestTheThirdProcessTakesOverWhatTheDeadOneHad(t *testing.T) {
	s, f := playOnce(t)
	a, b, c := s.first("A"), s.first("B"), s.first("C")
	if a.node == b.node || c.node != b.node || c.before != b || a.before != nil || b.before != nil {
		t.Errorf("A had number %d, B %d and C %d; want that of B", a.node, b.node, c.node)
	}
	if !a.givenBack || b.givenBack || !c.givenBack {
		t.Errorf("given back by A: %t, by B: %t, by C: %t; want by all but B", a.givenBack, b.givenBack, c.givenBack)
	}
	killed := s.processes[1].killed
	if killed.IsZero() || !b.until.After(killed) || c.from.Before(b.until) {
		t.Errorf("B was killed at %v, its window ended at %v, and that of C began at %v; want this order",
			killed, b.until, c.from)
	}
	for _, made := range f.stretches {
		if len(made.ids) < enough {
			t.Errorf("%s made %d IDs, want %d", made.process(), len(made.ids), enough)
		}
		if made.before != nil && made.first.Before(made.before.until) {
			t.Errorf("the first ID of %s is of %v, before the end of the window of %s, %v",
				made.process(), made.first, made.before.process(), made.before.until)
		}
	}
	if refused := s.processes[2].refused; len(refused) == 0 {
		t.Error("C was not refused while both numbers were held")
	}

	theReportSaysSo(t, s)
	theChecksCanFail(t, s)
}

func theReportSaysSo(t *testing.T, s *story) {
	t.Helper()
	var out bytes.Buffer
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		`(?m)^ +\S+ s  A  has number [01]$`,
		`(?m)^ +\S+ s  B  has number [01]$`,
		`(?m)^ +\S+ s  C  finds no number free:$`,
		`(?m)^ +\S+ s     [01] is held until \S+ s by process A, pid \d+ #[0-9a-f]{16}$`,
		`(?m)^ +\S+ s     [01] is held until \S+ s by process B, pid \d+ #[0-9a-f]{16}$`,
		`(?ms)B  is killed with -9.* C  has number [01]$.*C  ends and gives its number back$`,
		`(?m)^  A  number [01], from \S+ s to \S+ s: \d+ IDs$`,
		`(?m)^  C  number [01], from \S+ s to \S+ s: \d+ IDs$`,
		`(?m)^ +\d+  rows are in the table$\n +\d+  different IDs .*$\n +0  of the \d+ .* missing$\n +0  IDs lie outside`,
		`(?m)^ +\d+  ms from the end of B's window to the first ID that C made with its number$`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("the report does not contain %q", want)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + text)
	}
}

// theChecksCanFail passes tables with faults to the checks.
func theChecksCanFail(t *testing.T, s *story) {
	t.Helper()
	for name, altered := range map[string]struct {
		orders []Order
		until  time.Time
		want   func(findings) bool
	}{
		"an ID twice": {
			orders: append(slices.Clone(s.orders), s.orders[0]), until: s.tenures[0].until,
			want: func(f findings) bool { return f.different == f.rows-1 },
		},
		"a row lost": {
			orders: s.orders[1:], until: s.tenures[0].until,
			want: func(f findings) bool { return f.missing == 1 },
		},
		"a window too short": {
			orders: s.orders, until: s.tenures[0].from,
			want: func(f findings) bool { return f.outside >= enough },
		},
	} {
		other, first := *s, *s.tenures[0]
		first.until = altered.until
		other.orders = altered.orders
		other.tenures = append([]*tenure{&first}, s.tenures[1:]...)
		if f, err := other.find(); err != nil || !altered.want(f) {
			t.Errorf("%s was not found: %d rows, %d different, %d missing, %d outside, %v",
				name, f.rows, f.different, f.missing, f.outside, err)
		}
	}
}
