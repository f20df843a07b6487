package load_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
)

// overJSON sends requests that were written before, and reads the answers with as little work as their
// check allows: the machine is shared, and what the client takes the service does not have.
func overJSON(t testing.TB, address string) maker {
	t.Helper()
	return func() (call, error) {
		conn, err := dial(t, address)
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(conn)
		requests := map[int][]byte{}
		return func(ids []int64, count int) ([]int64, error) {
			request := requests[count]
			if request == nil {
				body := fmt.Sprintf(`{"count":%d}`, count)
				request = fmt.Appendf(nil, "POST /snowflake.v1.IDService/Next HTTP/1.1\r\nHost: %s\r\n"+
					"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body)
				requests[count] = request
			}
			if _, err := conn.Write(request); err != nil {
				return ids, err
			}
			if count == 1 {
				return readShort(in, ids)
			}
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				return ids, err
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusOK {
				return ids, fmt.Errorf("%s: %.100s: %w", answer.Status, text, err)
			}
			return parseIDs(ids, text)
		}, nil
	}
}

// readShort reads an answer that fits into the buffer and says how long it is.
func readShort(in *bufio.Reader, ids []int64) ([]int64, error) {
	length := -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return ids, err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			return ids, errors.New(string(line))
		}
		if len(line) == len("\r\n") {
			break
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
				return ids, err
			}
		}
	}
	if length < 0 {
		return ids, errors.New("an answer does not say how long it is")
	}
	body, err := in.Peek(length)
	if err != nil {
		return ids, err
	}
	if ids, err = parseIDs(ids, body); err != nil {
		return ids, err
	}
	_, err = in.Discard(length)
	return ids, err
}

// parseIDs reads the only form that answers have. Blanks after commas are allowed.
func parseIDs(ids []int64, text []byte) ([]int64, error) {
	rest, ok := bytes.CutPrefix(text, []byte(`{"ids":[`))
	list, end := bytes.CutSuffix(rest, []byte(`]}`))
	if !ok || !end {
		return ids, fmt.Errorf("%.100q is no answer", text)
	}
	for more := true; more; {
		var one []byte
		one, list, more = bytes.Cut(list, []byte(","))
		one = bytes.TrimSpace(one)
		if len(one) < 3 || one[0] != '"' || one[len(one)-1] != '"' {
			return ids, fmt.Errorf("%.100q is no ID", one)
		}
		id, err := strconv.ParseInt(string(one[1:len(one)-1]), 10, 64)
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
