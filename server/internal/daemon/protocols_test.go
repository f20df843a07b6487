package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/test/servers"
)

const token = "0123456789abcdef-a-secret"

// texts returns the IDs of a JSON answer, where they have to be strings.
func texts(t *testing.T, answer string) (ids []int64) {
	t.Helper()
	var body struct {
		IDs []string `json:"ids"`
	}
	if err := json.Unmarshal([]byte(answer), &body); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	for _, text := range body.IDs {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// increasing fails unless there are n positive IDs that increase.
func increasing(t *testing.T, ids []int64, n int) {
	t.Helper()
	if len(ids) != n || n > 0 && ids[0] <= 0 || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != n {
		t.Errorf("got %d IDs, want %d that increase: %v...", len(ids), n, ids[:min(len(ids), 5)])
	}
}

func TestJSONHasTheIDsAsTexts(t *testing.T) {
	t.Parallel()
	s := start(t)
	for body, want := range map[string]int{`{}`: 1, `{"count":1000}`: 1000, `{"count":2,"source":"snowflake"}`: 2} {
		code, answer := s.post(t, "Next", body)
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", body, code, answer)
		}
		increasing(t, texts(t, answer), want)
	}
}

func TestAnIDIsExplainedAndLiesInTheRangeOfItsTime(t *testing.T) {
	t.Parallel()
	s := start(t, "--nodes", "7")
	before := time.Now()
	_, answer := s.post(t, "Next", `{}`)
	id := texts(t, answer)[0]
	parts, err := generator.Default().Decompose(id)
	if err != nil {
		t.Fatal(err)
	}
	code, answer := s.post(t, "Decompose", fmt.Sprintf(`{"id":"%d"}`, id))
	var explained struct {
		Time                   time.Time
		Node, Sequence, Layout string
	}
	if err := json.Unmarshal([]byte(answer), &explained); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, answer, err)
	}
	if explained.Node != "7" || explained.Layout != "default" || !explained.Time.Equal(parts.Time) ||
		explained.Sequence != fmt.Sprint(parts.Sequence) {
		t.Errorf("%d is explained as %+v, want %+v", id, explained, parts)
	}
	code, answer = s.post(t, "Range", fmt.Sprintf(`{"from":%q,"to":%q}`,
		before.Add(-time.Second).UTC().Format(time.RFC3339Nano), parts.Time.Add(time.Second).UTC().Format(time.RFC3339Nano)))
	var bounds struct{ First, End string }
	if err := json.Unmarshal([]byte(answer), &bounds); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, answer, err)
	}
	first, _ := strconv.ParseInt(bounds.First, 10, 64)
	end, _ := strconv.ParseInt(bounds.End, 10, 64)
	if id < first || id >= end || first == 0 {
		t.Errorf("%d does not lie in [%d, %d)", id, first, end)
	}
}

// The client is that of another implementation of gRPC.
func TestGRPCClientsGetIDsAndTypedErrors(t *testing.T) {
	t.Parallel()
	s := start(t, "--max-count", "5000", "--token-file", tokenFile(t))
	conn, err := grpc.NewClient(s.HTTPAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	known := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	const method = "/snowflake.v1.IDService/Next"

	var answer snowflakev1.NextResponse
	if err := conn.Invoke(known, method, &snowflakev1.NextRequest{Count: proto.Int32(5000)}, &answer); err != nil {
		t.Fatal(err)
	}
	increasing(t, answer.GetIds(), 5000)

	for name, c := range map[string]struct {
		request *snowflakev1.NextRequest
		want    codes.Code
	}{
		"a count of -1":             {&snowflakev1.NextRequest{Count: proto.Int32(-1)}, codes.InvalidArgument},
		"a count beyond the limit":  {&snowflakev1.NextRequest{Count: proto.Int32(5001)}, codes.InvalidArgument},
		"the greatest count":        {&snowflakev1.NextRequest{Count: proto.Int32(1<<31 - 1)}, codes.InvalidArgument},
		"a source that is not here": {&snowflakev1.NextRequest{Source: "nobody"}, codes.NotFound},
		"a body beyond the limit": {
			&snowflakev1.NextRequest{Source: strings.Repeat("x", 17<<10)}, codes.ResourceExhausted,
		},
	} {
		err := conn.Invoke(known, method, c.request, &snowflakev1.NextResponse{})
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	err = conn.Invoke(t.Context(), method, &snowflakev1.NextRequest{}, &snowflakev1.NextResponse{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	wrong := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token+"x")
	err = conn.Invoke(wrong, method, &snowflakev1.NextRequest{}, &snowflakev1.NextResponse{})
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a wrong token: %v", err)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log has the token")
	}
}

// With reflection a tool such as grpcurl needs no file of the protocol.
func TestGRPCReflectionDescribesTheServicesToWhoHasAToken(t *testing.T) {
	t.Parallel()
	s := start(t, "--token-file", tokenFile(t))
	conn, err := grpc.NewClient(s.HTTPAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(ctx context.Context, r *grpc_reflection_v1.ServerReflectionRequest) (
		*grpc_reflection_v1.ServerReflectionResponse, error,
	) {
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		if err != nil {
			return nil, err
		}
		_ = stream.Send(r) // if the server has refused the call already, Recv says why
		answer, err := stream.Recv()
		return answer, errors.Join(err, stream.CloseSend())
	}
	list := &grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}
	if _, err := ask(t.Context(), list); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	known := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	answer, err := ask(known, list)
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, one := range answer.GetListServicesResponse().GetService() {
		services = append(services, one.GetName())
		described, err := ask(known, &grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{
				FileContainingSymbol: one.GetName(),
			},
		})
		if err != nil || len(described.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
			t.Errorf("%s is not described: %v %v", one.GetName(), described, err)
		}
	}
	slices.Sort(services)
	if want := []string{"grpc.health.v1.Health", "snowflake.v1.IDService"}; !slices.Equal(services, want) {
		t.Errorf("the services are %q, want %q", services, want)
	}
}

func TestGRPCHealthFollowsTheReadiness(t *testing.T) {
	t.Parallel()
	s := start(t, "--drain-delay", "1h")
	conn, err := grpc.NewClient(s.HTTPAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := grpc_health_v1.NewHealthClient(conn)
	for service, want := range map[string]codes.Code{
		"": codes.OK, "snowflake.v1.IDService": codes.OK, "somebody.else": codes.NotFound,
	} {
		answer, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if status.Code(err) != want || err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v %v", service, answer, err)
		}
	}
	watching, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		t.Helper()
		answer, err := watching.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetStatus()
	}
	if got := next(); got != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("at first the watcher is told %v", got)
	}
	s.stop()
	if got := next(); got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("at the end the watcher is told %v", got)
	}
	s.Hurry()
	if err := s.end(); err != nil {
		t.Errorf("a watcher keeps the service from its end: %v", err)
	}
}

func TestTheProtocolOfRedisIsSpoken(t *testing.T) {
	t.Parallel()
	s := start(t, "--max-count", "500")
	r := s.redis(t)
	for _, c := range []struct{ command, want string }{
		{"PING", "+PONG"},
		{"ping hello", "$hello"},
		{"ECHO hello", "$hello"},
		{"INCRBY snowflake 2", "-ERR INCRBY gives one ID, so the increment has to be 1; SNOWFLAKE.NEXT gives many"},
		{"INCRBY snowflake 0", "-ERR INCRBY gives one ID, so the increment has to be 1; SNOWFLAKE.NEXT gives many"},
		{"INCRBY snowflake one", "-ERR value is not an integer or out of range"},
		{"INCRBY snowflake", "-ERR wrong number of arguments for 'incrby' command"},
		{"SNOWFLAKE.NEXT -1", "-ERR the count is -1, but a request may ask for 1 to 500 IDs"},
		{"SNOWFLAKE.NEXT 0", "-ERR the count is 0, but a request may ask for 1 to 500 IDs"},
		{"SNOWFLAKE.NEXT 501", "-ERR the count is 501, but a request may ask for 1 to 500 IDs"},
		{"SNOWFLAKE.NEXT 9223372036854775808", "-ERR the count is not an integer or out of range"},
		{"SNOWFLAKE.NEXT", "-ERR wrong number of arguments for 'snowflake.next' command"},
		{"INCR", "-ERR wrong number of arguments for 'incr' command"},
		{"INCR nobody", `-ERR there is no source "nobody"; there are snowflake`},
		{"INCR snowflake twice", "-ERR wrong number of arguments for 'incr' command"},
		{"FLUSHALL", "-ERR unknown command 'FLUSHALL'"},
		{"HELLO 4", "-NOPROTO unsupported protocol version"},
		{"HELLO 3", "%$server $snowflaked $proto :3 $mode $standalone $role $master"},
		{"HELLO", "%$server $snowflaked $proto :3 $mode $standalone $role $master"},
		{"HELLO 2", "*$server $snowflaked $proto :2 $mode $standalone $role $master"},
	} {
		if got := r.do(t, strings.Fields(c.command)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.command, got, c.want)
		}
	}
	var all []int64
	number := func(text, mark string) {
		t.Helper()
		id, err := strconv.ParseInt(strings.TrimPrefix(text, mark), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
	}
	// IDs are texts, because a number of JavaScript is exact up to 2^53 only. Clients in Python send INCRBY for INCR.
	number(r.do(t, "INCR", "snowflake"), "$")
	number(r.do(t, "INCRBY", "snowflake", "1"), "$")
	for _, one := range strings.Fields(strings.TrimPrefix(r.do(t, "SNOWFLAKE.NEXT", "500"), "*")) {
		number(one, "$")
	}
	for _, one := range strings.Fields(strings.TrimPrefix(r.do(t, "SNOWFLAKE.INTEGER", "3", "snowflake"), "*")) {
		number(one, ":")
	}
	r.do(t, "HELLO", "3")
	number(r.do(t, "INCR", "snowflake"), "$")
	r.do(t, "HELLO", "2")
	for _, one := range strings.Fields(strings.TrimPrefix(r.do(t, "SNOWFLAKE.TEXT", "3", "snowflake"), "*")) {
		number(one, "$")
	}
	// Commands that come together are answered in their order.
	for range 100 {
		r.send(t, "INCR", "snowflake")
	}
	for range 100 {
		answer, err := r.read()
		if err != nil {
			t.Fatal(err)
		}
		number(answer, "$")
	}
	increasing(t, all, 1+1+500+3+1+3+100)
	if info := r.do(t, "INFO"); !strings.Contains(info, "issued:609\r\n") || !strings.Contains(info, "ready:true") {
		t.Errorf("INFO says %q", info)
	}
	if got := r.do(t, "QUIT"); got != "+OK" {
		t.Errorf("QUIT: %s", got)
	}
	if _, err := r.in.ReadByte(); err == nil {
		t.Error("the connection is open after QUIT")
	}
}

func TestRedisClientsShowTheirToken(t *testing.T) {
	t.Parallel()
	s := start(t, "--token-file", tokenFile(t))
	for name, commands := range map[string][][2]string{
		"AUTH": {
			{"INCR snowflake", "-NOAUTH Authentication required."}, {"PING", "-NOAUTH Authentication required."},
			{"AUTH wrong", "-WRONGPASS invalid token"}, {"AUTH " + token, "+OK"}, {"PING", "+PONG"},
		},
		"AUTH with a name": {{"AUTH default " + token, "+OK"}, {"PING", "+PONG"}},
		"HELLO": {
			{"HELLO 2", "-NOAUTH HELLO must be called with a token, or after AUTH"},
			{"HELLO 2 AUTH default wrong", "-WRONGPASS invalid token"},
			{"HELLO 2 AUTH default " + token, "*$server $snowflaked $proto :2 $mode $standalone $role $master"},
			{"PING", "+PONG"},
		},
	} {
		r := s.redis(t)
		for _, c := range commands {
			if got := r.do(t, strings.Fields(c[0])...); got != c[1] {
				t.Errorf("%s: %s: %s, want %s", name, c[0], got, c[1])
			}
		}
	}
	r := s.redis(t)
	for range 3 {
		r.do(t, "AUTH", "wrong")
	}
	if _, err := r.in.ReadByte(); err == nil {
		t.Error("the connection is open after three wrong tokens")
	}
	if log := s.log.String(); strings.Contains(log, token) || strings.Contains(log, "wrong") {
		t.Error("the log has a token")
	}
}

func TestProbesAndMetricsTellWhatHappens(t *testing.T) {
	t.Parallel()
	s := start(t, "--token-file", tokenFile(t))
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 401, "/nothing": 404} {
		if code, _ := s.get(t, path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	bearer := []string{"Authorization", "Bearer " + token}
	s.post(t, "Next", `{"count":41}`, bearer...)
	s.post(t, "Next", `{"count":-1}`, bearer...)
	s.post(t, "Next", `{}`)
	r := s.redis(t)
	r.do(t, "AUTH", token)
	r.do(t, "INCR", "snowflake")
	_, text := s.get(t, "/metrics", bearer...)
	for _, line := range []string{
		`snowflake_server_ids_total{client="shop",source="snowflake"} 42`,
		`snowflake_server_request_seconds_count{code="ok",protocol="connect"} 1`,
		`snowflake_server_request_seconds_count{code="invalid_argument",protocol="connect"} 1`,
		`snowflake_server_request_seconds_count{code="unauthenticated",protocol="http"} 2`,
		`snowflake_server_request_seconds_count{code="ok",protocol="resp"} 1`,
		"snowflake_ready 1",
		`snowflake_state{state="leased"} 1`,
		"snowflake_ids_total 42",
		"process_open_fds ", "go_goroutines ", "go_build_info{",
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	checkExposition(t, text)
	s.stop()
	servers.Eventually(t, func() error {
		select {
		case <-s.done:
			return nil
		default:
			return fmt.Errorf("it has not ended")
		}
	})
}

// checkExposition asks the linter of Prometheus.
func checkExposition(t *testing.T, text string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("the linter of Prometheus: %v, %v", problems, err)
	}
}

func TestPagesOfListedOriginsMayAsk(t *testing.T) {
	t.Parallel()
	s := start(t, "--origins", "https://shop.example, https://admin.example")
	for origin, want := range map[string]string{
		"https://shop.example": "https://shop.example", "https://admin.example": "https://admin.example",
		"https://evil.example": "",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodOptions,
			"http://"+s.HTTPAddr()+"/snowflake.v1.IDService/Next", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Close = true // so that no idle connection holds up the end
		request.Header.Set("Origin", origin)
		request.Header.Set("Access-Control-Request-Method", "POST")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("%s is allowed %q, want %q", origin, got, want)
		}
	}
}
