package main

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/snowflakeplugin/snowflakeplugin/merge"
)

func TestOutputReadsAsItShould(t *testing.T) {
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} { // as each system calls it
		t.Setenv(name, temp)
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`^Three game servers, filled side by side in [0-9.]+(ms|s)\. `,
		`(?m)^ +Realm 1 +Realm 2 +Realm 3$`,
		`(?m)^  roles +500 +500 +500$`,
		`(?m)^  gold of roles( +[0-9,]{9,}){3}$`,
		`(?m)^Checked in [0-9.]+(ms|s): resolved\. `,
		`(?m)^  guilds +rename +2 +2 +\. +\.  the older`,
		`(?m)^  roles +rename +48 +48 +\. +\.  the highest`,
		`(?m)^  rankings +rebuild +\. +\. +\. +600  `,
		`(?m)^  settings +keep_first +20 +\. +20 +\.  `,
		`(?m)^  counters +sum +8 +\. +8 +\.  `,
		`(?m)^  world +newest +2 +\. +2 +\.  `,
		`(?m)^  equal +Falcon0, \d+ +Falcon0, \d+ +Falcon0, \d+\n +(= keeps it) +> Falcon0\.s2-2 +> Falcon0\.s3$`,
		`(?m)^  case +HERON1, \d+ +heron1, \d+ +Heron1, \d+\n.*= keeps it`,
		`(?m)^  long .*\n.*> Falcon0龍+\.s\d`,
		`(?m)^Merged in [0-9.]+(ms|s), .*: [0-9,]{6} rows were copied, [0-9,]+ a second\.$`,
		`(?m)^Verified in [0-9.]+(ms|s): \d+ comparisons, 0 differ\.$`,
		`(?m)^ +counters +[0-9]+ before, +[0-9]+ after$`,
		`(?m)^ +seal [0-9a-f]{64}$`,
		`(?m)^  - .* those of Realm 1 by 0, Realm 2 by 1,000, Realm 3 by 2,000\.$`,
		`(?m)^  - [1-9]\d* letters carry the new name`,
		`(?m)^  - Server 2 is now 1, server 3 is now 1\. The numbers 2 and 3 are never used again\.$`,
		`(?m)^  - It was run once more, and 0 rows were written\.$`,
		`(?m)^  - 0 files of the servers were changed`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the report does not have %q", want)
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") || len([]rune(line)) > 110 {
			t.Errorf("blanks at the end, or too long: %q", line)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + out.String())
	}
}

// TestTheMergeIsSeenFromOutside makes one merge, and asks the target with SQL alone, which knows nothing of merges but where the
// bits of the server are in a key.
func TestTheMergeIsSeenFromOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := play(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("as it is", func(t *testing.T) { seenFromOutside(t, s, dir) })
	t.Run("the report says so if something differs", func(t *testing.T) { seenToDiffer(t, s, dir) })
}

func seenFromOutside(t *testing.T, s *story, dir string) {
	t.Helper()
	target := openTarget(t, dir)
	for _, c := range []struct {
		what, query string
		want        int64
	}{
		{"roles of three servers", "SELECT COUNT(DISTINCT id) FROM roles WHERE (id >> 10) & 1048575 IN (1, 2, 3)", 3 * roles},
		{"servers in the keys of items", "SELECT COUNT(DISTINCT (id >> 10) & 1048575) FROM items", 3},
		{"equal nicknames", "SELECT COUNT(*) - COUNT(DISTINCT LOWER(nickname)) FROM roles", 0},
		{"equal guilds", "SELECT COUNT(*) - COUNT(DISTINCT LOWER(name)) FROM guilds", 0},
		{"nicknames too long", "SELECT COUNT(*) FROM roles WHERE LENGTH(nickname) > 16", 0},
		{"letters with another name than their writer's", `SELECT COUNT(*) FROM mail JOIN roles ON roles.id = from_id
			WHERE from_name <> nickname`, 0},
		{"orphans", "SELECT COUNT(*) FROM pragma_foreign_key_check", 0},
		{"rankings", "SELECT COUNT(*) FROM rankings", 0},
		{"gold", "SELECT SUM(gold) FROM roles", s.realms[0].Gold + s.realms[1].Gold + s.realms[2].Gold},
		{"settings of Realm 1", "SELECT COUNT(*) FROM settings WHERE name = 'server_name' AND value = 'Realm 1'", 1},
		{"logins", "SELECT COUNT(DISTINCT id) FROM login_log", 3 * 2 * roles},
		{"logins of somebody else's role", `SELECT COUNT(*) FROM login_log WHERE (role_id >> 10) & 1048575 <>
			(login_log.id - 1) / 1000 + 1`, 0},
		{"damage to the boss", "SELECT amount FROM counters WHERE name = 'boss_damage'",
			s.realms[0].Counters["boss_damage"] + s.realms[1].Counters["boss_damage"] + s.realms[2].Counters["boss_damage"]},
	} {
		var got int64
		if err := target.QueryRowContext(t.Context(), c.query).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", c.what, got, err, c.want)
		}
	}
}

func TestWhatThePlanDoesNotDecideIsNotMerged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := prepare(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s.plan.Tables["guilds"] = &merge.TablePlan{Policy: merge.Copy}
	err = s.merge(t.Context())
	if !errors.Is(err, merge.ErrUndecided) || s.check.Verdict != merge.Undecided {
		t.Errorf("it ended with %v and the verdict %v", err, s.check.Verdict)
	}
	var n int64
	err = openTarget(t, dir).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM roles").Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("the target has %d roles, %v", n, err)
	}
}

// seenToDiffer changes the target.
func seenToDiffer(t *testing.T, s *story, dir string) {
	t.Helper()
	_, err := openTarget(t, dir).ExecContext(t.Context(), "UPDATE roles SET gold = gold + 1 WHERE id = ?",
		s.names[0].roles[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.verify, err = m.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	s.print(&out)
	for _, want := range []string{
		`comparisons, \d+ differ\.`, `DIFFERS: checksum of roles Realm 2 `, `DIFFERS: sum of roles `,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the report does not have %q", want)
		}
	}
}

func openTarget(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(dir, "merged.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
