package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/web"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
	"github.com/snowflakeplugin/snowflakeplugin/test/nightly"
)

const (
	next    = "/snowflake.v1.IDService/Next"
	maxBody = 2 << 10
	asJSON  = "application/json"
	asProto = "application/proto"
	asGRPC  = "application/grpc"
)

// counter is a source whose numbers are known.
type counter struct{ last atomic.Int64 }

func (c *counter) Fill(_ context.Context, ids []int64) error {
	for i := range ids {
		ids[i] = c.last.Add(1) << 40
	}
	return nil
}

// failing always fails in the same way, at the end of the request if it has no error.
type failing struct{ err error }

func (f failing) Fill(ctx context.Context, _ []int64) error {
	if f.err == nil {
		<-ctx.Done()
		return generator.ErrCanceled
	}
	return f.err
}

// pair is a direct and an indirect handler of services that are alike.
type pair struct {
	handlers [2]http.Handler
	metrics  [2]*metrics.Set
}

// newPair returns services whose requests may take so long.
func newPair(maxTime time.Duration) *pair {
	p := &pair{}
	var options [2]web.Options
	for i := range options {
		p.metrics[i] = metrics.New()
		desk := issue.New(map[string]issue.Source{
			issue.DefaultSource: &counter{}, "orders": &counter{}, "slow": failing{},
			"gone": failing{generator.ErrSealed}, "odd": failing{io.ErrUnexpectedEOF},
		}, 5000, maxTime, p.metrics[i], slog.New(slog.DiscardHandler))
		options[i] = web.Options{
			Desk: desk, Layout: generator.Default(), Metrics: p.metrics[i], Log: slog.New(slog.DiscardHandler),
			Ready: func() (bool, string) { return true, "ready" }, Stopping: make(chan struct{}),
			Origins: []string{"https://shop.example"}, Hosts: []string{"*"}, MaxBody: maxBody, MaxRequests: 100,
			Idle: time.Minute, Slow: time.Minute,
		}
	}
	p.handlers[0], p.handlers[1] = web.Handlers(options[0], options[1])
	return p
}

// counts are the lines of the metrics that do not depend on time.
func (p *pair) counts(t *testing.T, i int) string {
	t.Helper()
	scrape := httptest.NewRecorder()
	p.metrics[i].Handler().ServeHTTP(scrape, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	var kept []string
	for line := range strings.Lines(scrape.Body.String()) {
		if strings.Contains(line, "_count{") || strings.HasPrefix(line, "snowflake_server_ids_total{") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// message is a request in protobuf, in an envelope if it is for gRPC.
func message(kind string, m *snowflakev1.NextRequest) string {
	text, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	if kind == asProto {
		return string(text)
	}
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text)))) + string(text)
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// request is a request in a form that can be sent twice.
type request struct {
	path, body string
	header     []string
}

func (r request) String() string { return fmt.Sprintf("%s %q %.80q", r.path, r.header, r.body) }

// answer is what came back, with everything that a client can see but the time.
func answer(r *http.Response, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if in, wrong := gzip.NewReader(bytes.NewReader(text)); wrong == nil {
			text, err = io.ReadAll(in)
		}
	}
	if json.Valid(text) { // protojson puts blanks between values, so that nobody relies on their number
		var b bytes.Buffer
		_ = json.Compact(&b, text)
		if blanks := len(text) - b.Len(); r.ContentLength >= 0 && r.Header.Get("Content-Encoding") == "" {
			r.ContentLength -= int64(blanks)
		}
		r.Header.Del("Content-Length") // it is in the field
		text = b.Bytes()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d length %d %v %q %v\n", r.Proto, r.StatusCode, r.ContentLength, r.TransferEncoding, text, err)
	for name, header := range map[string]http.Header{"header": r.Header, "trailer": r.Trailer} {
		header.Del("Date")
		// net/http sends no header without values.
		maps.DeleteFunc(header, func(_ string, values []string) bool { return len(values) == 0 })
		for _, key := range slices.Sorted(maps.Keys(header)) {
			b.WriteString(name + " " + key + fmt.Sprintf(": %q\n", header[key]))
		}
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// short keeps a wrong answer with thousands of IDs from filling the screen.
func short(text string) string { return text[:min(len(text), 1000)] }

// requests are plain ones, and everything that differs from them in one thing.
func requests() (all []request) {
	add := func(kind, body string, header ...string) {
		all = append(all, request{next, body, append([]string{"Content-Type", kind}, header...)})
	}
	for _, body := range []string{`{}`, `{"count":3}`, `{"source":"gone"}`, `{"unknown":1}`, `{`, ``} {
		add(asJSON, body)
	}
	for _, kind := range []string{asProto, asGRPC, "application/grpc+proto", "application/grpc-web", "application/grpc-web+proto"} {
		for _, m := range []*snowflakev1.NextRequest{
			{}, {Count: proto.Int32(1)}, {Count: proto.Int32(5000)}, {Count: proto.Int32(-1)}, {Count: proto.Int32(5001)}, {Count: proto.Int32(2), Source: "orders"}, {Source: "nobody"},
			{Source: "gone"}, {Source: "odd"}, {Source: strings.Repeat("x", maxBody-3)}, {Source: strings.Repeat("x", maxBody-2)},
		} {
			add(kind, message(kind, m))
		}
		for _, text := range []string{"\x08\xff\xff\xff\xff\x0f", "\x18\x01", "\x12\x02\xff\xff", "\x08\x01\x08\x02", "\x0a\x01x", "\x08", "\x12\x05a"} {
			if kind != asProto {
				text = "\x00\x00\x00\x00" + string(rune(len(text))) + text
			}
			add(kind, text)
		}
	}
	one := message(asGRPC, &snowflakev1.NextRequest{Count: proto.Int32(1)})
	for _, text := range []string{"", "\x00", one[:4], one + one, one + "x", "\x01" + one[1:], "\x80" + one[1:], "\x00\xff\xff\xff\xff", one[:6]} {
		add(asGRPC, text)
	}
	for _, count := range []int32{3, 2000, -1} {
		body := message(asProto, &snowflakev1.NextRequest{Count: &count})
		for _, header := range [][]string{
			{"Accept-Encoding", "gzip"}, {"Accept-Encoding", "br, gzip;q=1"}, {"Accept-Encoding", "deflate, gzip, br"},
			{"Accept-Encoding", "identity"}, {"Content-Encoding", "identity"}, {"Content-Encoding", "br"},
			{"Connect-Protocol-Version", "1"}, {"Connect-Protocol-Version", "2"}, {"Connect-Timeout-Ms", "60000"},
			{"Connect-Timeout-Ms", "0"}, {"Connect-Timeout-Ms", "-1"}, {"Connect-Timeout-Ms", "soon"},
			{"Connect-Timeout-Ms", "99999999999"}, {"Connect-Timeout-Ms", "9999999999"}, {"Origin", "https://shop.example"},
			{"Origin", "https://evil.example"}, {"Expect", "100-continue"}, {"Connect-Timeout-Ms", "+60000"},
		} {
			add(asProto, body, header...)
		}
	}
	add(asProto, zipped(message(asProto, &snowflakev1.NextRequest{Count: proto.Int32(3)})), "Content-Encoding", "gzip")
	for _, count := range []int32{3, 2000, -1} {
		for _, header := range [][]string{
			{"Grpc-Accept-Encoding", "gzip"}, {"Grpc-Accept-Encoding", "identity,deflate,gzip"}, {"Grpc-Encoding", "br"},
			{"Grpc-Encoding", "identity"}, {"Grpc-Timeout", "60S"}, {"Grpc-Timeout", "60000m"}, {"Grpc-Timeout", "1H"},
			{"Grpc-Timeout", "S"}, {"Grpc-Timeout", "-1S"}, {"Grpc-Timeout", "0S"}, {"Grpc-Timeout", "123456789m"}, {"Grpc-Timeout", "5x"},
			{"Grpc-Timeout", "99999999u"}, {"Grpc-Encoding", "gzip"}, {"Te", "trailers"}, {"Grpc-Timeout", "9 S"},
		} {
			add(asGRPC, message(asGRPC, &snowflakev1.NextRequest{Count: &count}), header...)
		}
	}
	for _, kind := range []string{"", "text/plain", "application/json; charset=utf-8", "Application/JSON", "application/grpc+json", "application/connect+json"} {
		add(kind, `{"count":2}`)
	}
	for _, path := range []string{next + "/", next + "?a=b", "/snowflake.v1.IDService/next", "//snowflake.v1.IDService/Next", "/snowflake.v1.IDService/Decompose"} {
		all = append(all, request{path, `{}`, []string{"Content-Type", asJSON}})
	}
	return all
}

// Every request gets the answer of Connect, to the byte, over both versions of HTTP.
func TestDirectAnswersAreThoseOfConnect(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			t.Parallel()
			compare(t, version)
		})
	}
}

func compare(t *testing.T, version int) {
	t.Helper()
	p := newPair(time.Minute)
	var servers [2]*httptest.Server
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	client := &http.Client{
		Transport:     &http.Transport{Protocols: &protocols, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for i := range servers {
		servers[i] = httptest.NewUnstartedServer(p.handlers[i])
		servers[i].Config.Protocols = &protocols
		servers[i].Start()
		t.Cleanup(servers[i].Close)
	}
	defer client.CloseIdleConnections()
	for _, r := range requests() {
		var got [2]string
		for i, s := range servers {
			sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+r.path, strings.NewReader(r.body))
			if err != nil {
				t.Fatal(err)
			}
			for j := 0; j < len(r.header); j += 2 {
				sent.Header.Set(r.header[j], r.header[j+1])
			}
			got[i] = strings.ReplaceAll(answer(client.Do(sent)), s.URL, "http://server")
		}
		if got[0] != got[1] {
			t.Errorf("HTTP/%d %v:\n%s\nbut Connect answers\n%s", version, r, short(got[0]), short(got[1]))
		}
	}
	if direct, indirect := p.counts(t, 0), p.counts(t, 1); direct != indirect || !strings.Contains(direct, `code="ok"`) {
		t.Errorf("HTTP/%d: the metrics are\n%s\nbut those of Connect\n%s", version, direct, indirect)
	}
}

// The time that a client gives ends a request in both ways alike.
func TestDirectRequestsEndInTheTimeOfTheClient(t *testing.T) {
	t.Parallel()
	for _, r := range []request{
		{next, message(asProto, &snowflakev1.NextRequest{Source: "slow"}), []string{"Content-Type", asProto, "Connect-Timeout-Ms", "1"}},
		{next, message(asGRPC, &snowflakev1.NextRequest{Source: "slow"}), []string{"Content-Type", asGRPC, "Grpc-Timeout", "1m"}},
	} {
		p := newPair(time.Minute)
		var got [2]string
		for i := range got {
			got[i] = p.record(context.Background(), i, r)
		}
		if got[0] != got[1] || !strings.Contains(p.counts(t, 0), `_count{code="deadline_exceeded",protocol="`) {
			t.Errorf("%v:\n%s\nbut Connect answers\n%s\n%s", r, got[0], got[1], p.counts(t, 0))
		}
	}
}

// A request may be over before it is worked on, as on a busy machine.
func TestDirectRequestsThatAreOverBeforeTheyBeginEndAlike(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, kind := range []string{asProto, asGRPC} {
		body := message(kind, &snowflakev1.NextRequest{Source: "slow"})
		p := newPair(time.Minute)
		var got [2]string
		for i := range got {
			got[i] = p.record(over, i, request{next, body, []string{"Content-Type", kind}})
		}
		if got[0] != got[1] || !strings.Contains(p.counts(t, 1), `_count{code="deadline_exceeded",protocol="`) {
			t.Errorf("%s:\n%s\nbut Connect answers\n%s\n%s", kind, got[0], got[1], p.counts(t, 1))
		}
	}
}

// record answers a request without a network.
func (p *pair) record(ctx context.Context, i int, r request) string {
	sent := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://server"+next, strings.NewReader(r.body))
	sent.URL.Path, sent.ProtoMajor, sent.ProtoMinor = r.path, 2, 0
	for j := 0; j < len(r.header); j += 2 {
		sent.Header.Set(r.header[j], r.header[j+1])
	}
	w := httptest.NewRecorder()
	p.handlers[i].ServeHTTP(w, sent)
	return answer(w.Result(), nil)
}

// FuzzDirect compares the answers to requests of all kinds with those of Connect.
func FuzzDirect(f *testing.F) {
	kinds := []string{asJSON, asProto, asGRPC, "application/grpc+proto", "application/json; charset=utf-8", ""}
	headers := []string{
		"", "Accept-Encoding", "Content-Encoding", "Connect-Protocol-Version", "Grpc-Accept-Encoding", "Grpc-Encoding", "Te",
	}
	for i, r := range requests() {
		if i%5 != 0 && !nightly.Enabled() {
			continue // TestDirectAnswersAreThoseOfConnect sends all of them
		}
		kind := max(slices.Index(kinds, r.header[1]), 0)
		header, value := 0, ""
		if len(r.header) > 2 {
			header, value = max(slices.Index(headers, r.header[2]), 0), r.header[3]
		}
		f.Add(uint8(kind), r.body, uint8(header), value)
	}
	f.Fuzz(func(t *testing.T, kind uint8, body string, header uint8, value string) {
		p := newPair(time.Millisecond) // the source that never answers must not last
		r := request{next, body, []string{"Content-Type", kinds[int(kind)%len(kinds)]}}
		if name := headers[int(header)%len(headers)]; name != "" {
			r.header = append(r.header, name, value)
		}
		direct, indirect := p.record(t.Context(), 0, r), p.record(t.Context(), 1, r)
		if direct != indirect {
			t.Errorf("%v:\n%s\nbut Connect answers\n%s", r, direct, indirect)
		}
		if a, b := p.counts(t, 0), p.counts(t, 1); a != b {
			t.Errorf("%v: the metrics are\n%s\nbut those of Connect\n%s", r, a, b)
		}
	})
}
