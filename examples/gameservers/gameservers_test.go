package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
)

const want = `Two game servers, 4 goroutines each, filled side by side in <time>.
Joined into a third file by ATTACH and INSERT ... SELECT in <time>.

               server 1   server 2      world
players             800        800       1600
items              3200       3200       6400
sum of gold      400400     399800     800200
sum of items      16010      16010      32020

    0  keys stand on both servers; counted from 1, 4000 would
    0  of 8000 keys name another server than the one they came from
    0  foreign keys point nowhere
  800  players' names stand on both servers: that, no key can settle
`

func TestOutputReadsAsItShould(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`(?m)in [0-9.]+(ns|µs|ms|s)\.$`).ReplaceAllString(out.String(), "in <time>.")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTheJoinIsSeenFromOutside asks the joined file with SQL alone, which knows nothing of layouts
// but where the bits of the server are.
func TestTheJoinIsSeenFromOutside(t *testing.T) {
	dir, numbers := t.TempDir(), [2]int64{1, 2}
	paths, err := fillServers(t.Context(), dir, numbers)
	if err != nil {
		t.Fatal(err)
	}
	before := [2][sha256.Size]byte{sum(t, paths[0]), sum(t, paths[1])}
	target := filepath.Join(dir, "world.db")
	if _, err := joinFiles(t.Context(), target, paths, numbers); err != nil {
		t.Fatal(err)
	}
	if after := [2][sha256.Size]byte{sum(t, paths[0]), sum(t, paths[1])}; after != before {
		t.Error("the join has changed a file of a server")
	}
	world := reopen(t, target)
	for table, rows := range map[string]int64{"players": players, "items": items} {
		var found []struct{ Server, Rows int64 }
		err := world.Raw("SELECT (id >> 10) & 1048575 AS server, count(DISTINCT id) AS rows FROM " + table +
			" GROUP BY 1 ORDER BY 1").Scan(&found).Error
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != 2 || found[0].Server != 1 || found[1].Server != 2 ||
			found[0].Rows != rows || found[1].Rows != rows {
			t.Errorf("%s by the server in their keys: %v, want %d of 1 and of 2", table, found, rows)
		}
	}
	var strangers int64 // items that went to a player of another server
	err = world.Raw(`SELECT count(*) FROM items i LEFT JOIN players p ON p.id = i.player_id
		WHERE p.id IS NULL OR (p.id >> 10) & 1048575 <> (i.id >> 10) & 1048575`).Scan(&strangers).Error
	if err != nil || strangers != 0 {
		t.Errorf("%d items lost their player, %v", strangers, err)
	}
}

func TestServersThatShareKeysCannotBeJoined(t *testing.T) {
	dir := t.TempDir()
	paths, err := fillServers(t.Context(), dir, [2]int64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "world.db")
	// The same file twice, as if one number had been given to two servers.
	_, err = joinFiles(t.Context(), target, [2]string{paths[0], paths[0]}, [2]int64{1, 1})
	if err == nil || !strings.Contains(err.Error(), "UNIQUE constraint failed: players.id") {
		t.Fatalf("the join returned %v", err)
	}
	world := reopen(t, target)
	f, err := count(world, "main")
	if err != nil || f.Players != 0 || f.Items != 0 {
		t.Errorf("the failed join has left %+v, %v", f, err)
	}
}

func TestKeysOfAnotherServerAreNoticed(t *testing.T) {
	dir := t.TempDir()
	paths, err := fillServers(t.Context(), dir, [2]int64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	result, err := joinFiles(t.Context(), filepath.Join(dir, "world.db"), paths, [2]int64{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * (players + items); result.misplaced != want || result.read != want {
		t.Errorf("with the numbers exchanged %d of %d keys are foreign, want all %d",
			result.misplaced, result.read, want)
	}
}

func TestANumberBeyondTheLayoutIsRefused(t *testing.T) {
	number := generator.Game().MaxNode() + 1
	_, err := play(t.Context(), t.TempDir(), [2]int64{1, number})
	if err == nil || !strings.Contains(err.Error(), "server 1048576 does not fit") {
		t.Errorf("play with server %d returned %v", number, err)
	}
}

// reopen opens a joined file again, as whoever comes later would.
func reopen(t *testing.T, path string) *gorm.DB {
	t.Helper()
	world, err := openFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeFile(world); err != nil {
			t.Error(err)
		}
	})
	return world
}

func sum(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(data)
}
