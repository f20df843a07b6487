package resharding_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/internal/router"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

const (
	// killsVariable is how often a process that reshards is killed on each database.
	killsVariable = "SNOWFLAKE_RESHARD_KILLS"
	// crewVariable turns the test binary into a process of the fleet.
	crewVariable = "SNOWFLAKE_TEST_RESHARD_CREW"
	// fewKills is for the nightly tier.
	fewKills = 4
	// keptFrom is the number of shards, and keptRows how many rows nobody changes.
	keptFrom = 2
	keptRows = 120
)

// kept is the sharded model. Every write of a row is also noted in the table kept_controls of the database that
// the row is in, in the same transaction.
type kept struct {
	ID     snowflakeplugin.ID `gorm:"primaryKey" snowflake:"true"`
	Writer string             `gorm:"size:20"`
	N      int64
	Code   string `gorm:"size:40;uniqueIndex:uq_kept_code"`
}

// Processes that reshard or go back are killed at random statements, while three processes write and two
// read. Whatever is left behind, the next process goes on. In the end, plain SQL finds every row once, where it
// belongs, and no reader has had a part of an answer. In the second round there are two databases, so processes
// are killed between the records of them, too, and the rows of one shard move to the other database.
func TestNoRowIsLostWhenReshardingsAreKilled(t *testing.T) {
	if spec := os.Getenv(crewVariable); spec != "" {
		beCrew(t, spec)
		return
	}
	t.Parallel()
	kills, err := strconv.Atoi(os.Getenv(killsVariable))
	if err != nil {
		kills = nightly.Pick(0, fewKills)
	}
	each(t, func(t *testing.T, target dbtest.Target) {
		if kills == 0 { // One kill in each state is enough, and two databases have all states that one has.
			t.Run("2", func(t *testing.T) { killReshardings(t, target, 2, []string{"write", "read"}, killOnce) })
			return
		}
		crew := []string{"write", "write", "write", "read", "read"}
		for databases := 1; databases <= 2; databases++ {
			t.Run(fmt.Sprint(databases), func(t *testing.T) {
				killReshardings(t, target, databases, crew, func(run func(role string, node, steps int) (killed bool)) {
					killAtRandom(t, kills, run)
				})
			})
		}
	})
}

// killOnce kills a process in each of the states of a resharding. On a database where a step needs fewer
// statements, one of them may end before.
func killOnce(run func(role string, node, steps int) (killed bool)) {
	for _, steps := range []int{60, 120, 140, 180} {
		run("forward", 30+steps/10%2, steps)
	}
	run("back", 31, 60)
}

func killAtRandom(t *testing.T, kills int, run func(role string, node, steps int) (killed bool)) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	done, rounds := 0, 0
	for done < kills {
		role := []string{"forward", "forward", "back"}[random.IntN(3)]
		steps := 1 + random.IntN([]int{30, 150, 400}[random.IntN(3)])
		if run(role, 30+random.IntN(2), steps) {
			done++
		}
		if rounds++; rounds > 20*kills {
			t.Fatalf("%d of %d processes were killed", done, rounds)
		}
	}
}

func killReshardings(
	t *testing.T, target dbtest.Target, databases int, roles []string,
	plan func(run func(role string, node, steps int) (killed bool)),
) {
	var dsns []string
	for range databases {
		dsns = append(dsns, target.DSN(t))
	}
	dsn := strings.Join(dsns, dsnSeparator)
	dbs := openKept(t, target, dsn, 40, 0)
	r, err := keptRouter(dbs, keptFrom)
	must(t, err, "NewRouter")
	must(t, r.AutoMigrate(t.Context()), "AutoMigrate")
	for _, db := range dbs {
		must(t, db.Exec("UPDATE snowflake_shards SET lease_millis = 500").Error, "a short lease")
		must(t, db.Exec("CREATE TABLE kept_controls (id BIGINT NOT NULL, writer VARCHAR(20) NOT NULL, "+
			"n BIGINT NOT NULL, gone INT NOT NULL, PRIMARY KEY (id, n))").Error, "the control table")
	}
	static := make([]kept, keptRows)
	for i := range static {
		static[i] = kept{Writer: "nobody", N: int64(i), Code: fmt.Sprint("nobody ", i)}
	}
	must(t, r.Create(t.Context(), static), "Create")
	for _, row := range static {
		must(t, noteKept(dbs[0], row.ID, row.Writer, row.N, 0), "the control rows")
	}
	var crew []*member
	for i, role := range roles {
		crew = append(crew, startCrew(t, fmt.Sprintf("%s %d 0 %s %s", role, i+1, target.Name, dsn)))
		crew[i].await("begun")
	}
	done, rounds, left := 0, 0, map[string]int{}
	plan(func(role string, node, steps int) bool {
		rounds++
		if startCrew(t, fmt.Sprintf("%s %d %d %s %s", role, node, steps, target.Name, dsn)).survived() {
			return false
		}
		done++
		left[stateOf(t, dbs)]++
		return true
	})
	if done == 0 {
		t.Error("no process was killed")
	}
	for _, role := range []string{"forward", "clean"} {
		if !startCrew(t, fmt.Sprintf("%s 31 0 %s %s", role, target.Name, dsn)).survived() {
			t.Fatalf("the last step, %s, failed", role)
		}
	}
	stored, reads, longest := 0, 0, 0
	for i, m := range crew {
		m.send("end")
		var n, stop int
		_, err := fmt.Sscanf(m.await("did"), "did %d, longest %d", &n, &stop)
		must(t, err, "what the process did")
		if roles[i] == "write" {
			stored, longest = stored+n, max(longest, stop)
		} else {
			reads += n
		}
		for m.lines.Scan() {
		}
		must(t, m.cmd.Wait(), "the process")
	}
	checkKept(t, dbs)
	if stored == 0 || reads == 0 {
		t.Errorf("%d writes and %d reads", stored, reads)
	}
	t.Logf("%s, databases: %d: %d kills in %d processes, %d writes, %d whole answers; writes stopped for %d ms "+
		"at most", target.Name, databases, done, rounds, stored, reads, longest)
	for state, times := range left {
		t.Logf("%2d kills left behind: %s", times, state)
	}
}

// stateOf is the state that a process has left behind.
func stateOf(t *testing.T, dbs []*gorm.DB) string {
	t.Helper()
	d, err := router.OpenResharding(t.Context(), router.ReshardConfig{Databases: dbs})
	must(t, err, "OpenResharding")
	if d == nil {
		return "nothing"
	}
	status, err := router.ReadStatus(t.Context(), dbs, d)
	must(t, err, "ReadStatus")
	return status.Resharding.State
}

// noteKept notes what has become of a row: it has a new number, or it is gone.
func noteKept(tx *gorm.DB, id snowflakeplugin.ID, writer string, n int64, gone int) error {
	return tx.Exec("INSERT INTO kept_controls (id, writer, n, gone) VALUES (?, ?, ?, ?)", id, writer, n, gone).Error
}

// checkKept compares the tables with the last note of each row, without the router.
func checkKept(t *testing.T, dbs []*gorm.DB) {
	t.Helper()
	type row struct {
		ID     int64
		Writer string
		N      int64
		Gone   int
	}
	want, found := map[int64]row{}, map[int64]row{}
	for i, db := range dbs {
		var notes []row
		must(t, db.Raw("SELECT id, writer, n, gone FROM kept_controls").Scan(&notes).Error, "the control rows")
		for _, note := range notes {
			if last, seen := want[note.ID]; !seen || note.N > last.N {
				want[note.ID] = note
			}
		}
		for shard := range 2 * keptFrom {
			table := fmt.Sprintf("kepts_%02d", shard)
			if keptPlace(len(dbs))(shard) != i {
				same(t, table+" is in another database, too", db.Migrator().HasTable(table), false)
				continue
			}
			var rows []row
			must(t, db.Raw("SELECT id, writer, n FROM "+table).Scan(&rows).Error, "the rows")
			for _, r := range rows {
				if _, twice := found[r.ID]; twice || r.ID%(2*keptFrom) != int64(shard) {
					t.Errorf("row %d is in the table of shard %d; twice: %v", r.ID, shard, twice)
				}
				found[r.ID] = r
			}
		}
	}
	for id, note := range want {
		if note.Gone != 0 {
			delete(want, id)
		}
	}
	lost, wrong := 0, 0
	for _, r := range want {
		switch other, ok := found[r.ID]; {
		case !ok:
			lost++
		case other != r:
			wrong++
		}
	}
	if lost > 0 || wrong > 0 || len(found) != len(want) {
		t.Errorf("%d rows of %d are lost and %d wrong; %d were found", lost, len(want), wrong, len(found))
	}
}

// dsnSeparator is between the DSNs of two databases.
const dsnSeparator = " and "

// openKept opens the databases for a process with a node of its own. The process is killed after a number of
// statements in one of them, unless that is 0.
func openKept(t *testing.T, target dbtest.Target, dsns string, node int64, steps int) []*gorm.DB {
	t.Helper()
	var dbs []*gorm.DB
	plugin := snowflakeplugin.New(silent(), snowflakeplugin.WithNode(node))
	for dsn := range strings.SplitSeq(dsns, dsnSeparator) {
		db := target.OpenDSN(t, dsn, nil)
		if steps > 0 {
			dbtest.KillAfter(t, db, steps)
		}
		must(t, db.Use(plugin), "Use")
		dbs = append(dbs, db)
	}
	return dbs
}

// keptPlace is the place of each shard. With two databases, the rows of the first shard move from one to the
// other, and those of the second stay in theirs.
func keptPlace(databases int) func(shard int) int {
	return func(shard int) int { return min(shard, databases-1) }
}

func keptRouter(dbs []*gorm.DB, shards int) (*snowflakeplugin.Router, error) {
	return snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{
		Shards: shards, Databases: dbs, Place: keptPlace(len(dbs)),
	}, &kept{})
}

// startCrew starts a process with a role.
func startCrew(t *testing.T, spec string) *member {
	t.Helper()
	return startProcess(t, "TestNoRowIsLostWhenReshardingsAreKilled", crewVariable+"="+spec)
}

// survived waits for the end of a process that reshards. It returns false if that was killed, and fails if
// the process failed.
func (m *member) survived() bool {
	m.Helper()
	said := ""
	for m.lines.Scan() {
		said += m.lines.Text() + "\n"
	}
	err := m.cmd.Wait()
	if err == nil {
		return true
	}
	if !strings.Contains(err.Error(), "killed") {
		m.Fatalf("a process that reshards ended with %v:\n%s", err, said)
	}
	return false
}

func beCrew(t *testing.T, spec string) {
	t.Helper()
	words := strings.SplitN(spec, " ", 5)
	node, err := strconv.ParseInt(words[1], 10, 64)
	must(t, err, "the node")
	steps, err := strconv.Atoi(words[2])
	must(t, err, "the steps")
	dbs := openKept(t, named(words[3]), words[4], node, steps)
	switch words[0] {
	case "write":
		writeKept(t, dbs)
	case "read":
		readKept(t, dbs)
	default:
		takeStep(t, dbs, words[0], node%2 == 0)
	}
}

// takeStep goes on with whatever is under way. It has the router of a program, or only the databases, as the
// command has.
func takeStep(t *testing.T, dbs []*gorm.DB, role string, bare bool) {
	t.Helper()
	ctx := t.Context()
	d, err := router.OpenResharding(ctx, router.ReshardConfig{Databases: dbs, Chunk: 50})
	must(t, err, "OpenResharding")
	switch {
	case role == "clean":
		must(t, d.Clean(ctx), "Clean")
		return
	case role == "back" && d != nil:
		must(t, d.Undo(ctx), "Undo")
		return
	case role == "back":
		return // There is nothing to undo.
	case d != nil && bare:
		if err := d.Resume(ctx); !errors.Is(err, snowflakeplugin.ErrSharding) {
			must(t, err, "Resume")
			return
		}
		must(t, d.Undo(ctx), "Undo of what is being undone")
	}
	r, err := keptRouter(dbs, keptFrom)
	if err != nil {
		r, err = keptRouter(dbs, 2*keptFrom)
		must(t, err, "NewRouter")
		pending, err := r.PendingCleanup()
		must(t, err, "PendingCleanup")
		if pending == nil {
			t.Fatal("the cutover is over, and no cleanup is pending")
		}
		if d, err := router.OpenResharding(ctx, router.ReshardConfig{Databases: dbs}); err != nil || d == nil {
			t.Fatal("no journal", err)
		} else if d.Resume(ctx) == nil {
			return
		}
		must(t, pending.Undo(ctx), "Undo") // The router follows.
	}
	config := snowflakeplugin.ReshardConfig{Chunk: 50, Place: keptPlace(len(dbs))}
	again, err := r.Reshard(ctx, config)
	if err != nil && d != nil { // It is being undone.
		must(t, d.Undo(ctx), "Undo")
		again, err = r.Reshard(ctx, config)
	}
	must(t, err, "Reshard")
	_, err = again.Cutover(ctx)
	must(t, err, "Cutover")
}
