// Package daemon is the service as a whole: it puts the parts together, serves, and ends without losing a
// request.
//
//	d, err := daemon.Start(settings, log)
//	if err != nil { ... }
//	err = d.Run(ctx) // until ctx ends, then it drains
package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
	"github.com/snowflakeplugin/snowflakeplugin/observe/promobserve/idcollector"
	"github.com/snowflakeplugin/snowflakeplugin/segment"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/access"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/issue"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/metrics"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/netlimit"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/resp"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/settings"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/sources"
	"github.com/snowflakeplugin/snowflakeplugin/server/internal/web"
)

const (
	// greeting is how long a client of the protocol of Redis may take to show its token.
	greeting = 10 * time.Second
	// giveBack bounds how long the end waits for the database.
	giveBack = 6 * time.Second
	// settle is the part of drain for which a connection has to be idle until it is closed at the end. A client
	// that is about to send a request does so before, and is told to leave.
	settle = 10
)

// Daemon is a running service. Make one with [Start], and call Run once.
type Daemon struct {
	settings  *settings.Settings
	log       *slog.Logger
	generator *sources.Generator
	counters  *sources.Counters
	tokens    *access.Tokens
	cert      atomic.Pointer[tls.Certificate] // nil without TLS
	clients   atomic.Pointer[x509.CertPool]   // the authorities of clients; nil if they need no certificate
	limiter   *netlimit.Limiter
	metrics   *metrics.Set
	started   time.Time

	web         *web.Server
	resp        *resp.Server
	admin       *http.Server
	webListen   net.Listener
	respListen  net.Listener // nil if it is off, as is the next
	adminListen net.Listener
	listeners   []*listener // inside of the first two

	draining atomic.Pointer[time.Time] // since when; nil before
	hurried  chan struct{}             // closed by Hurry
	hurry    sync.Once
	stopping chan struct{} // closed when the service begins to end
	failed   chan error    // of a listener
}

// Start opens the listeners and begins to lease a node number. It returns an error for what only an
// operator can repair.
func Start(s *settings.Settings, log *slog.Logger) (d *Daemon, err error) {
	d = &Daemon{
		settings: s, log: log, metrics: metrics.New(),
		limiter:  netlimit.New(s.MaxConnections),
		stopping: make(chan struct{}), hurried: make(chan struct{}), failed: make(chan error, 3),
		started: time.Now(),
	}
	if err := d.loadFiles(); err != nil {
		return nil, err
	}
	options, err := generatorOptions(s, log)
	if err != nil {
		return nil, err
	}
	if d.counters, err = sources.OpenCounters(s.Sources, options.Database, s.MaxTime, log); err != nil {
		return nil, err
	}
	if err := d.listen(); err != nil {
		return nil, errors.Join(err, d.counters.Close())
	}
	d.generator = sources.StartGenerator(options)
	d.describe()
	all := map[string]issue.Source{issue.DefaultSource: d.generator}
	for name, source := range d.counters.ByName {
		all[name] = source
	}
	desk := issue.New(all, int64(s.MaxCount), s.MaxTime, d.metrics, log)
	serving := web.Options{
		Desk: desk, Layout: options.Layout, Tokens: d.tokens, Metrics: d.metrics, Log: log,
		Certificates: d.clients.Load() != nil,
		Ready:        d.Ready, Stopping: d.stopping, Draining: d.draining.Load,
		Settle:  s.Drain / settle,
		Origins: settings.List(s.Origins), Hosts: s.HostList(),
		MaxBody: s.MaxBody, MaxRequests: s.MaxRequests, Idle: s.Idle, Slow: s.MaxTime,
	}
	d.web, d.admin = web.New(serving), web.Admin(serving)
	d.resp = resp.New(resp.Options{
		Desk: desk, Tokens: d.tokens, Metrics: d.metrics, Log: log, Info: d.info,
		Idle: s.Idle, Greeting: min(greeting, s.Idle), Slow: s.MaxTime,
	})
	return d, nil
}

// Check says whether a service could be started with these settings, as far as that can be known without a
// database.
func Check(s *settings.Settings, log *slog.Logger) error {
	options, err := generatorOptions(s, log)
	if err == nil {
		err = options.Check()
	}
	if err == nil {
		var counters *sources.Counters
		if counters, err = sources.OpenCounters(s.Sources, options.Database, s.MaxTime, log); err == nil {
			err = counters.Close()
		}
	}
	files := &Daemon{settings: s}
	return errors.Join(err, files.loadFiles(), checkAddresses(s))
}

// checkAddresses listens for a moment. An address that is in use is right: by a service that runs already, as
// a rule. But the two addresses must not be the same one.
func checkAddresses(s *settings.Settings) error {
	if s.Listen == s.RESP && samePort(s) {
		return fmt.Errorf("listen and resp are both %s", s.Listen)
	}
	var faults []error
	listening := 0
	type port struct{ what, address string }
	for _, one := range []port{
		{"HTTP", s.Listen}, {"the protocol of Redis", s.RESP}, {"operators", s.Admin},
	} {
		if one.address == "off" {
			continue
		}
		var config net.ListenConfig
		inner, err := config.Listen(context.Background(), "tcp", one.address)
		if err == nil {
			listening++
			// It is closed in the end: the second address may be the same.
			defer inner.Close() //nolint:errcheck,gocritic // nobody has used it, and there are two
		} else if !errors.Is(err, syscall.EADDRINUSE) || listening > 0 && samePort(s) {
			faults = append(faults, fmt.Errorf("listening for %s: %w", one.what, err))
		}
	}
	return errors.Join(faults...)
}

// samePort says whether both addresses have the same port, and not one that the system chooses.
func samePort(s *settings.Settings) bool {
	_, first, err := net.SplitHostPort(s.Listen)
	_, second, wrong := net.SplitHostPort(s.RESP)
	return err == nil && wrong == nil && first == second && first != "0"
}

// readAuthorities reads a file of certificates. A file that is right in part only is an error, because it
// would lock out clients.
func readAuthorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tls-client-ca cannot be read: %w", err)
	}
	pool, found, rest := x509.NewCertPool(), 0, text
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		found++
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil || !cert.IsCA {
			return nil, fmt.Errorf("tls-client-ca: block %d of %s is no certificate of an authority", found, path)
		}
		pool.AddCert(cert)
	}
	// Package pem passes over a block that it cannot read.
	begun, ended := bytes.Count(text, []byte("-----BEGIN ")), bytes.Count(text, []byte("-----END "))
	if found != begun || found != ended {
		return nil, fmt.Errorf("tls-client-ca: %s begins %d blocks and ends %d, and %d can be read", path, begun,
			ended, found)
	}
	if found == 0 {
		return nil, fmt.Errorf("tls-client-ca: %s holds no certificate in PEM", path)
	}
	return pool, nil
}

func generatorOptions(s *settings.Settings, log *slog.Logger) (o sources.GeneratorOptions, err error) {
	o = sources.GeneratorOptions{Table: s.Table, Log: log, Lease: []lease.Option{lease.WithSpan(s.Span)}}
	if o.Layout, err = s.LayoutOf(); err != nil {
		return o, err
	}
	if o.Database, err = sources.ParseDSN(s.DSN); err != nil {
		return o, err
	}
	lo, hi, limited, err := s.NodeRange()
	if limited {
		o.Lease = append(o.Lease, lease.WithNodes(lo, hi))
		if hi > o.Layout.MaxNode() {
			err = fmt.Errorf("nodes is %q, but the greatest node number of layout %s is %d", s.Nodes, s.Layout,
				o.Layout.MaxNode())
		}
	}
	return o, err
}

// listen opens the listeners, with the limit of connections and TLS around them.
func (d *Daemon) listen() error {
	var err error
	if d.webListen, err = d.open(d.settings.Listen); err != nil {
		return fmt.Errorf("listening for HTTP: %w", err)
	}
	if d.settings.RESP != "off" {
		respListen, err := d.open(d.settings.RESP)
		if err != nil {
			return errors.Join(fmt.Errorf("listening for the protocol of Redis: %w", err), d.webListen.Close())
		}
		d.respListen = respListen
	}
	if d.settings.Admin == "off" {
		return nil
	}
	var config net.ListenConfig
	if d.adminListen, err = config.Listen(context.Background(), "tcp", d.settings.Admin); err != nil {
		err = errors.Join(fmt.Errorf("listening for operators: %w", err), d.webListen.Close())
		if d.respListen != nil {
			err = errors.Join(err, d.respListen.Close())
		}
	}
	return err
}

func (d *Daemon) open(address string) (net.Listener, error) {
	var config net.ListenConfig
	inner, err := config.Listen(context.Background(), "tcp", address) // listening does not wait
	if err != nil {
		return nil, err
	}
	one := newListener(inner.(*net.TCPListener)) // which that network has
	d.listeners = append(d.listeners, one)
	return d.limiter.Listen(one), nil
}

// tlsConfig returns a configuration that always takes the latest certificate. If clients need certificates,
// it asks for them in that way, and checks them against the latest authorities.
func (d *Daemon) tlsConfig(how tls.ClientAuthType, protocols ...string) *tls.Config {
	plain := tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return d.cert.Load(), nil
		},
	}
	config := plain.Clone()
	if d.clients.Load() == nil {
		return config
	}
	// With older releases of Go, a session that is resumed goes past authorities that were taken away since.
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		one := plain.Clone()
		one.SessionTicketsDisabled = true
		one.ClientAuth, one.ClientCAs = how, d.clients.Load()
		return one, nil
	}
	return config
}

// loadFiles reads the tokens, the certificate and the authorities of clients, as far as there are any.
func (d *Daemon) loadFiles() (err error) {
	if d.settings.TokenFile != "" {
		d.tokens, err = access.Load(d.settings.TokenFile, d.settings.SourceNames())
	}
	return errors.Join(err, d.loadCertificates())
}

func (d *Daemon) loadCertificates() (fault error) {
	if d.settings.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(d.settings.TLSCert, d.settings.TLSKey)
		if err == nil {
			d.cert.Store(&cert)
		} else {
			fault = fmt.Errorf("the TLS certificate cannot be used: %w", err)
		}
	}
	if d.settings.TLSClientCA != "" {
		pool, err := readAuthorities(d.settings.TLSClientCA)
		if err == nil {
			d.clients.Store(pool)
		}
		fault = errors.Join(fault, err)
	}
	return fault
}

// describe declares the metrics that are read when somebody asks.
func (d *Daemon) describe() {
	d.metrics.Add(idcollector.New(d.reading))
	open := func(state string, count func(netlimit.Counts) int) {
		d.metrics.Read("connections", "Connections.", prometheus.GaugeValue, state,
			func() float64 { return float64(count(d.limiter.Counts())) })
	}
	ended := func(state string, count func(netlimit.Counts) uint64) {
		d.metrics.Read("connections_ended_total", "Connections that were ended because there were too many.",
			prometheus.CounterValue, state, func() float64 { return float64(count(d.limiter.Counts())) })
	}
	open("idle", func(c netlimit.Counts) int { return c.Idle })
	open("active", func(c netlimit.Counts) int { return c.Open - c.Idle })
	ended("idle", func(c netlimit.Counts) uint64 { return c.Evicted })
	ended("refused", func(c netlimit.Counts) uint64 { return c.Refused })
}

// reading is what the service shows under the names that the plugin has, too.
func (d *Daemon) reading(context.Context) idcollector.Reading {
	r := d.generator.Reading()
	r.Ready, _ = d.Ready()
	r.Sources = make(map[string]segment.Stats, len(d.counters.ByName))
	for name, source := range d.counters.ByName {
		r.Sources[name] = source.Stats()
	}
	return r
}

// Version is the version of the module, or of the checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// info returns the lines of the command INFO.
func (d *Daemon) info() []string {
	stats := d.generator.Reading().Stats
	ready, why := d.Ready()
	node := "none"
	if !stats.End.IsZero() {
		node = fmt.Sprint(stats.Node)
	}
	c := d.limiter.Counts()
	return []string{
		"# Server", "server:snowflaked", "version:" + Version(),
		fmt.Sprintf("uptime_in_seconds:%d", int64(time.Since(d.started).Seconds())),
		"# Clients", fmt.Sprintf("connected_clients:%d", c.Open),
		"# Snowflake", fmt.Sprintf("ready:%t", ready), "state:" + why, "layout:" + d.settings.Layout,
		"node:" + node, fmt.Sprintf("issued:%d", stats.Issued),
	}
}

// HTTPAddr returns the address for HTTP.
func (d *Daemon) HTTPAddr() string { return d.webListen.Addr().String() }

// RESPAddr returns the address for the protocol of Redis, or "".
func (d *Daemon) RESPAddr() string { return addressOf(d.respListen) }

// AdminAddr returns the address for operators, or "".
func (d *Daemon) AdminAddr() string { return addressOf(d.adminListen) }

func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Ready says whether the service should get requests, and why not.
func (d *Daemon) Ready() (ready bool, why string) {
	if d.draining.Load() != nil {
		return false, "the replica is ending"
	}
	return d.generator.Ready()
}

// Run serves until ctx ends, and then drains: it is not ready any more, serves on for the delay, answers
// every request on the connections that it has while their clients leave, and gives the node number back. It
// returns an error if the service could not be served, or if requests had to be cut off.
func (d *Daemon) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	serving.Go(func() { d.report("HTTP", d.serveWeb()) })
	if d.respListen != nil {
		serving.Go(func() { d.report("the protocol of Redis", d.serveRESP()) })
	}
	if d.adminListen != nil {
		go func() { d.report("operators", d.admin.Serve(d.adminListen)) }() // until the end
	}
	d.log.Info("snowflaked: serving", "http", d.HTTPAddr(), "resp", d.RESPAddr(), "admin", d.AdminAddr(),
		"tls", d.cert.Load() != nil, "tokens", d.tokens.Required(), "certificates", d.clients.Load() != nil)
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-d.failed:
	case failure = <-d.generator.Failed():
		failure = fmt.Errorf("no node number can be leased: %w", failure)
	}
	return errors.Join(failure, d.drain(failure != nil, serving.Wait)) //nolint:contextcheck // ctx has ended
}

func (d *Daemon) serveWeb() error {
	if d.cert.Load() == nil {
		return d.web.Serve(d.webListen)
	}
	// The probes need no certificate, so the handler asks for it; one that is shown has to be right.
	d.web.TLSConfig = d.tlsConfig(tls.VerifyClientCertIfGiven, "h2", "http/1.1")
	return d.web.ServeTLS(d.webListen, "", "")
}

func (d *Daemon) serveRESP() error {
	listener := d.respListen
	if d.cert.Load() != nil {
		listener = tls.NewListener(listener, d.tlsConfig(tls.RequireAndVerifyClientCert))
	}
	return d.resp.Serve(listener)
}

func (d *Daemon) report(what string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		d.failed <- fmt.Errorf("serving %s: %w", what, err)
	}
}

// Reload reads the tokens, the certificate and the authorities of clients again. What cannot be read stays
// in force as it was.
func (d *Daemon) Reload() error { return errors.Join(d.tokens.Reload(), d.loadCertificates()) }

// Hurry ends the delay of a service that drains.
func (d *Daemon) Hurry() { d.hurry.Do(func() { close(d.hurried) }) }

// drain ends the service. At once means that it does not serve on for the delay. Accepted waits until no more
// connections are accepted.
func (d *Daemon) drain(atOnce bool, accepted func()) error {
	// From now on, clients over HTTP are told with every answer to come back on another connection.
	began := time.Now()
	d.draining.Store(&began)
	if !atOnce && d.settings.DrainDelay > 0 {
		d.log.Info("snowflaked: not ready any more; serving on for a while", "delay", d.settings.DrainDelay)
		select {
		case <-time.After(d.settings.DrainDelay):
		case <-d.hurried:
		}
	}
	d.log.Info("snowflaked: ending when all requests are answered", "limit", d.settings.Drain)
	close(d.stopping)
	ctx, cancel := context.WithTimeout(context.Background(), d.settings.Drain)
	defer cancel()
	for _, one := range d.listeners {
		one.end()
	}
	accepted()
	idle := d.settings.Drain / settle
	var ending sync.WaitGroup
	var webErr, respErr error
	ending.Go(func() {
		d.web.Settle(ctx, began, idle)
		if webErr = d.web.Shutdown(ctx); webErr != nil {
			webErr = errors.Join(fmt.Errorf("requests over HTTP were cut off: %w", webErr), d.web.Close())
		}
	})
	ending.Go(func() {
		if d.respListen == nil {
			return
		}
		if respErr = d.resp.Shutdown(ctx, idle); respErr != nil {
			respErr = fmt.Errorf("connections of the protocol of Redis were cut off: %w", respErr)
		}
	})
	ending.Wait()
	// Nobody asks any more, so the number can go back.
	closing, cancel := context.WithTimeout(context.Background(), giveBack)
	defer cancel()
	err := errors.Join(webErr, respErr, d.generator.Close(closing), d.counters.Close(), d.admin.Close())
	d.log.Info("snowflaked: ended", "uptime", time.Since(d.started).Round(time.Second))
	return err
}
