package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
)

// counters is a database with a store of counters, and its DSN as the command accepts it.
type counters struct {
	leases

	store *gormsegment.Store
}

func openCounterStore(t *testing.T, target dbtest.Target) counters {
	t.Helper()
	dsn := target.DSN(t)
	store, err := gormsegment.New(target.OpenDSN(t, dsn, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return counters{leases{dsn: dsn}, store}
}

// claim takes numbers as a program does, and returns the first.
func (c counters) claim(t *testing.T, name string, n int64) int64 {
	t.Helper()
	first, err := c.store.Claim(t.Context(), name, n)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// ticket takes one number with a residue.
func (c counters) ticket(t *testing.T, remainder, modulus int64) (int64, error) {
	t.Helper()
	terms := segment.AnyTerms()
	terms.Remainder, terms.Modulus = remainder, modulus
	return c.store.ClaimOn(t.Context(), "tickets", 100, terms)
}

func TestCountersAreListedAndShownAsTheyAre(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		c := openCounterStore(t, target)
		if got := c.succeed(t, "segments", "list"); !strings.Contains(got, "has no counter") {
			t.Errorf("an empty table is listed as\n%s", got)
		}
		c.claim(t, "orders", 100)
		c.claim(t, "order", 9)
		c.claim(t, "größe", 1)
		if _, err := c.ticket(t, 1, 2); err != nil {
			t.Fatal(err)
		}
		got := c.succeed(t, "segments", "list")
		has(t, got, "orders", "101", "none", "tickets", "1 mod 2", "größe")
		if got := c.succeed(t, "segments", "list", "order"); strings.Contains(got, "tickets") || strings.Count(got, "order") != 2 {
			t.Errorf("those that begin with \"order\" are\n%s", got)
		}
		infos := decode[[]counterInfo](t, c.succeed(t, "segments", "list", "ticket", "--json"))
		if len(infos) != 1 || infos[0].Name != "tickets" || infos[0].Remainder != 1 || infos[0].Modulus != 2 ||
			infos[0].State != stateOpen || infos[0].Left == nil || infos[0].Next+*infos[0].Left-1 != lastNumber {
			t.Errorf("as JSON: %+v", infos)
		}
		has(t, c.succeed(t, "segments", "show", "order"), "next", "10", "9223372036854775797", "none", "open")
		c.claim(t, "full", lastNumber)
		full := decode[counterInfo](t, c.succeed(t, "segments", "show", "full", "--json"))
		if full.State != stateFull || full.Left == nil || *full.Left != 0 {
			t.Errorf("a counter that is used up: %+v", full)
		}
		code, stdout, stderr := call(t, c.dsn, "segments", "show", "orde")
		if code != exitFailure || stdout != "" || !strings.Contains(stderr, `no counter "orde"`) {
			t.Errorf("the beginning of a name: exit code %d, %s%s", code, stdout, stderr)
		}
	})
}

// How many digits the numbers of a day have is an option of the programs, which the database does not know.
func TestOfADailyCounterNobodyIsToldHowManyNumbersAreLeft(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		c := openCounterStore(t, target)
		source, err := segment.Daily(c.store, "invoice", 6, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		number, err := source.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("invoice/%d", number/1_000_000)
		got := c.succeed(t, "segments", "show", name)
		has(t, got, "daily", "open", "next     2")
		if strings.Contains(got, "left") {
			t.Errorf("a daily counter is shown as\n%s", got)
		}
		for _, args := range [][]string{{"show", name}, {"list", name}} {
			text := c.succeed(t, append(append([]string{"segments"}, args...), "--json")...)
			if strings.Contains(text, `"left"`) || !strings.Contains(text, `"next": "2"`) {
				t.Errorf("%v: as JSON\n%s", args, text)
			}
		}
	})
}

func TestARaisedCounterGoesOnFromThere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		c := openCounterStore(t, target)
		c.claim(t, "orders", 100)

		has(t, c.succeed(t, "segments", "raise", "orders", "5000", "--dry-run"), "would go on from 5000", "skips 4899")
		if first := c.claim(t, "orders", 1); first != 101 {
			t.Errorf("a look has moved the counter to %d", first)
		}
		has(t, c.succeed(t, "segments", "raise", "orders", "5000"), "now goes on from 5000", "was at 102")
		if first := c.claim(t, "orders", 1); first != 5000 {
			t.Errorf("the first number after it was raised is %d", first)
		}
		has(t, c.succeed(t, "segments", "raise", "orders", "7"), "is at 5001 already")
		if first := c.claim(t, "orders", 1); first != 5001 {
			t.Errorf("a lower number has moved the counter to %d", first)
		}

		at := decode[raised](t, c.succeed(t, "segments", "raise", "orders", "5002", "--json"))
		if at.Changes || at.Before == nil || at.After == nil || at.After.Next != 5002 {
			t.Errorf("a counter that is at the number already: %+v", at)
		}

		// A mistyped name makes no counter.
		code, _, stderr := call(t, c.dsn, "segments", "raise", "oders", "9000")
		if code != exitFailure || !strings.Contains(stderr, "--create") {
			t.Errorf("another name: exit code %d, %s", code, stderr)
		}
		var result raised
		text := c.succeed(t, "segments", "raise", "oders", "9000", "--create", "--dry-run", "--json")
		if err := json.Unmarshal([]byte(text), &result); err != nil || result.Before != nil || result.After != nil || !result.Changes {
			t.Errorf("%v: a look as JSON is\n%s", err, text)
		}
		if got := c.succeed(t, "segments", "list"); strings.Contains(got, "oders") {
			t.Errorf("there is a counter that nobody asked for:\n%s", got)
		}
		c.succeed(t, "segments", "raise", "oders", "9000", "--create")
		if first := c.claim(t, "oders", 1); first != 9000 {
			t.Errorf("a counter that was created begins at %d", first)
		}
	})
}

func TestACounterThatWentBackIsRaisedAboveAColumn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		c := openCounterStore(t, target)
		source, err := segment.New(c.store, "orders", segment.WithBlock(1, 1), segment.WithMaxWait(time.Minute),
			segment.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = source.Close() })
		next := func(want int64) {
			t.Helper()
			if n, err := source.Next(t.Context()); err != nil || n != want {
				t.Errorf("the next number is %d, %v, want %d", n, err, want)
			}
		}
		for n := range int64(7) {
			next(n + 1)
		}
		db := target.OpenDSN(t, c.dsn, nil)
		for _, statement := range []string{
			"UPDATE snowflake_segments SET next = 3 WHERE name = 'orders'",
			"CREATE TABLE sales (serial bigint, title varchar(20), unused bigint)",
			"INSERT INTO sales (serial, title) VALUES (9, '9'), (19, '10')",
		} {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
		if _, err := source.Next(t.Context()); !errors.Is(err, segment.ErrWentBack) {
			t.Errorf("the error is %v", err)
		}
		has(t, c.succeed(t, "segments", "list"), stateBack)
		has(t, c.succeed(t, "segments", "show", "orders"), stateBack, "up to 7", "segment")
		info := decode[counterInfo](t, c.succeed(t, "segments", "show", "orders", "--json"))
		if info.State != stateBack || info.Claimed != 7 || info.Kind != "segment" || info.Next != 3 {
			t.Errorf("as JSON it is %+v", info)
		}
		for _, refused := range []struct {
			args []string
			code int
			says string
		}{
			{[]string{"raise", "orders", "7"}, exitFailure, "numbers up to 7 were claimed"},
			{[]string{"residues", "orders", c.dsn}, exitFailure, "raise"},
			{[]string{"raise", "orders", "--above", "sales"}, exitUsage, "a table and its column"},
			{[]string{"raise", "orders", "--above", "sales.title"}, exitFailure, "no number"},
			{[]string{"raise", "orders", "--above", "sales.nosuch"}, exitFailure, "nosuch"},
		} {
			code, stdout, stderr := call(t, c.dsn, append([]string{"segments"}, refused.args...)...)
			if code != refused.code || stdout != "" || !strings.Contains(stderr, refused.says) {
				t.Errorf("%q: exit code %d, %s%s", refused.args, code, stdout, stderr)
			}
		}
		has(t, c.succeed(t, "segments", "raise", "orders", "--above", "sales.unused", "--dry-run"), "would go on from 8")
		has(t, c.succeed(t, "segments", "raise", "orders", "5", "--above", "sales.serial", "--above", "sales.unused"),
			"now goes on from 20", "was at 3", "had gone back")
		next(20)
	})
}

func TestTwoTicketServersBecomeThree(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		a, b, fresh := openCounterStore(t, target), openCounterStore(t, target), openCounterStore(t, target)
		given := int64(0)
		for range 3 {
			if _, err := a.ticket(t, 0, 2); err != nil {
				t.Fatal(err)
			}
			first, err := b.ticket(t, 1, 2)
			if err != nil {
				t.Fatal(err)
			}
			given = first + 99
		}
		unchanged := func(when string) {
			t.Helper()
			for remainder, s := range []counters{a, b} {
				counter, err := counterOf(t.Context(), s.store, "tickets")
				if err != nil || counter == nil || counter.Next != given+1 || counter.Modulus != 2 ||
					counter.Remainder != int64(remainder) {
					t.Errorf("%s, the counter is %+v, %v", when, counter, err)
				}
			}
		}
		a.succeed(t, "segments", "residues", "tickets", a.dsn, b.dsn, fresh.dsn, "--dry-run")
		unchanged("after a look")

		code, _, stderr := call(t, "", "segments", "residues", "tickets", a.dsn, fresh.dsn)
		if code != exitRefused || !strings.Contains(stderr, "only these remainders of it: [0]") {
			t.Errorf("without the second: exit code %d, %s", code, stderr)
		}
		code, _, stderr = call(t, "", "segments", "residues", "tickets", a.dsn, b.dsn, b.dsn)
		if code != exitUsage || !strings.Contains(stderr, "2 and 3 are one and the same") {
			t.Errorf("one twice: exit code %d, %s", code, stderr)
		}
		code, _, stderr = call(t, b.dsn, "segments", "residues", "tickets", a.dsn, b.dsn, otherSpelling(b.dsn), "--force")
		if code != exitUsage || !strings.Contains(stderr, "with different DSNs") {
			t.Errorf("one twice in two spellings: exit code %d, %s", code, stderr)
		}
		code, _, stderr = call(t, "", "segments", "residues", "ticket", a.dsn, b.dsn)
		if code != exitFailure || !strings.Contains(stderr, "mistyped") {
			t.Errorf("another name: exit code %d, %s", code, stderr)
		}
		code, _, stderr = call(t, "", "segments", "residues", "ticket", a.dsn, b.dsn, "--force")
		if code != exitFailure || !strings.Contains(stderr, "mistyped") {
			t.Errorf("another name by force: exit code %d, %s", code, stderr)
		}
		unchanged("after refusals")

		got := b.succeed(t, "segments", "residues", "tickets", a.dsn, "$"+dsnVariable, fresh.dsn)
		if strings.Contains(got, a.dsn) || strings.Contains(got, b.dsn) || !strings.Contains(got, "database 2 ($"+dsnVariable+")") {
			t.Errorf("it prints\n%s", got)
		}
		if _, err := a.ticket(t, 0, 2); !errors.Is(err, segment.ErrResidue) {
			t.Errorf("a program with the old residue: %v", err)
		}
		for remainder, s := range []counters{a, b, fresh} {
			first, err := s.ticket(t, int64(remainder), 3)
			if err != nil || first <= given {
				t.Errorf("database %d goes on from %d after %d, %v", remainder+1, first, given, err)
			}
			if got := s.succeed(t, "segments", "list"); strings.Count(got, "\n") != 2 {
				t.Errorf("it has left more than the counter:\n%s", got)
			}
		}

		// The second server is out of use for good, and its numbers are known to be used up.
		a.succeed(t, "segments", "residues", "tickets", a.dsn, fresh.dsn, "--force")
		for remainder, s := range []counters{a, fresh} {
			if _, err := s.ticket(t, int64(remainder), 2); err != nil {
				t.Errorf("after --force database %d: %v", remainder+1, err)
			}
		}
	})
}

// A run that was interrupted has left some counters frozen, so it can be repeated.
func TestResiduesThatWereInterruptedAreSetByAnotherRun(t *testing.T) {
	t.Parallel()
	onFiles(t, func(t *testing.T, target dbtest.Target) {
		a, b := openCounterStore(t, target), openCounterStore(t, target)
		for remainder, s := range []counters{a, b} {
			if _, err := s.ticket(t, int64(remainder), 2); err != nil {
				t.Fatal(err)
			}
		}
		counters, err := b.store.Counters(t.Context(), "tickets")
		if err != nil || len(counters) != 1 {
			t.Fatal(counters, err)
		}
		frozen := counters[0]
		frozen.Modulus, frozen.Remainder = 0, 0
		if ok, err := b.store.Change(t.Context(), counters[0], frozen); !ok || err != nil {
			t.Fatal(ok, err)
		}
		has(t, b.succeed(t, "segments", "show", "tickets"), stateFrozen)
		has(t, b.succeed(t, "segments", "raise", "tickets", "700"), "It is frozen")
		out := a.succeed(t, "segments", "residues", "tickets", a.dsn, b.dsn, "--json")
		infos := decode[[]ticketServer](t, out)
		if len(infos) != 2 || infos[1].Before.State != stateFrozen || infos[1].After.State != stateOpen || infos[0].After.Next != 700 {
			t.Errorf("it prints\n%s", out)
		}
		if first, err := b.ticket(t, 1, 2); err != nil || first != 700 {
			t.Errorf("the second goes on from %d, %v", first, err)
		}
	})
}

func TestADatabaseWithoutCountersIsNotChangedByALook(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, target dbtest.Target) {
		dsn := target.DSN(t)
		db := target.OpenDSN(t, dsn, nil)
		if err := db.Exec("CREATE TABLE something (id int)").Error; err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			args   []string
			code   int
			stdout string
		}{
			{[]string{"segments", "list"}, exitOK, ""},
			{[]string{"segments", "list", "--json"}, exitOK, "[]\n"},
			{[]string{"segments", "list", "--table", "numbers"}, exitFailure, ""},
			{[]string{"segments", "show", "orders"}, exitFailure, ""},
			{[]string{"segments", "raise", "orders", "5"}, exitFailure, ""},
		} {
			code, stdout, stderr := call(t, dsn, c.args...)
			if code != c.code || stdout != c.stdout || !strings.Contains(stderr, "the database has no table ") {
				t.Errorf("%q: exit code %d, it printed %q and said %s", c.args, code, stdout, stderr)
			}
		}
		l := leases{dsn: dsn}
		has(t, l.succeed(t, "segments", "raise", "orders", "5", "--create", "--dry-run"), "would go on from 5", "It is new")
		if db.Migrator().HasTable(defaultCounters) {
			t.Error("to look made the table")
		}
		has(t, l.succeed(t, "segments", "raise", "orders", "5", "--create"), "now goes on from 5")
		has(t, l.succeed(t, "segments", "show", "orders"), "5")
	})
}

// otherSpelling returns a DSN of the same database.
func otherSpelling(dsn string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&"
	}
	return dsn + "?"
}
