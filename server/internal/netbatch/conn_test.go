package netbatch_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netbatch"
)

const slow = time.Minute

// one is a listener of a single connection.
type one struct {
	net.Listener

	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }

// pair returns a connection that joins, its listener, and the end of the client. On a pipe a write ends when
// all of it was read, so the test says when.
func pair(t *testing.T) (server net.Conn, listener *netbatch.Listener, client net.Conn) {
	t.Helper()
	inner, client := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	listener = netbatch.Listen(one{conn: inner}, slow)
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	netbatch.Of(server).Begin()
	return server, listener, client
}

func write(t *testing.T, to io.Writer, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if n, err := io.WriteString(to, text); n != len(text) || err != nil {
			t.Fatalf("writing %q: %d, %v", text, n, err)
		}
	}
}

// reads returns what single reads of a client get.
func reads(t *testing.T, from io.Reader, n int) (texts []string) {
	t.Helper()
	buffer := make([]byte, 1<<10)
	for range n {
		got, err := from.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(buffer[:got]))
	}
	return texts
}

func TestWritesAreJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, _, client := pair(t)
		write(t, server, "headers,")
		synctest.Wait() // until this one is being written
		write(t, server, "message,", "trailers", ";")
		if got := reads(t, client, 2); got[0] != "headers," || got[1] != "message,trailers;" {
			t.Errorf("the client read %q", got)
		}
	})
}

func TestAWriteOfOnesOwnDoesNotWaitForAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, _, client := pair(t)
		began := time.Now()
		write(t, server, "message")
		if got := reads(t, client, 1); got[0] != "message" || !time.Now().Equal(began) {
			t.Errorf("the client read %q after %v", got, time.Since(began))
		}
	})
}

func TestReadsAreJoinedAndLoseNothing(t *testing.T) {
	t.Parallel()
	inner, client := net.Pipe()
	counted := &counting{Conn: inner}
	server, err := netbatch.Listen(one{conn: counted}, slow).Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(client, "prefaceframe 1frame 2")
		_ = client.Close()
	}()
	preface := make([]byte, len("preface"))
	if _, err := io.ReadFull(server, preface); err != nil || string(preface) != "preface" {
		t.Fatalf("%q, %v", preface, err)
	}
	before := counted.reads.Load()
	netbatch.Of(server).Begin()
	var rest []byte
	for small := make([]byte, 1); ; {
		n, err := server.Read(small)
		if rest = append(rest, small[:n]...); err != nil {
			break
		}
	}
	if string(rest) != "frame 1frame 2" || counted.reads.Load()-before != 2 {
		t.Errorf("%q took %d reads, want 2 with that of the end", rest, counted.reads.Load()-before)
	}
}

type counting struct {
	net.Conn

	reads atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(p)
}

func TestAWriterWaitsWhileTooMuchIsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, _, client := pair(t)
		written := 0
		go func() {
			for range 1000 {
				if n, err := server.Write(make([]byte, n1K)); n != n1K || err != nil {
					t.Error(n, err)
				}
				written += n1K
			}
		}()
		synctest.Wait()
		if written > 2*65*n1K || written < 64*n1K {
			t.Errorf("%d bytes are in memory while the client reads none", written)
		}
		if n, err := io.CopyN(io.Discard, client, 1000*n1K); err != nil {
			t.Errorf("%d bytes came: %v", n, err)
		}
	})
}

const n1K = 1 << 10

func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, listener, client := pair(t)
		write(t, server, "first")
		stuck := make(chan error)
		go func() {
			_, err := server.Write(make([]byte, 100<<10))
			for err == nil {
				_, err = server.Write([]byte("more"))
			}
			stuck <- err
		}()
		began := time.Now()
		if err := <-stuck; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != slow {
			t.Errorf("the writer got %v after %v", err, time.Since(began))
		}
		synctest.Wait()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is still open: %v", err)
		}
		if _, err := server.Read(make([]byte, 1)); err == nil {
			t.Error("the reader does not notice")
		}
		_ = server.Close()
		listener.Wait()
	})
}

func TestADeadlineOfTheServerDoesNotEndAJoinedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, _, client := pair(t)
		for _, set := range []func(time.Time) error{server.SetWriteDeadline, server.SetDeadline} {
			if err := set(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		write(t, server, "message")
		time.Sleep(slow / 2)
		if got := reads(t, client, 1); got[0] != "message" {
			t.Errorf("the client read %q", got)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading has no deadline: %v", err)
		}
	})
}

func TestACloseStillWritesWhatWasHandedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, listener, client := pair(t)
		write(t, server, "one,")
		synctest.Wait()
		write(t, server, "two")
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if _, err := server.Write([]byte("three")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write after the close returned %v", err)
		}
		text, err := io.ReadAll(client)
		if string(text) != "one,two" || err != nil {
			t.Errorf("the client read %q, %v", text, err)
		}
		listener.Wait()
	})
}

func TestACloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, listener, client := pair(t)
		write(t, server, "one,")
		synctest.Wait()
		write(t, server, "two")
		reader := make(chan error)
		go func() {
			_, err := server.Read(make([]byte, 1))
			reader <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := server.Close(); err != nil || <-reader == nil || !time.Now().Equal(began) {
			t.Errorf("the close returned %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Second / 2)
		if got := reads(t, client, 1); got[0] != "one," {
			t.Errorf("the client read %q", got)
		}
		listener.Wait() // the second write has no second of its own
		if time.Since(began) != time.Second {
			t.Errorf("the listener waited for %v", time.Since(began))
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is still open: %v", err)
		}
	})
}

// TestManyWritersOnASocket begins to join while all of them write.
func TestManyWritersOnASocket(t *testing.T) {
	t.Parallel()
	const writers, messages = 8, 2000
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := netbatch.Listen(socket, slow)
	defer listener.Close()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for i := range messages {
				if i == messages/2 {
					netbatch.Of(server).Begin()
				}
				message := append(bytes.Repeat([]byte{byte(writer)}, 1+i%600), 0xff)
				message = append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
				if n, err := server.Write(message); n != len(message) || err != nil {
					t.Error(n, err)
					return
				}
			}
		})
	}
	go func() {
		writing.Wait()
		_ = server.Close()
	}()
	next := make([]int, writers)
	from := bufio.NewReader(client)
	for {
		var length uint16
		if err := binary.Read(from, binary.BigEndian, &length); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		message := make([]byte, length)
		if _, err := io.ReadFull(from, message); err != nil {
			t.Fatal(err)
		}
		writer := message[0]
		size := 1 + next[writer]%600
		if want := append(bytes.Repeat([]byte{writer}, size), 0xff); !bytes.Equal(message, want) {
			t.Fatalf("message %d of writer %d is damaged", next[writer], writer)
		}
		next[writer]++
	}
	for writer, got := range next {
		if got != messages {
			t.Errorf("%d messages of writer %d came, want %d", got, writer, messages)
		}
	}
	listener.Wait()
}

func TestAnotherConnectionIsNone(t *testing.T) {
	t.Parallel()
	inner, _ := net.Pipe()
	if netbatch.Of(inner) != nil || netbatch.Of(nil) != nil {
		t.Error("a connection was found where there is none")
	}
}
