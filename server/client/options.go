package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/snowflakeplugin/snowflakeplugin/internal/errs"
)

// The defaults and limits of the options.
const (
	defaultLeast   = 100
	defaultMost    = 10_000
	mostBlock      = 1_000_000
	defaultMaxAge  = 5 * time.Second
	defaultAttempt = time.Second
	defaultMaxWait = 10 * time.Second
)

// Option sets one property of a [Client].
type Option func(*config) error

type config struct {
	token, source    string
	least, most      int
	maxAge           time.Duration
	attempt, maxWait time.Duration
	insecure         bool
	http             *http.Client
	tls              *tls.Config
	authority        string    // a file
	certificate      [2]string // files of the certificate and of its key
}

// WithToken sets the token that the client shows. It is sent over TLS, or over plain HTTP to an address of
// this machine. For other addresses see [WithInsecure].
func WithToken(token string) Option {
	return errs.Option(func(c *config) { c.token = token },
		token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }), ErrOption,
		"WithToken: a token is printable ASCII without blanks")
}

// WithInsecure allows a token to be sent over plain HTTP to another machine.
func WithInsecure() Option {
	return errs.Set(func(c *config) { c.insecure = true })
}

// WithSource sets the source of the numbers. By default it is the generator of the service.
func WithSource(name string) Option {
	return errs.Set(func(c *config) { c.source = name })
}

// WithBlock sets how many IDs are fetched at once, from 1 to 1,000,000. By default it is 100 to 10,000,
// which is also how many a server gives at once by default. With WithBlock(1, 1) nothing is fetched ahead,
// and every call waits for the network.
func WithBlock(least, most int) Option {
	return errs.Option(func(c *config) { c.least, c.most = least, most },
		least < 1 || most < least || most > mostBlock, ErrOption,
		"WithBlock(%d, %d): from 1 to %d, the lesser one first", least, most, mostBlock)
}

// WithMaxAge sets how old an ID that was fetched ahead may become, more than 0. By default it is 5 s.
// Segments and tickets have no time in them, so a long one suits them.
func WithMaxAge(d time.Duration) Option {
	return errs.Option(func(c *config) { c.maxAge = d }, d <= 0, ErrOption,
		"WithMaxAge(%v) is not positive", d)
}

// WithAttempt sets how long a replica may take to answer before the next one is asked, from 1 ms up. By
// default it is 1 s.
func WithAttempt(d time.Duration) Option {
	return errs.Option(func(c *config) { c.attempt = d }, d < time.Millisecond, ErrOption,
		"WithAttempt(%v) is shorter than 1 ms", d)
}

// WithMaxWait sets how long a call waits for a replica at all, if its context does not end before. By
// default it is 10 s.
func WithMaxWait(d time.Duration) Option {
	return errs.Option(func(c *config) { c.maxWait = d }, d <= 0, ErrOption,
		"WithMaxWait(%v) is not positive", d)
}

// WithTLS sets the configuration of TLS, for example the certificate of a private authority. It excludes
// [WithHTTPClient].
func WithTLS(t *tls.Config) Option {
	return errs.Set(func(c *config) { c.tls = t })
}

// WithAuthority sets the PEM file of the authorities that certificates of servers have to be of, in place of
// those of the system. It changes the configuration of [WithTLS], and excludes [WithHTTPClient].
func WithAuthority(file string) Option {
	return errs.Option(func(c *config) { c.authority = file }, file == "", ErrOption,
		"WithAuthority needs the name of a file")
}

// WithCertificate sets the PEM files of a certificate and of its key, which the client shows to servers that
// run with tls-client-ca. They are read for every new connection, so they can be renewed while the client
// runs. It changes the configuration of [WithTLS], and excludes [WithHTTPClient].
func WithCertificate(cert, key string) Option {
	return errs.Option(func(c *config) { c.certificate = [2]string{cert, key} }, cert == "" || key == "",
		ErrOption, "WithCertificate needs the names of two files")
}

// WithHTTPClient sets the client that sends the requests. By default each Client has one of its own, which
// follows no redirect, so a token goes nowhere else.
func WithHTTPClient(h *http.Client) Option {
	return errs.Option(func(c *config) { c.http = h }, h == nil, ErrOption, "WithHTTPClient(nil)")
}

// configure applies the options over the defaults and reports all faults at once.
func configure(endpoints []string, opts []Option) (config, error) {
	c := config{
		least: defaultLeast, most: defaultMost, maxAge: defaultMaxAge,
		attempt: defaultAttempt, maxWait: defaultMaxWait,
	}
	faults := []error{errs.Options(&c, opts, ErrOption), c.completeTLS()}
	if c.tls != nil && c.http != nil {
		faults = append(faults, fmt.Errorf(
			"%w: WithTLS, WithAuthority and WithCertificate exclude WithHTTPClient", ErrOption))
	}
	if len(endpoints) == 0 {
		faults = append(faults, fmt.Errorf("%w: at least one endpoint is needed", ErrOption))
	}
	for _, endpoint := range endpoints {
		faults = append(faults, c.checkEndpoint(endpoint))
	}
	if c.http == nil {
		c.http = newHTTPClient(c.tls)
	}
	return c, errors.Join(faults...)
}

// completeTLS adds the files to the configuration of TLS. The one of the caller stays as it is.
func (c *config) completeTLS() error {
	if c.authority == "" && c.certificate[0] == "" {
		return nil
	}
	if c.tls == nil {
		c.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c.tls = c.tls.Clone()
	var faults []error
	if c.authority != "" {
		text, err := os.ReadFile(c.authority)
		c.tls.RootCAs = x509.NewCertPool()
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: WithAuthority: %w", ErrOption, err))
		} else if !c.tls.RootCAs.AppendCertsFromPEM(text) {
			faults = append(faults, fmt.Errorf("%w: WithAuthority: %s has no certificate", ErrOption, c.authority))
		}
	}
	if files := c.certificate; files[0] != "" {
		if _, err := tls.LoadX509KeyPair(files[0], files[1]); err != nil {
			faults = append(faults, fmt.Errorf("%w: WithCertificate: %w", ErrOption, err))
		}
		c.tls.Certificates = nil
		c.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(files[0], files[1])
			return &cert, err
		}
	}
	return errors.Join(faults...)
}

func (c config) checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%w: the endpoint is not of the form http://host:port or https://host:port", ErrOption)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%w: the endpoint of %s has more than a host and a path; use WithToken", ErrOption,
			u.Host)
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if c.token != "" && u.Scheme == "http" && !local && !c.insecure {
		return fmt.Errorf("%w: the token would go to %s in plain text; use https, or WithInsecure", ErrOption,
			u.Host)
	}
	return nil
}

func newHTTPClient(t *tls.Config) *http.Client {
	const idle = 4
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: t,
			TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: idle, IdleConnTimeout: time.Minute,
			ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
