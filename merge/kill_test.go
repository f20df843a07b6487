package merge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/gameworld"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// The environment of a process that merges and dies.
const (
	planVariable  = "MERGE_TEST_PLAN"
	pointVariable = "MERGE_TEST_POINT"
	wayVariable   = "MERGE_TEST_PORTABLE"
)

// TestMain lets the test binary be such a process.
func TestMain(m *testing.M) {
	path := os.Getenv(planVariable)
	if path == "" {
		os.Exit(dbtest.Main(m))
	}
	if err := mergeAndDie(context.Background(), path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// mergeAndDie runs a plan, and kills the process when it comes by so many points, which may be of one kind only.
func mergeAndDie(ctx context.Context, path string) error {
	plan, err := merge.Load(path)
	if err != nil {
		return err
	}
	kind, number, _ := strings.Cut(os.Getenv(pointVariable), " ")
	left, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	opts := []merge.Option{merge.WithOpener(opener), merge.WithChunk(killChunk), merge.WithFailpoint(func(point string) {
		if kind != anyPoint && kind != point {
			return
		}
		if left--; left == 0 {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			fmt.Fprintln(os.Stderr, "the process is to die here", err)
			select {}
		}
	})}
	if os.Getenv(wayVariable) != "" {
		opts = append(opts, merge.WithPortableCopy())
	}
	m, err := merge.Open(ctx, plan, opts...)
	if err != nil {
		return err
	}
	_, err = m.Run(ctx)
	return errors.Join(err, m.Close())
}

const killChunk = 60

// anyPoint is every kind of point.
const anyPoint = "any"

// dump is the whole content of a database, ordered.
func (b base) dump(t testing.TB) []string {
	t.Helper()
	tables, err := b.Migrator().GetTables()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, table := range tables {
		lines = append(lines, b.dumpOf(t, table)...)
	}
	slices.Sort(lines)
	return lines
}

func (b base) dumpOf(t testing.TB, table string) (lines []string) {
	t.Helper()
	rows, err := b.Table(table).Rows()
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		var line strings.Builder
		line.WriteString(table)
		for i, v := range values {
			fmt.Fprintf(&line, " %s=%q", columns[i], fmt.Sprintf("%v", v))
		}
		lines = append(lines, line.String())
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	shown := 0
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			if shown++; shown <= 3 {
				t.Errorf("%s: line %d is\n%s, want\n%s", what, i, g, w)
			}
		}
	}
}

func TestAMergeThatIsKilledAgainAndAgainEndsAsOneThatWasNot(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		ways := []string{"", "portable"}
		if target.Dialect != "sqlite" {
			ways = oneOf(t.Name(), ways)
		}
		for _, portable := range ways {
			t.Run("way "+portable, func(t *testing.T) {
				t.Parallel()
				cfg := gameworld.Config{Roles: 25, Clash: 0.4}
				servers, once, plan := games(t, []dbtest.Target{target, target}, target, cfg)
				var before [][]string
				for _, s := range servers {
					before = append(before, s.dump(t))
				}
				opts := []merge.Option{merge.WithChunk(killChunk)}
				if portable != "" {
					opts = append(opts, merge.WithPortableCopy())
				}
				chunks := 0
				run(t, open(t, plan, append(opts, merge.WithFailpoint(func(point string) {
					if point == "written" {
						chunks++
					}
				}))...))
				want := once.dump(t)

				often := emptyGame(t, target, cfg)
				second := *plan
				second.Target.DSN = often.dsn
				points := []string{
					"decided 1", "written 1", "recorded 1", "committed 1", "written " + strconv.Itoa(chunks-1), "finished 1",
				}
				if target.Dialect != "sqlite" { // which dies at each of them, and its processes start sooner
					points = []string{"written 1", "committed 1", "finished 1"}
				}
				if nightly.Enabled() { // every chunk has three points: the third of the first one is behind its commit
					points = strings.Split("any 1,any 1,any 3,any 2,any 4,any 5", ",")
				}
				if kills := killUntilDone(t, &second, portable, points); kills < nightly.Pick(len(points), 20) {
					t.Errorf("it was killed %d times only", kills)
				}
				same(t, "the target", often.dump(t), want)
				m := open(t, &second, opts...)
				verified(t, m)
				report, err := m.Run(t.Context())
				if err != nil || !report.Already || report.Rows != 0 {
					t.Errorf("run again: %+v, %v", report, err)
				}
				same(t, "the target, run again", often.dump(t), want)
				for i, s := range servers {
					same(t, "a source", s.dump(t), before[i])
				}
			})
		}
	})
}

// killUntilDone runs a plan in processes that die, each at the next of the points. At night they begin again at the
// first one until the merge has ended, so every chunk is met.
func killUntilDone(t *testing.T, plan *merge.Plan, portable string, points []string) (kills int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := plan.Save(path); err != nil {
		t.Fatal(err)
	}
	for ; kills < 1000; kills++ {
		point := points[kills%len(points)]
		if kills >= len(points) && !nightly.Enabled() {
			point = "none 1"
		}
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), planVariable+"="+path, wayVariable+"="+portable,
			pointVariable+"="+point)
		out, err := child.CombinedOutput()
		if err == nil {
			return kills
		}
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the process was to be killed, but: %v\n%s", err, out)
		}
	}
	t.Fatal("it never ended")
	return kills
}

func TestTheSecondOfTwoRunsIsRefused(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, target dbtest.Target) {
		_, _, plan := games(t, []dbtest.Target{target}, target, gameworld.Config{Roles: 20})
		second := open(t, plan)
		refusals := 0
		first := open(t, plan, merge.WithHooks(merge.Hooks{AfterTable: func(ctx context.Context, table string) error {
			if table == "accounts" {
				if _, err := second.Run(ctx); errors.Is(err, merge.ErrLocked) {
					refusals++
				} else {
					t.Errorf("the second run ended with %v", err)
				}
			}
			return nil
		}}))
		run(t, first)
		if refusals != 1 {
			t.Errorf("%d refusals", refusals)
		}
		if report, err := second.Run(t.Context()); err != nil || !report.Already {
			t.Errorf("when the first has ended: %+v, %v", report, err)
		}
	})
}
