package zklease_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/snowflakeplugin/snowflakeplugin/lease/zklease"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
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
	nobody := "127.0.0.1:" + servers.Reserve(t)
	hosts := zklease.NewHostProvider(ctx)
	conn, events, err := zk.Connect([]string{nobody}, 10*time.Second, zk.WithHostProvider(hosts),
		zk.WithDialer(hosts.Dial), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
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

// listener accepts connections and hands them over.
func listener(t *testing.T) (address string, accepted <-chan net.Conn) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() }) // the other end may have closed it
			conns <- conn
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), conns
}

// read dials the address and reads one answer, for which the caller would wait for an hour.
func read(t *testing.T, hosts *zklease.HostProvider, address string) (time.Duration, error) {
	t.Helper()
	conn, err := hosts.Dial("tcp", address, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = conn.Read(make([]byte, 1))
	return time.Since(began), err
}

func TestAServerThatAcceptsAndNeverAnswersIsGivenUpAndGetsMoreTimeTheNextTime(t *testing.T) {
	t.Parallel()
	hosts := zklease.NewHostProvider(t.Context())
	address, _ := listener(t)
	if err := hosts.Init([]string{address}); err != nil {
		t.Fatal(err)
	}
	// A busy machine can make a wait longer, but never shorter.
	for _, least := range []time.Duration{200 * time.Millisecond, 450 * time.Millisecond} {
		took, err := read(t, hosts, address)
		if !errors.Is(err, os.ErrDeadlineExceeded) || took < least {
			t.Errorf("after %v: %v; want the end of its time after %v", took, err, least)
		}
	}
}

func TestAServerThatHasAnsweredOnceMayBeSilent(t *testing.T) {
	t.Parallel()
	hosts := zklease.NewHostProvider(t.Context())
	address, accepted := listener(t)
	conn, err := hosts.Dial("tcp", address, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server := <-accepted
	if _, err := server.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	if _, err := conn.Read(answer); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(700 * time.Millisecond) // longer than a first answer may take
		_, _ = server.Write([]byte("b"))
	}()
	if _, err := conn.Read(answer); err != nil || answer[0] != 'b' {
		t.Errorf("the second answer: %q, %v", answer, err)
	}
}
