package web

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1/snowflakev1connect"
)

const (
	// compressFrom is how long an answer has to be, in bytes, before it is compressed for clients that
	// accept that. A shorter one fits into one packet as it is.
	compressFrom = 1 << 10

	envelopeHead = 5 // of a message of gRPC: a byte of flags, and the length in four bytes
	identity     = "identity"
	compression  = "gzip" // the only one that the handlers of Connect have here
)

// direct answers plain requests for IDs in Protocol Buffers at a fraction of the cost of the handlers of
// Connect. It answers exactly as they do. Whatever is not plain, such as JSON, a wrong or a compressed
// body, or an answer that is an error, goes on to them. If the IDs have been made or refused by then, an
// [outcome] goes along, so that nothing is done twice.
type direct struct {
	desk    *issue.Desk
	metrics *metrics.Set
	maxBody int
	next    http.Handler // the handlers of Connect
	buffers sync.Pool    // of *[]byte

	// These are values of headers, which are never changed.
	compressions, grpcOK []string
}

func newDirect(desk *issue.Desk, m *metrics.Set, maxBody int, next http.Handler) *direct {
	d := &direct{
		desk: desk, metrics: m, maxBody: maxBody, next: next,
		compressions: []string{compression}, grpcOK: []string{"0"},
	}
	d.buffers.New = func() any {
		// Reading needs a byte more than the limit, to notice the end.
		buffer := make([]byte, 0, min(maxBody, compressFrom)+1)
		return &buffer
	}
	return d
}

// dialect is a kind of requests that are answered directly.
type dialect struct {
	protocol string // for the metrics
	timeouts string // the header with the time that the client waits
	accepts  string // the headers that name the compressions, of the request and of the answer
	encoding string
	envelope bool
}

// dialectOf returns the dialect of a request, or false if it is not a plain one.
func dialectOf(r *http.Request) (d dialect, ok bool) {
	if r.Method != http.MethodPost || r.URL.Path != snowflakev1connect.IDServiceNextProcedure {
		return d, false
	}
	switch first(r.Header, "Content-Type") {
	case "application/proto":
		d = dialect{
			protocol: connect.ProtocolConnect, timeouts: "Connect-Timeout-Ms", accepts: "Accept-Encoding",
			encoding: "Content-Encoding",
		}
		if version := first(r.Header, "Connect-Protocol-Version"); version != "" && version != "1" {
			return d, false
		}
	case "application/grpc", "application/grpc+proto":
		if r.ProtoMajor != 2 {
			return d, false
		}
		d = dialect{
			protocol: connect.ProtocolGRPC, timeouts: "Grpc-Timeout", accepts: "Grpc-Accept-Encoding",
			encoding: "Grpc-Encoding", envelope: true,
		}
	default:
		return d, false
	}
	encoding := first(r.Header, d.encoding)
	return d, encoding == "" || encoding == identity
}

// first returns the first value of a header whose name is in its canonical form.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// timeout returns how long the client waits, or 0 for no limit. It is false for what only Connect judges.
func (d dialect) timeout(h http.Header) (time.Duration, bool) {
	const most = 8 // digits; a longer time than these is left to Connect
	text, unit := first(h, d.timeouts), time.Millisecond
	if text == "" {
		return 0, true
	}
	if last := len(text) - 1; d.envelope {
		units := map[byte]time.Duration{'m': time.Millisecond, 'S': time.Second, 'u': time.Microsecond, 'n': 1}
		text, unit = text[:last], units[text[last]]
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return time.Duration(n) * unit, err == nil && unit > 0 && n > 0 && len(text) <= most
}

func (d *direct) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, plain := dialectOf(r)
	limit, known := kind.timeout(r.Header)
	if !plain || !known {
		d.next.ServeHTTP(w, r)
		return
	}
	began := time.Now()
	ctx := r.Context()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	buffer := d.buffers.Get().(*[]byte)
	defer d.put(buffer)
	var err error
	*buffer, err = readAll(r.Body, (*buffer)[:0], d.maxBody)
	pass := func(ctx context.Context) {
		// After what was read it goes on as it is: with the rest, or once more with its end or its error.
		again := io.MultiReader(bytes.NewReader(*buffer), r.Body)
		r.Body = struct {
			io.Reader
			io.Closer
		}{again, r.Body}
		d.next.ServeHTTP(w, r.WithContext(ctx))
	}
	whole := err == io.EOF && len(*buffer) <= d.maxBody //nolint:errorlint // as io.Reader has it
	count, source, plain := kind.parse(*buffer)
	if !whole || !plain {
		pass(ctx)
		return
	}
	ids, err := d.desk.Issue(ctx, callerOf(ctx), source, count)
	if err != nil || !d.answer(w, r, kind, ids) {
		pass(context.WithValue(ctx, outcomeKey{}, &outcome{ids: ids, err: err, began: began}))
		return
	}
	d.metrics.Observe(kind.protocol, "ok", time.Since(began))
}

func (d *direct) put(buffer *[]byte) {
	if cap(*buffer) <= 2*max(d.maxBody, compressFrom) {
		d.buffers.Put(buffer)
	}
}

// parse reads the message of a plain request.
func (d dialect) parse(text []byte) (count int64, source string, ok bool) {
	if d.envelope {
		if len(text) < envelopeHead || text[0] != 0 {
			return 0, "", false
		}
		length := binary.BigEndian.Uint32(text[1:])
		if text = text[envelopeHead:]; uint64(len(text)) != uint64(length) {
			return 0, "", false
		}
	}
	return parseProto(text)
}

// answer writes the IDs, or returns false if they have to be compressed.
func (d *direct) answer(w http.ResponseWriter, r *http.Request, kind dialect, ids []int64) bool {
	buffer := d.buffers.Get().(*[]byte)
	defer d.put(buffer)
	text := slices.Grow((*buffer)[:0], maxProto*len(ids)+envelope)
	if kind.envelope {
		text = append(text, 0, 0, 0, 0, 0)
	}
	text = appendProto(text, ids)
	*buffer = text
	length := len(text)
	if kind.envelope {
		length -= envelopeHead
		binary.BigEndian.PutUint32(text[1:], uint32(length)) //nolint:gosec // the IDs of a request are few
	}
	compresses := acceptsCompression(first(r.Header, kind.accepts))
	if compresses && length >= compressFrom {
		return false
	}
	header := w.Header()
	header["Content-Type"] = r.Header["Content-Type"][:1]
	header[kind.accepts] = d.compressions
	if kind.envelope && compresses {
		// It is what messages may have. This one has none, and says so in its flags.
		header[kind.encoding] = d.compressions
	}
	if kind.envelope {
		header["Content-Length"] = nil // else net/http would add one, and answers of gRPC have none
	}
	_, _ = w.Write(text) // who does not wait for the answer does not get it
	if kind.envelope {
		header[http.TrailerPrefix+"Grpc-Status"] = d.grpcOK
	}
	return true
}

// acceptsCompression reads a list of names as Connect does.
func acceptsCompression(names string) bool {
	for name := range strings.FieldsFuncSeq(names, func(c rune) bool { return c == ',' || c == ' ' }) {
		if name == compression {
			return true
		}
	}
	return false
}

// readAll reads a body to its end, whose error is io.EOF, or to one byte beyond the limit.
func readAll(r io.Reader, into []byte, limit int) ([]byte, error) {
	for {
		if len(into) > limit {
			return into, nil
		}
		if len(into) == cap(into) {
			into = append(into, 0)[:len(into)]
		}
		n, err := r.Read(into[len(into):min(cap(into), limit+1)])
		into = into[:len(into)+n]
		if err != nil {
			return into, err
		}
	}
}

// outcome is what was made for a request before Connect answers it.
type outcome struct {
	ids   []int64
	err   error
	began time.Time
}

type outcomeKey struct{}

// How many bytes an ID takes at most, and what is around all of them.
const (
	maxProto = 10
	envelope = 32
)

// The numbers of the fields of the messages.
const (
	fieldCount  = 1
	fieldSource = 2
	fieldIDs    = 1
)

// unset is the count of a request that does not say one.
const unset = 1

// parseProto reads a request in its usual form. It returns false for everything else, right or wrong.
func parseProto(text []byte) (count int64, source string, ok bool) {
	count = unset
	for len(text) > 0 {
		field, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return 0, "", false
		}
		text = text[n:]
		switch {
		case field == fieldCount && kind == protowire.VarintType:
			value, n := protowire.ConsumeVarint(text)
			if n < 0 || value > math.MaxInt32 {
				return 0, "", false
			}
			count, text = int64(value), text[n:]
		case field == fieldSource && kind == protowire.BytesType:
			value, n := protowire.ConsumeBytes(text)
			if n < 0 || !utf8.Valid(value) {
				return 0, "", false
			}
			source, text = string(value), text[n:]
		default:
			return 0, "", false
		}
	}
	return count, source, true
}

// appendProto writes an answer as proto does.
func appendProto(text []byte, ids []int64) []byte {
	size := 0
	for _, id := range ids {
		size += protowire.SizeVarint(uint64(id)) //nolint:gosec // it is how a negative number is written, too
	}
	text = protowire.AppendTag(text, fieldIDs, protowire.BytesType)
	text = protowire.AppendVarint(text, uint64(size)) //nolint:gosec // it is positive
	for _, id := range ids {
		text = protowire.AppendVarint(text, uint64(id)) //nolint:gosec // as above
	}
	return text
}
