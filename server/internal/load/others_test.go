package load_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// overRESP sends one command for single IDs and another one for many.
func overRESP(t testing.TB, address, single, many string) maker {
	t.Helper()
	return func() (call, error) {
		conn, err := dial(t, address)
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(conn)
		// The service answers with texts, and Redis with integers.
		integer := func(line []byte) (n int64, err error) {
			switch {
			case len(line) < 4 || line[0] != ':' && line[0] != '$':
				return 0, errors.New(string(line))
			case line[0] == ':':
				line = line[1:]
			default:
				if line, err = in.ReadSlice('\n'); err != nil {
					return 0, err
				}
			}
			return strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
		}
		ask := map[int][]byte{1: []byte(single + "\r\n")}
		return func(ids []int64, count int) ([]int64, error) {
			if ask[count] == nil {
				ask[count] = fmt.Appendf(nil, many+"\r\n", count)
			}
			if _, err := conn.Write(ask[count]); err != nil {
				return ids, err
			}
			if count > 1 {
				line, err := in.ReadSlice('\n')
				if err != nil || string(line) != fmt.Sprintf("*%d\r\n", count) {
					return ids, fmt.Errorf("%q: %w", line, err)
				}
			}
			for range count {
				line, err := in.ReadSlice('\n')
				if err != nil {
					return ids, err
				}
				id, err := integer(line)
				if err != nil {
					return ids, err
				}
				ids = append(ids, id)
			}
			return ids, nil
		}, nil
	}
}

// dial opens a connection that ends with the test.
func dial(t testing.TB, address string) (net.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", address) //nolint:noctx // it is local
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

func overSequence(t *testing.T) maker {
	t.Helper()
	config, err := pgxpool.ParseConfig(postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "CREATE SEQUENCE load_ids"); err != nil {
		t.Fatal(err)
	}
	return func() (call, error) {
		return func(ids []int64, _ int) ([]int64, error) {
			var id int64
			err := pool.QueryRow(context.Background(), "SELECT nextval('load_ids')").Scan(&id)
			return append(ids, id), err
		}, nil
	}
}

// redisAddress is the Redis of the tests, if that is on this machine and answers.
func redisAddress(t testing.TB) string {
	t.Helper()
	const address = "127.0.0.1:6379"
	if os.Getenv("SNOWFLAKE_REDIS_URL") != "" {
		return ""
	}
	conn, err := net.DialTimeout("tcp", address, time.Second) //nolint:noctx // it is local
	if err != nil {
		return ""
	}
	t.Cleanup(func() {
		if conn, err := net.Dial("tcp", address); err == nil { //nolint:noctx // it is local
			_, _ = io.WriteString(conn, "DEL snowflaketest_load\r\n")
			conn.Close()
		}
	})
	conn.Close()
	return address
}
