package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	"github.com/snowflakeplugin/snowflakeplugin/generator"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/access"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netlimit"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1/snowflakev1connect"
)

const (
	maxHeader  = 16 << 10
	maxStreams = 128 // of one HTTP/2 connection
	maxFrame   = 16 << 10
	// receiveWindow is how many bytes of bodies an HTTP/2 connection may hold back.
	receiveWindow = 256 << 10
	// compressFrom is how long an answer has to be, in bytes, before it is compressed for clients that
	// accept that. A shorter one fits into one packet as it is.
	compressFrom = 1 << 10
)

var (
	errSlowBody = errors.New("the body did not arrive in time")
	errNoBody   = errors.New("the body could not be read")
)

// Options says what a server needs.
type Options struct {
	Desk    *issue.Desk
	Layout  generator.Layout
	Tokens  *access.Tokens
	Metrics *metrics.Set
	Log     *slog.Logger
	// Certificates says that clients need a certificate, which the listener has verified if there is one.
	Certificates bool
	// Hosts are the names by which a service that asks for neither tokens nor certificates may be called,
	// beside localhost and the addresses of loopback; "*" means all.
	Hosts []string
	// Draining says when the service began to end, so that clients should use another connection; nil if it
	// has not begun. It may be nil itself.
	Draining func() *time.Time
	// Settle is how long a connection of HTTP/2 that came after that is served before its client is told.
	Settle time.Duration
	// Ready says whether IDs can be made, and why not.
	Ready func() (bool, string)
	// Stopping is closed when the service begins to end.
	Stopping <-chan struct{}
	// Origins are the web sites whose pages may ask; "*" means all.
	Origins []string
	// MaxBody is in bytes. MaxRequests is how many requests may be worked on at once.
	MaxBody, MaxRequests int
	// Idle is how long a connection may wait for its next request; Slow how long a request may take to
	// arrive, and an answer to be taken.
	Idle, Slow time.Duration

	refuse *connect.ErrorWriter
}

// Server is an http.Server that can end without losing a request. Make one with [New].
type Server struct {
	*http.Server

	conns conns
}

// New returns the server of all of it. The caller gives it listeners.
func New(o Options) *Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{}
	s.Server = &http.Server{
		Handler:   o.handler(),
		Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: receiveWindow, MaxReceiveBufferPerStream: receiveWindow,
			WriteByteTimeout: o.Slow,
		},
		ReadHeaderTimeout: o.Slow,
		ReadTimeout:       o.Slow,
		WriteTimeout:      o.Slow + o.Desk.MaxTime(),
		IdleTimeout:       o.Idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          o.errorLog(),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, &connection{time.Now()})
		},
		ConnState: func(conn net.Conn, state http.ConnState) {
			s.conns.note(conn, state)
			netlimit.Of(conn).SetIdle(state == http.StateIdle)
		},
	}
	return s
}

// handler returns the handler of everything.
func (o Options) handler() http.Handler {
	o.refuse = connect.NewErrorWriter()
	limits := []connect.HandlerOption{
		connect.WithReadMaxBytes(o.MaxBody), connect.WithInterceptors(observer(o.Metrics)),
		connect.WithCompressMinBytes(compressFrom), codecs(),
	}
	api := http.NewServeMux()
	api.Handle(snowflakev1connect.NewIDServiceHandler(&ids{desk: o.Desk, layout: o.Layout}, limits...))
	service := o.crossOrigin(o.gate(o.called(o.authorized(api))))

	top := http.NewServeMux()
	top.Handle("/"+snowflakev1connect.IDServiceName+"/", service)
	h := health{o.Ready, o.Stopping}
	small := connect.WithReadMaxBytes(maxHeader)
	top.Handle(healthCheck, o.gate(connect.NewUnaryHandler(healthCheck, h.check, small)))
	top.Handle(healthWatch, unlimited(o.gate(connect.NewServerStreamHandler(healthWatch, h.watch, small))))
	reflector := grpcreflect.NewStaticReflector(snowflakev1connect.IDServiceName, healthService)
	for _, version := range []func(*grpcreflect.Reflector, ...connect.HandlerOption) (string, http.Handler){
		grpcreflect.NewHandlerV1, grpcreflect.NewHandlerV1Alpha,
	} {
		path, reflection := version(reflector, small)
		top.Handle(path, o.gate(o.called(o.authorized(reflection))))
	}
	o.probes(top)
	top.Handle("GET /metrics", o.called(o.authorized(o.Metrics.Handler())))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.leave(r) {
			// HTTP/1 sends this, and closes the connection after the answer. HTTP/2 sends GOAWAY instead.
			w.Header().Set("Connection", "close")
		}
		// The way of nearly all requests is short. The other handler finds the same one, only later.
		if r.URL.Path == snowflakev1connect.IDServiceNextProcedure {
			service.ServeHTTP(w, r)
			return
		}
		top.ServeHTTP(w, r)
	})
}

// probes adds the paths that tell how the service is.
func (o Options) probes(mux *http.ServeMux) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, why := o.Ready()
		status := http.StatusOK
		if !ready {
			status = http.StatusServiceUnavailable
		}
		say(w, status, why)
	})
}

// Admin returns the server for operators: the probes, the metrics, and the profiles of the process. It asks
// for neither a token nor a certificate.
func Admin(o Options) *http.Server {
	o.refuse = connect.NewErrorWriter()
	mux := http.NewServeMux()
	o.probes(mux)
	mux.Handle("GET /metrics", o.named(o.Metrics.Handler()))
	mux.Handle("GET /debug/pprof/", o.named(http.HandlerFunc(pprof.Index)))
	mux.Handle("GET /debug/pprof/profile", o.named(http.HandlerFunc(pprof.Profile)))
	mux.Handle("GET /debug/pprof/trace", o.named(http.HandlerFunc(pprof.Trace)))
	return &http.Server{Handler: mux, ReadHeaderTimeout: o.Slow, ErrorLog: o.errorLog()}
}

// errorLog is for messages about clients that went away and bad handshakes, which may quote what was sent.
func (o Options) errorLog() *log.Logger {
	return slog.NewLogLogger(discardBody{o.Log.Handler()}, slog.LevelDebug)
}

// discardBody keeps the messages of net/http at the level of debugging, and cuts them: they may quote a
// part of what a client has sent, which may be a secret that was sent to the wrong port.
type discardBody struct{ slog.Handler }

const maxMessage = 120

func (h discardBody) Handle(ctx context.Context, r slog.Record) error {
	text := r.Message
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	short := slog.NewRecord(r.Time, slog.LevelDebug, "snowflaked: connection: "+text, r.PC)
	return h.Handler.Handle(ctx, short)
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// connKey is the key of the *connection in the context of its requests.
type connKey struct{}

// connection has when a connection came.
type connection struct{ accepted time.Time }

// leave says whether the client of a request is told to use another connection. GOAWAY tells at once which
// requests of its connection are not worked on, and clients repeat each of them on a new connection, but only
// once. So a connection that came to a service which was ending already is not ended with its first answer.
func (o Options) leave(r *http.Request) bool {
	if o.Draining == nil {
		return false
	}
	began := o.Draining()
	c, ok := r.Context().Value(connKey{}).(*connection)
	return began != nil &&
		(!ok || r.ProtoMajor < 2 || c.accepted.Before(*began) || time.Since(c.accepted) > o.Settle)
}

// tokenKey is the key of the *access.Token in the context of a request.
type tokenKey struct{}

// callerOf returns who makes a request.
func callerOf(ctx context.Context) issue.Caller {
	token, _ := ctx.Value(tokenKey{}).(*access.Token)
	return issue.Caller{Client: ctx.Value(connKey{}), Token: token}
}

// body is the body of a request. If it does not arrive as it should, its connection ends with the answer,
// because what the client sends next cannot be told from the rest of the body. The error names no address.
type body struct {
	io.ReadCloser

	answer http.ResponseWriter
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case errors.As(err, &tooLarge):
	case errors.As(err, &network) && network.Timeout():
		err = errSlowBody
	default:
		err = errNoBody
	}
	b.answer.Header().Set("Connection", "close")
	return n, err
}

// gate bounds how many requests are worked on, and with them the memory that they need.
func (o Options) gate(next http.Handler) http.Handler {
	places := make(chan struct{}, o.MaxRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			// Connect limits the message. This limits what it would read and throw away.
			r.Body = &body{http.MaxBytesReader(w, r.Body, int64(o.MaxBody)+maxHeader), w}
			next.ServeHTTP(w, r)
		default:
			o.reject(w, r, connect.CodeUnavailable, http.StatusServiceUnavailable,
				"this replica is busy; ask again, or ask another one")
		}
	})
}

// authorized lets only those pass who show a token and a certificate, as far as these are needed.
func (o Options) authorized(next http.Handler) http.Handler { return o.certified(o.known(next)) }

func (o Options) certified(next http.Handler) http.Handler {
	if !o.Certificates {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
			next.ServeHTTP(w, r)
			return
		}
		o.reject(w, r, connect.CodeUnauthenticated, http.StatusUnauthorized, "a client certificate is needed")
	})
}

func (o Options) known(next http.Handler) http.Handler {
	if !o.Tokens.Required() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, ok := o.Tokens.Check(access.Bearer(r.Header.Get("Authorization"))); ok {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tokenKey{}, token)))
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		o.reject(w, r, connect.CodeUnauthenticated, http.StatusUnauthorized,
			"a valid token is needed: Authorization: Bearer TOKEN")
	})
}

// reject counts a request that nobody works on, and answers in its protocol, or in plain text if it has none.
func (o Options) reject(w http.ResponseWriter, r *http.Request, code connect.Code, status int, why string) {
	o.Metrics.Observe("http", code.String(), 0)
	if o.refuse.IsSupported(r) {
		_ = o.refuse.Write(w, r, connect.NewError(code, errors.New(why)))
		return
	}
	say(w, status, why)
}

// crossOrigin lets the pages of other web sites ask, if they are listed. A browser asks first.
func (o Options) crossOrigin(next http.Handler) http.Handler {
	if len(o.Origins) == 0 {
		return next
	}
	headers := []string{
		"Content-Type", "Authorization", "Connect-Protocol-Version", "Connect-Timeout-Ms",
		"X-Grpc-Web", "X-User-Agent", "Grpc-Timeout",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin != "" && (slices.Contains(o.Origins, "*") || slices.Contains(o.Origins, origin)) {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Expose-Headers", "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin")
			w.Header().Add("Vary", "Origin")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				w.Header().Set("Access-Control-Allow-Methods", "POST, GET")
				w.Header().Set("Access-Control-Allow-Headers", strings.Join(headers, ", "))
				w.Header().Set("Access-Control-Max-Age", "7200")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
