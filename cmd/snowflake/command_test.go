package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/lease/gormlease"
	"github.com/snowflakeplugin/snowflakeplugin/segment/gormsegment"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

// testKeys are the keys in the environment, of which the first seals.
const testKeys = "000102030405060708090a0b0c0d0e0f 101112131415161718191A1B1C1D1E1F"

// call runs the program with arguments, three IDs on standard input, and an environment that holds a DSN if
// that is not empty.
func call(t *testing.T, dsn string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	in := strings.NewReader("249168410316800512\n0IPC1akZNCq\t\n249168410316800513")
	code = execute(t.Context(), args, &env{input: in, out: &out, err: &err, getenv: func(name string) string {
		switch name {
		case dsnVariable:
			return dsn
		case keyVariable:
			return testKeys
		}
		return ""
	}})
	return code, out.String(), err.String()
}

func TestEveryCallEndsAsItShould(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		code           int
		stdout, stderr string // patterns
	}{
		"":                         {2, `^$`, `inspect(.|\n)*usage error: a command is missing`},
		"help":                     {0, `nodes release(.|\n)*Exit codes`, `^$`},
		"--help":                   {0, `nodes release`, `^$`},
		"help inspect":             {0, `--base62(.|\n)*--layout NAME`, `^$`},
		"inspect --help":           {0, `snowflake inspect \[flags\] ID`, `^$`},
		"help nodes list":          {0, `SNOWFLAKE_DSN`, `^$`},
		"help help":                {0, `nodes release(.|\n)*Exit codes`, `^$`},
		"help nodes":               {0, `^snowflake nodes (.|\n)*nodes release(.|\n)*--until`, `^$`},
		"help merge":               {0, `^snowflake merge (.|\n)*merge verify(.|\n)*--renames`, `^$`},
		"help nosuch":              {2, `^$`, `no command "nosuch"`},
		"help inspect x":           {2, `^$`, `unexpected argument "x"`},
		"merge -h":                 {0, `snowflake merge check plan.yaml`, `^$`},
		"merge help run":           {0, `^snowflake merge run \[flags\] PLAN`, `^$`},
		"nodes --help":             {0, `snowflake nodes list --dsn`, `^$`},
		"nodes":                    {2, `^$`, `nodes release(.|\n)*missing, one of: list, release`},
		"merge":                    {2, `^$`, `merge plan(.|\n)*missing, one of: plan, check, run, verify`},
		"nodes drop":               {2, `^$`, `nodes: there is no command "drop", only: list, release`},
		"shards":                   {2, `^$`, `shards status(.|\n)*missing, one of: status`},
		"shards status x":          {2, `^$`, `unexpected argument "x"`},
		"shards status":            {2, `^$`, `SNOWFLAKE_DSN`},
		"shards status --table t":  {2, `^$`, `ends with snowflake_shards`},
		"segments":                 {2, `^$`, `segments raise(.|\n)*missing, one of: list, show, raise, residues`},
		"segments list":            {2, `^$`, `SNOWFLAKE_DSN`},
		"segments list a b":        {2, `^$`, `at most one prefix`},
		"segments show":            {2, `^$`, `exactly one name`},
		"segments raise orders":    {2, `^$`, `exactly two arguments`},
		"segments raise orders 0":  {2, `^$`, `"0" is not a number from 1 to 9223372036854775806`},
		"segments raise orders -5": {2, `^$`, `"-5"`},
		"segments raise orders 9223372036854775807": {2, `^$`, `9223372036854775807`},
		"segments raise orders 5x":                  {2, `^$`, `"5x"`},
		"segments residues orders":                  {2, `^$`, `at least one DSN`},
		"segments residues orders a.db a.db":        {2, `^$`, `databases 1 and 2 are one`},
		"segments residues orders $NOSUCH_DSN":      {2, `^$`, `\(\$NOSUCH_DSN\): the environment variable is not set`},
		"help segments raise":                       {0, `can never be lowered again(.|\n)*--dry-run`, `^$`},
		"nodes reserve":                             {2, `^$`, `exactly one node number`},
		"nodes reserve 7":                           {2, `^$`, `give --for`},
		"nodes reserve 1024 --for x":                {2, `^$`, `layout Default has the nodes 0 to 1023`},
		"seal 17":                                   {2, `^$`, `give --kind`},
		"seal --kind order":                         {2, `^$`, `at least one ID`},
		"seal --kind order x":                       {2, `^$`, `"x" is not a decimal ID`},
		"seal --kind order -17":                     {0, `^[0-9A-Za-z]{22}\n$`, `^$`},
		"open --kind order":                         {2, `^$`, `at least one text`},
		"open --kind order x":                       {1, `^$`, `"x" does not open as kind "order"`},
		"seal --kind order --key 0011 17":           {2, `^$`, `no flag "--key"`},
		"release 3":                                 {2, `^$`, `did you mean "nodes release"`},
		"version":                                   {0, `^snowflake \S+, .*go1\.`, `^$`},
		"--version":                                 {0, `^snowflake \S+, .*go1\.`, `^$`},
		"version x":                                 {2, `^$`, `"x"`},
		"completion":                                {2, `^$`, `bash, zsh, fish`},
		"completion tcsh":                           {2, `^$`, `no script for "tcsh"`},
		"frobnicate":                                {2, `^$`, `no command "frobnicate"`},
		"inspec 1":                                  {2, `^$`, `did you mean "inspect"`},
		"inspect":                                   {2, `^$`, `at least one ID`},
		"inspect x":                                 {2, `^$`, `"x" is neither a decimal ID nor a base62 form`},
		"inspect zzzzzzzzzzz":                       {2, `^$`, `zzzzzzzzzzz`},
		"inspect 0IPC1akZNCq":                       {0, anID, `^$`},
		"inspect 00000000017":                       {0, `^(.|\n)*\n17 `, `^$`},
		"inspect --base62 00000000017":              {0, `^(.|\n)*\n69 `, `^$`},
		"inspect -":                                 {0, `^made(.|\n)+\n249168410316800512  layout(.|\n)+\nmade(.|\n)+\nmade(.|\n)+\n249168410316800513  layout`, `^$`},
		"inspect --json - " + anID:                  {0, `^\[((.|\n)*"node": 744){4}`, `^$`},
		"inspect --layout JavaScript -":             {1, `^$`, `not an ID of this layout`},
		"inspect -5":                                {2, `^$`, `-5`},
		"inspect 9223372036854775808":               {2, `^$`, `9223372036854775808`},
		"inspect --layout JavaScript " + anID:       {1, `^$`, `not an ID of this layout`},
		"inspect --layout nosuch " + anID:           {2, `^$`, `no layout "nosuch"; there are Default`},
		"inspect --nosuch " + anID:                  {2, `^$`, `there is no flag "--nosuch"; see "snowflake help inspect"`},
		"nodes list --dsnpostgres://u:secret@h":     {2, `^$`, `^[^@]*there is no such flag[^@]*$`},
		"inspect " + anID:                           {0, `2026-11-19T13:46:18.344Z, (.|\n)*node +744\n(.|\n)*001000000000 `, `^$`},
		"inspect " + anID + " --layout twitter":     {0, `layout twitter`, `^$`},
		"inspect --base62 0IPC1akZNCq":              {0, anID, `^$`},
		"inspect --base62 " + anID:                  {2, `^$`, anID},
		"layout":                                    {0, `Game16Fast +37`, `^$`},
		"layout GAME":                               {0, `fingerprint +epoch=2025-01-01T00:00:00Z tick=100ms`, `^$`},
		"layout a b":                                {2, `^$`, `at most one name`},
		"range 2026-01-01 2026-01-02":               {0, `id >= (\d+) AND id < (\d+)`, `^$`},
		"range -24h now":                            {0, `id >= \d+\n`, `^$`},
		"range now -24h":                            {2, `^$`, `earlier time comes first`},
		"range 2026-01-01":                          {2, `^$`, `exactly two times`},
		"range 1999-01-01 now":                      {0, `id >= 0\n`, `^$`},
		"range now 2999-01-01":                      {0, `id < 9223372036854775807\n`, `^$`},
		"range now tomorrow":                        {2, `^$`, `"tomorrow" is not a time`},
		"new":                                       {2, `^$`, `--dsn or --node`},
		"new --node 7":                              {0, `^\d+\n$`, `^$`},
		"new -n 3 --node 7":                         {0, `^(\d+\n){3}$`, `^$`},
		"new --node 1024":                           {2, `^$`, `layout Default has the nodes 0 to 1023`},
		"new --node -7":                             {2, `^$`, `-7 is out of range`},
		"new -n x":                                  {2, `^$`, `snowflake help new`},
		"new -n 0 --node 7":                         {2, `^$`, `-n 0`},
		"new --node 7 --dsn x.db":                   {2, `^$`, `exclude`},
		"new 7":                                     {2, `^$`, `"7"`},
		"nodes list":                                {2, `^$`, `SNOWFLAKE_DSN`},
		"nodes list --dsn /no/such/file.db":         {2, `^$`, `no file of that name`},
		"nodes list x":                              {2, `^$`, `"x"`},
		"nodes release":                             {2, `^$`, `exactly one node number`},
		"nodes release x":                           {2, `^$`, `"x" is not a node number`},
		"nodes release -3":                          {2, `^$`, `"-3" is not a node number`},
		"nodes release 3 --until now":               {2, `^$`, `needs --force`},
		"nodes release 3 --force --until 2030":      {2, `^$`, `takes only "now"`},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := call(t, "", strings.Fields(args)...)
			if code != want.code || !regexp.MustCompile(want.stdout).MatchString(stdout) ||
				!regexp.MustCompile(want.stderr).MatchString(stderr) {
				t.Errorf("exit code %d, want %d\nstdout, want %s:\n%s\nstderr, want %s:\n%s", code, want.code,
					want.stdout, stdout, want.stderr, stderr)
			}
		})
	}
}

// anID is of node 744 in the default layout.
const anID = "249168410316800512"

// A condition such as "id >= 5" is printed as it is, and so is the name of a process in "nodes list".
func TestJSONIsNotEscapedForHTML(t *testing.T) {
	t.Parallel()
	_, stdout, _ := call(t, "", "range", "--json", "2026-01-01", "2026-01-02")
	if !strings.Contains(stdout, `"where": "id >= `) || !strings.Contains(stdout, " AND id < ") {
		t.Errorf("the condition is\n%s", stdout)
	}
	var out bytes.Buffer
	node := newNodeInfo(lease.Record{Node: 7, Owner: "a<b>&c"}, time.Now())
	if err := printJSON(&out, []nodeInfo{node}); err != nil || !strings.Contains(out.String(), `"a<b>&c"`) {
		t.Errorf("%v: the node is\n%s", err, &out)
	}
}

func TestJSONIsOneDocument(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"new --node 7 -n 3 --json", "inspect --json " + anID, "range --json 2026-01-01 2026-01-02",
		"layout --json", "layout game --json", "version --json",
	} {
		code, stdout, _ := call(t, "", strings.Fields(args)...)
		if !json.Valid([]byte(stdout)) || code != exitOK {
			t.Errorf("%s: exit code %d:\n%s", args, code, stdout)
		}
	}
	_, stdout, _ := call(t, "", "inspect", "--json", anID)
	if !strings.Contains(stdout, `"id": "`+anID+`"`) || !strings.Contains(stdout, `"node": 744`) {
		t.Errorf("the document of an ID is\n%s", stdout)
	}
}

// Every example of the help works as it is written there. The examples of merge have their own test.
func TestExamplesOfTheHelpWork(t *testing.T) {
	t.Chdir(t.TempDir())
	shop := openLeases(t, dbtest.Targets()[0])
	eu, err := gormlease.New(dbtest.Targets()[0].OpenDSN(t, shop.dsn, nil), gormlease.WithTable("eu_snowflake_nodes"))
	if err != nil {
		t.Fatal(err)
	}
	defer eu.Close()
	expired := lease.Record{Node: 17, Owner: "web", Until: time.Now().Add(-time.Hour), Version: 1,
		Layout: lease.Fingerprint(generator.Default()), UpdatedAt: time.Now()}
	for _, store := range []*gormlease.Store{shop.store, eu} {
		if ok, err := store.Swap(t.Context(), lease.Record{}, expired); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	file, _, _ := strings.Cut(strings.TrimPrefix(shop.dsn, "file://"), "?")
	if err := os.Symlink(file, "shop.db"); err != nil {
		t.Fatal(err)
	}
	numbers, err := gormsegment.New(dbtest.Targets()[0].OpenDSN(t, shop.dsn, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer numbers.Close()
	if _, err := numbers.Claim(t.Context(), "orders", 100); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"orders", "old_orders", "users"} {
		columns := " (id integer PRIMARY KEY, serial bigint)"
		err := dbtest.Targets()[0].OpenDSN(t, shop.dsn, nil).Exec("CREATE TABLE " + table + columns).Error
		if err != nil {
			t.Fatal(err)
		}
	}
	(leases{dsn: shop.dsn}).succeed(t, "segments", "raise", "orders", "5", "--create", "--table", "eu_segments")
	if err := os.Mkdir("migrations", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("opaque.key", []byte(strings.ReplaceAll(testKeys, " ", "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.db", "b.db", "game.db"} {
		one := openLeases(t, dbtest.Targets()[0])
		use(t, dbtest.Targets()[0], one.dsn, snowflakeplugin.WithLeasedNode(7))
		file, _, _ := strings.Cut(strings.TrimPrefix(one.dsn, "file://"), "?")
		if err := os.Symlink(file, name); err != nil {
			t.Fatal(err)
		}
		one.succeed(t, "segments", "raise", "tickets", "5", "--create")
	}
	help := map[string]string{}
	for _, c := range commands() {
		help[c.name] = c.help
	}
	for _, g := range groups() {
		help[g.name] = g.help
	}
	for name, text := range help {
		tried := 0
		for line := range strings.Lines(text) {
			example, found := strings.CutPrefix(strings.TrimSpace(line), "snowflake ")
			if !found || strings.Contains(example, ">") {
				continue
			}
			tried++
			if strings.HasPrefix(name, "merge") || strings.HasPrefix(name, "shards ") {
				continue // They need databases in a certain state, and their own tests have those.
			}
			args := strings.Fields(strings.ReplaceAll(example, `"$DSN"`, shop.dsn))
			if code, _, stderr := call(t, shop.dsn, args...); code != exitOK {
				t.Errorf("snowflake %s: exit code %d: %s", example, code, stderr)
			}
		}
		if tried == 0 {
			t.Errorf("the help of %s has no example", name)
		}
	}
}

// onFiles runs fn on SQLite, and at night on every database. It is for tests of a command that another test calls on
// a server as well, as dbtest.Each has them.
func onFiles(t *testing.T, fn func(t *testing.T, target dbtest.Target)) {
	t.Helper()
	dbtest.Run(t, nightly.Pick(dbtest.ServersOf("sqlite"), dbtest.Targets()), fn)
}

// TestMain lets the binary of the tests be the program, if it is called by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "snowflake" {
		main()
	}
	os.Exit(dbtest.Main(m))
}

// build returns the path of the program.
func build(t *testing.T) string {
	t.Helper()
	tests, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "snowflake")
	if err := os.Symlink(tests, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// The program itself passes the exit code on.
func TestTheProgramExits(t *testing.T) {
	t.Parallel()
	program := build(t)
	for args, want := range map[string]int{"layout": exitOK, "inspect --layout JavaScript " + anID: exitFailure, "x": exitUsage} {
		cmd := exec.CommandContext(context.Background(), program, strings.Fields(args)...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("snowflake %s: exit code %d, want %d", args, got, want)
		}
	}
}
