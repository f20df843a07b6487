package zklease_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/internal/testx/servers"
	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
)

func TestTheClientIsSentToAllServersInTurnAndNeverToItsOwnPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
		hosts := zklease.NewHostProvider(t.Context())
		if err := hosts.Init(names); err != nil {
			t.Fatal(err)
		}
		const rounds = 4
		tried := make(map[string]int)
		began := time.Now()
		for range rounds * len(names) {
			server, pause := hosts.Next()
			if pause {
				t.Fatalf("the client is asked for a pause before %s", server)
			}
			tried[server]++
		}
		for _, name := range names {
			if tried[name] != rounds {
				t.Errorf("%s was tried %d times in %d rounds", name, tried[name], rounds)
			}
		}
		if took := time.Since(began); took < (rounds-1)*50*time.Millisecond || took > (rounds-1)*100*time.Millisecond {
			t.Errorf("%d rounds took %v: there is a pause of 50 to 100 ms between two", rounds, took)
		}
	})
}

func TestAServerThatIsTheOnlyOneIsTriedAgainAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := zklease.NewHostProvider(t.Context())
		if err := hosts.Init([]string{"127.0.0.1:1"}); err != nil {
			t.Fatal(err)
		}
		var pauses []time.Duration
		for range 3 {
			began := time.Now()
			if _, pause := hosts.Next(); pause {
				t.Error("the client is asked for a pause")
			}
			hosts.Connected() // a session that ends at once is no reason to hurry
			pauses = append(pauses, time.Since(began))
		}
		if pauses[0] != 0 || slices.Min(pauses[1:]) < 50*time.Millisecond {
			t.Errorf("the pauses were %v", pauses)
		}
	})
}

// While no server answers, the client looks for a Close only in a pause of its own.
func TestAConnectionThatIsClosedWithoutAServerEndsWhenTheContextDoes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	nobody := "127.0.0.1:" + servers.Port(t)
	conn, events, err := zk.Connect([]string{nobody}, 10*time.Second, zk.WithHostProvider(zklease.NewHostProvider(ctx)),
		zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	conn.Close()
	limit := time.After(time.Minute)
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-limit:
			t.Fatal("the client still looks for a server")
		}
	}
}
