package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Now returns the clock of the first member that answers by HTTP, to half a second, or the local
// one with [WithLocalClock].
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if s.local {
		return time.Now().Round(0).UTC(), nil
	}
	addresses := s.clockURLs
	if addresses == nil {
		addresses = s.client.Endpoints()
	}
	var faults []error
	for _, address := range addresses {
		now, err := s.ask(ctx, address)
		if err == nil {
			return now, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(faults) == 0 {
		faults = append(faults, errors.New("the client has no endpoints"))
	}
	return time.Time{}, fmt.Errorf("etcdlease: no member told the time by HTTP "+
		"(the options WithHTTPClient, WithClockURLs and WithLocalClock say how else to ask): %w",
		errors.Join(faults...))
}

func (s *Store) ask(ctx context.Context, address string) (time.Time, error) {
	client := s.http
	target := address
	if s.clockURLs == nil {
		var socket string
		target, socket = clockURL(address, s.tls)
		if socket != "" {
			transport := socketTransport(socket)
			defer transport.CloseIdleConnections()
			client = &http.Client{Transport: transport, Timeout: askTimeout}
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return time.Time{}, fmt.Errorf("endpoint %q: %w", address, err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	// Whatever else it says, even that the client may not ask. It is read so that the connection
	// can be used again; if that fails there is the time all the same.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16))
	_ = answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: status %d without the time (Date): %w",
			target, answer.StatusCode, err)
	}
	// The header is cut to the second.
	return date.UTC().Add(time.Second / 2), nil
}

// clockURL returns the URL to ask for an endpoint in any of the forms that the etcd client takes,
// and the socket to reach it by, if it is one. What it does not know the request will refuse.
func clockURL(endpoint string, tls bool) (target, socket string) {
	if rest, unix := strings.CutPrefix(endpoint, "unix:"); unix {
		return "http://socket/version", strings.TrimPrefix(rest, "//")
	}
	if !strings.Contains(endpoint, "://") {
		// The etcd client takes TLS here if it has a configuration for it, which it does not show.
		if tls {
			return "https://" + endpoint + "/version", ""
		}
		return "http://" + endpoint + "/version", ""
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint, ""
	}
	return u.Scheme + "://" + u.Host + "/version", ""
}

// askTimeout bounds the question to one address, where the caller's client does not.
const askTimeout = 5 * time.Second

// defaultHTTPClient is a client of the store's own. It goes by no proxy: the etcd client does not
// either, and a proxy would tell its own time.
func defaultHTTPClient() *http.Client {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: askTimeout}).DialContext,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: askTimeout,
	}
	return &http.Client{Transport: transport, Timeout: askTimeout}
}

func socketTransport(path string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: askTimeout}).DialContext(ctx, "unix", path)
		},
	}
}
