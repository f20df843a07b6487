//go:build unix

package faults_test

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/snowflakeplugin/snowflakeplugin"
	"github.com/snowflakeplugin/snowflakeplugin/resharding"
	"github.com/snowflakeplugin/snowflakeplugin/test/dbtest"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

// Every node of a Galera cluster takes writes. Two that conflict are found when they are committed.
func TestAClusterWhoseNodesAreAllWrittenToRepeatsAndLosesNothing(t *testing.T) {
	nightly.Only(t, "three servers take two minutes; TestSwapsThatAreNotAnsweredNeitherRepeatNorLoseANumber "+
		"has one")
	parent, nodes := t, newCluster(t, 3)
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)))
	}
	for _, leaf := range []struct {
		name string
		dsns func(t *testing.T) []string
	}{
		{"each process keeps to a node", func(*testing.T) (dsns []string) {
			for _, n := range nodes {
				dsns = append(dsns, n.dsn(n.port))
			}
			return dsns
		}},
		{"each connection goes to the next node", func(t *testing.T) []string {
			return []string{nodes[0].dsn(newProxy(t, 0, addresses...).port())}
		}},
	} {
		t.Run(leaf.name, func(t *testing.T) {
			complainTo(nodes, t)
			t.Cleanup(func() { complainTo(nodes, parent) })
			nodes[0].admin("CREATE OR REPLACE DATABASE faults")
			disturbCluster(t, nodes, leaf.dsns(t))
		})
	}
}

// complainTo sets the test that fails if something is wrong with the servers.
func complainTo(nodes []*server, t *testing.T) { //nolint:thelper // it fails nothing itself
	for _, n := range nodes {
		n.t = t
	}
}

// A lock of tables holds on one node, and writes of the others would come to it too late.
func TestShardsOfAGaleraClusterAreNotChanged(t *testing.T) {
	nightly.Only(t, "a server of its own takes some seconds; TestWhatCannotMoveIsRefusedByName has other refusals")
	node := newCluster(t, 1)[0]
	node.admin("CREATE DATABASE faults")
	db := node.target.OpenDSN(t, node.patientDSN(node.port), nil)
	plugin := snowflakeplugin.New(snowflakeplugin.WithNode(1))
	if err := db.Use(plugin); err != nil {
		t.Fatal(err)
	}
	type parcel struct {
		ID int64 `gorm:"primaryKey" snowflake:"true"`
	}
	router, err := snowflakeplugin.NewRouter(snowflakeplugin.ShardingConfig{Shards: 2, Databases: []*gorm.DB{db}}, &parcel{})
	if err == nil {
		err = router.AutoMigrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := db.Migrator().GetTables()
	if err != nil {
		t.Fatal(err)
	}
	_, err = resharding.Split(t.Context(), router, resharding.Class{Residue: 0, Modulus: 2}, 2)
	if !errors.Is(err, snowflakeplugin.ErrSharding) || !strings.Contains(err.Error(), "wsrep_on is ON") {
		t.Errorf("Split says %v, want that the server belongs to a cluster", err)
	}
	if after, err := db.Migrator().GetTables(); err != nil || !slices.Equal(before, after) {
		t.Errorf("Split has made tables: %v before, and now %v (%v)", before, after, err)
	}
}

// newCluster starts servers of MariaDB that are one Galera cluster.
func newCluster(t *testing.T, size int) []*server {
	t.Helper()
	f := privateServer("mariadb")
	library := f
	library.folders = []string{"/usr/lib/galera*", "/usr/lib64/galera*", "/usr/lib/*-linux-gnu/galera*"}
	provider := library.find(t, "libgalera_smm.so")
	f.find(t, "rsync")
	var group []string
	for range size {
		group = append(group, "127.0.0.1:"+servers.Reserve(t))
	}
	others := "" // the first node begins the cluster
	var nodes []*server
	for _, address := range group {
		_, base, _ := net.SplitHostPort(address)
		ist, sst := servers.Reserve(t), servers.Reserve(t)
		node := f
		if len(nodes) > 0 {
			node.programs = []string{"mkdir", f.programs[1]} // its files are copied from another node
			node.install = func(dir string) []string { return []string{dir} }
		}
		node.serve = func(dir string, port, connections int) []string {
			return append(f.serve(dir, port, connections),
				"--wsrep-on=ON", "--wsrep-provider="+provider, "--wsrep-cluster-address=gcomm://"+others,
				"--wsrep-provider-options=base_port="+base+";gmcast.listen_addr=tcp://"+address+
					";ist.recv_addr=127.0.0.1:"+ist,
				"--wsrep-node-address=127.0.0.1", "--wsrep-node-name=on port "+strconv.Itoa(port),
				"--wsrep-sst-method=rsync", "--wsrep-sst-receive-address=127.0.0.1:"+sst,
				"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-log-file-size=8M",
				"--wsrep-slave-threads=4",
			)
		}
		nodes = append(nodes, startServer(t, node))
		others = strings.Join(group, ",")
	}
	return nodes
}

// disturbCluster lets a crew work while nodes are away, one after the other.
func disturbCluster(t *testing.T, nodes []*server, dsns []string) {
	t.Helper()
	const workers = 6
	base := order{
		Target: nodes[0].target, Hi: workers - 1, Span: roundsSpan(), Patience: 3 * time.Second,
		Pace: 100 * time.Millisecond, // so that a node which has missed something can make up for it
	}
	// A read waits for what was committed on other nodes.
	reading := func(n *server) string { return withParameters(n.dsn(n.port), "wsrep_sync_wait=1") }
	c := newCrew(t, base, workers, reading(nodes[0]))
	c.dsns = dsns
	for _, n := range nodes {
		c.also = append(c.also, n)
	}
	c.fill()
	c.everyone("has not begun")

	pause := func(n *server) { n.signal(syscall.SIGSTOP) }
	isolate := func(n *server, isolated int) {
		n.admin(fmt.Sprintf("SET GLOBAL wsrep_provider_options='gmcast.isolate=%d'", isolated))
	}
	for i, fault := range []struct {
		name    string
		away    func(n *server)
		present func(n *server)
	}{
		{"is paused", pause, func(n *server) { n.signal(syscall.SIGCONT) }},
		{"is isolated", func(n *server) { isolate(n, 1) }, func(n *server) { isolate(n, 0) }},
		{"is killed", func(n *server) { n.end(syscall.SIGKILL) }, func(n *server) { n.start() }},
	} {
		victim := nodes[i]
		rest := []*server{nodes[(i+1)%3], nodes[(i+2)%3]}
		began := time.Now()
		fault.away(victim)
		c.inSync("the cluster does not do without the node", rest)
		c.holder().kill(t)
		c.fill()
		c.progress()
		c.giving("makes no IDs without a node that "+fault.name, victim)
		fault.present(victim)
		c.inSync("the node does not come back", nodes)
		back := time.Now()
		c.everyone("does not go on after a node " + fault.name)
		t.Logf("a node %s: it was away for %v, and everybody went on within %v", fault.name,
			back.Sub(began).Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	}

	sum := c.finish()
	for _, n := range nodes[1:] {
		c.ledger.check(t, n.target.OpenDSN(t, reading(n), nil, dbtest.MaxOpenConns(1)))
	}
	c.complain(func(string, string) bool { return true })
	t.Logf("creates refused, by number of the error: %v; %s; %s", c.errorNumbers(), c.summary(), sum)
	if sum.takeovers == 0 {
		t.Error("no number went from one worker to another")
	}
}

// giving waits for an ID of each worker that does not keep to a node. Its creates may fail meanwhile: a pool
// of connections does not give up those that lead to a node which refuses everything.
func (c *crew) giving(otherwise string, n *server) {
	c.t.Helper()
	for _, p := range c.living() {
		c.eventually(p.Name+" "+otherwise, func() bool {
			if p.DSN == n.dsn(n.port) || !p.isReady() {
				return true // one that begins may have met the node first, and begins when that is back
			}
			asked := look(p, func() int { return len(p.answers) })
			p.command(reportNext)
			c.eventually(p.Name+" does not answer", func() bool {
				return look(p, func() bool { return len(p.answers) > asked })
			})
			return look(p, func() bool { return p.answers[asked].Error == "" })
		})
	}
}

// inSync waits until nodes are a cluster that takes writes.
func (c *crew) inSync(otherwise string, nodes []*server) {
	c.t.Helper()
	for _, n := range nodes {
		c.eventually(otherwise, func() bool {
			var name, size, state string
			err := n.row("SHOW STATUS LIKE 'wsrep_cluster_size'", &name, &size)
			if err == nil {
				err = n.row("SHOW STATUS LIKE 'wsrep_local_state_comment'", &name, &state)
			}
			return err == nil && size == strconv.Itoa(len(nodes)) && state == "Synced"
		})
	}
}

// errorNumbers counts the creates that failed by the numbers of MariaDB in their errors.
func (c *crew) errorNumbers() map[string]int {
	number := regexp.MustCompile(`Error \d+`)
	numbers := make(map[string]int)
	for _, p := range c.all {
		look(p, func() map[string]int {
			for n, r := range p.unmade {
				if found := number.FindString(r.Error); found != "" && n.count == r.Count[0] {
					numbers[found]++
				}
			}
			return numbers
		})
	}
	return numbers
}
