package daemon_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
)

// What a request says and the service does not know was meant to do something, and a count of 0 is a mistake
// somewhere. Both are errors in every protocol.
func TestUnknownFieldsAndACountOfZeroAreErrors(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct{ method, body, says string }{
		{"Next", `{"count":0}`, "count is 0"}, {"Next", `{"count":"0"}`, "count is 0"}, {"Next", `{"count":-0}`, "count is 0"},
		{"Next", `{"cuont":3}`, "cuont"}, {"Next", `{"count":3,"node":7}`, "node"}, {"Next", `{"Count":3}`, "Count"},
		{"Decompose", `{"id":"1","name":""}`, "name"},
		{"Range", `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","until":1}`, "until"},
	} {
		code, answer := s.post(t, c.method, c.body)
		if code != http.StatusBadRequest || !strings.Contains(answer, `"invalid_argument"`) || !strings.Contains(answer, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.body, code, answer)
		}
	}
	// The protocol of Redis.
	r := s.redis(t)
	for _, command := range []string{"SNOWFLAKE.NEXT 0", "SNOWFLAKE.INTEGER 0", "SNOWFLAKE.NEXT 3 snowflake more", "INCR snowflake more"} {
		if got := r.do(t, strings.Fields(command)...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%s: %s", command, got)
		}
	}
	// Protobuf, by itself and in gRPC.
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 100, protowire.VarintType), 1)
	strange := &snowflakev1.NextRequest{}
	strange.ProtoReflect().SetUnknown(unknown)
	conn, err := grpc.NewClient(s.HTTPAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, request := range map[string]*snowflakev1.NextRequest{
		"an unknown field": strange, "a count of 0": {Count: proto.Int32(0)},
	} {
		err := conn.Invoke(t.Context(), procedure, request, &snowflakev1.NextResponse{})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("gRPC, %s: %v", name, err)
		}
		text, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if code, answer := s.post(t, "Next", string(text), "Content-Type", "application/proto"); code != http.StatusBadRequest {
			t.Errorf("protobuf, %s: %d %s", name, code, answer)
		}
	}
	inside := &snowflakev1.DecomposeRequest{Id: 1}
	inside.ProtoReflect().SetUnknown(unknown)
	err = conn.Invoke(t.Context(), "/snowflake.v1.IDService/Decompose", inside, &snowflakev1.DecomposeResponse{})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("gRPC, Decompose: %v", err)
	}
	// A request that says no count gets one ID, as before.
	var one snowflakev1.NextResponse
	if err := conn.Invoke(t.Context(), procedure, &snowflakev1.NextRequest{}, &one); err != nil || len(one.GetIds()) != 1 {
		t.Errorf("without a count: %d IDs, %v", len(one.GetIds()), err)
	}
	if _, text := s.get(t, "/metrics"); !strings.Contains(text, "\nsnowflake_server_ids_total{client=\"\",source=\"snowflake\"} 1\n") {
		t.Error("a request that was refused has made IDs")
	}
}

// A client that looks for a field finds it, also if it is zero.
func TestFieldsThatAreZeroAreWritten(t *testing.T) {
	t.Parallel()
	s := start(t)
	for method, c := range map[string]struct {
		body string
		want []string
	}{
		"Decompose": {`{"id":"0"}`, []string{"time", "node", "sequence", "layout"}},
		"Range":     {`{"from":"1990-01-01T00:00:00Z","to":"1990-01-01T00:00:00Z"}`, []string{"first", "last", "end"}},
	} {
		code, answer := s.post(t, method, c.body)
		var fields map[string]string
		if err := json.Unmarshal([]byte(answer), &fields); err != nil || code != http.StatusOK || len(fields) != len(c.want) {
			t.Errorf("%s: %d %s: %v", method, code, answer, err)
		}
		for _, name := range c.want {
			if fields[name] == "" {
				t.Errorf("%s: %s is missing in %s", method, name, answer)
			}
		}
	}
}

func TestTheLastIDOfALayoutIsInItsRange(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"default", "twitter", "javascript"} {
		s := start(t, "--layout", layout)
		greatest := int64(math.MaxInt64)
		if layout == "javascript" {
			greatest = 1<<53 - 1
		}
		code, answer := s.post(t, "Decompose", fmt.Sprintf(`{"id":"%d"}`, greatest))
		var explained struct{ Time time.Time }
		if err := json.Unmarshal([]byte(answer), &explained); err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %s: %v", layout, code, answer, err)
		}
		bounds := func(from, to time.Time) (first, last int64) {
			t.Helper()
			_, answer := s.post(t, "Range", fmt.Sprintf(`{"from":%q,"to":%q}`, from.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano)))
			var got struct{ First, Last string }
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatal(answer)
			}
			first, err := strconv.ParseInt(got.First, 10, 64)
			if err != nil {
				t.Fatal(answer)
			}
			if last, err = strconv.ParseInt(got.Last, 10, 64); err != nil {
				t.Fatal(answer)
			}
			return first, last
		}
		if first, last := bounds(explained.Time, explained.Time.Add(time.Hour)); greatest < first || greatest > last {
			t.Errorf("%s: %d, whose time is %v, is not in [%d, %d]", layout, greatest, explained.Time, first, last)
		}
		if first, last := bounds(explained.Time.Add(-time.Hour), explained.Time); last >= greatest || first > last {
			t.Errorf("%s: before its time there is [%d, %d]", layout, first, last)
		}
		if first, last := bounds(explained.Time.Add(time.Hour), explained.Time.Add(2*time.Hour)); first <= last {
			t.Errorf("%s: after the end there is [%d, %d]", layout, first, last)
		}
	}
}

// The answers are those of Redis 7 to the same commands, without its commands that do not exist here.
func TestClientsOfRedisBeginAsTheyDoThere(t *testing.T) {
	t.Parallel()
	s := start(t)
	r, other := s.redis(t), s.redis(t)
	for _, c := range []struct{ command, want string }{
		{"AUTH x", "-ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?"},
		{"AUTH default x", "+OK"},
		{"AUTH bob x", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"AUTH", "-ERR wrong number of arguments for 'auth' command"},
		{"AUTH a b c", "-ERR syntax error"},
		{"HELLO 2 AUTH default x SETNAME shop", "*$server $snowflaked $proto :2 $mode $standalone $role $master"},
		{"CLIENT GETNAME", "$shop"},
		{"SELECT 0", "+OK"},
		{"SELECT 99", "-ERR DB index is out of range"},
		{"SELECT -1", "-ERR DB index is out of range"},
		{"SELECT abc", "-ERR value is not an integer or out of range"},
		{"SELECT", "-ERR wrong number of arguments for 'select' command"},
		{"SELECT 0 1", "-ERR wrong number of arguments for 'select' command"},
		{"CLIENT", "-ERR wrong number of arguments for 'client' command"},
		{"CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"},
		{"CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"},
		{"CLIENT SETNAME foo", "+OK"},
		{"client getname", "$foo"},
		{"CLIENT SETINFO LIB-NAME test", "+OK"},
		{"CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."},
		{"COMMAND COUNT", ":14"},
		{"COMMAND NOPE", "-ERR unknown subcommand 'NOPE'. Try COMMAND HELP."},
		{"COMMAND INFO incr nope", "**$incr :2 *+write +fast :1 :1 :1 *nil"},
		{"COMMAND LIST FILTERBY PATTERN incr*", "*$incr $incrby"},
		{"PING a b", "-ERR wrong number of arguments for 'ping' command"},
		{"ECHO", "-ERR wrong number of arguments for 'echo' command"},
	} {
		if got := r.do(t, strings.Fields(c.command)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.command, got, c.want)
		}
	}
	if got := other.do(t, "CLIENT", "GETNAME"); got != "$nil" {
		t.Errorf("a connection without a name has %s", got)
	}
	one, two := r.do(t, "CLIENT", "ID"), other.do(t, "CLIENT", "ID")
	if again := r.do(t, "CLIENT", "ID"); one == two || one != again || !strings.HasPrefix(one, ":") || !strings.HasPrefix(two, ":") {
		t.Errorf("two connections have the numbers %s and %s, and then %s", one, two, again)
	}
	if got := r.do(t, "CLIENT", "SETNAME", "a b"); got != "-ERR Client names cannot contain spaces, newlines or special characters." {
		t.Errorf("a name with a blank: %s", got)
	}
	if all := r.do(t, "COMMAND"); !strings.Contains(all, "$snowflake.next :-2 ") {
		t.Errorf("COMMAND: %s", all)
	}
	if docs := r.do(t, "COMMAND", "DOCS", "incr", "nope"); !strings.HasPrefix(docs, "*$incr *$summary $") {
		t.Errorf("COMMAND DOCS: %s", docs)
	}
}
