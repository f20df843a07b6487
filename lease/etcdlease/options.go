package etcdlease

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/snowflakeplugin/snowflakeplugin/lease"
)

// Option changes what [New] does by default. The options of this package are the only ones.
type Option interface{ apply(*Store) error }

type option func(*Store) error

func (o option) apply(s *Store) error { return o(s) }

// WithHTTPClient tells the store to ask for the time with client, for endpoints whose certificates the
// system does not know or that want one of the client's. Its transport then takes the same
// tls.Config as the etcd client. Endpoints without a scheme ("host:port") are asked by https then,
// otherwise by http.
//
// By default, endpoints are asked with a client that verifies certificates against those of the
// system, uses no proxy, and waits 5 s. The given one is never changed; nil is an error.
func WithHTTPClient(client *http.Client) Option {
	return option(func(s *Store) error {
		if client == nil {
			return errors.New("WithHTTPClient needs a client, not nil")
		}
		s.http, s.tls = client, true
		return nil
	})
}

// WithClockURLs tells the store to ask these addresses for the time, each an http or https URL, in
// turn until one answers. Any answer will do, as long as it has a Date; all processes should name
// the same servers.
//
// By default, the endpoints of the etcd client are asked for /version.
func WithClockURLs(urls ...string) Option {
	return option(func(s *Store) error {
		if len(urls) == 0 {
			return errors.New("WithClockURLs needs at least one URL")
		}
		for _, text := range urls {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return fmt.Errorf("WithClockURLs: %q is not like \"http://host:port/path\"", text)
			}
		}
		s.clockURLs = slices.Clone(urls)
		return nil
	})
}

// WithLocalClock tells the store to pass the clock of this machine off as its own. Then nobody notices
// a machine whose clock is wrong: no ID is made twice even so, because windows are compared with
// each other and not with clocks, but a machine that is a year ahead takes its number out of use
// for a year, and finds numbers free that are still extended. Only for machines whose clocks
// somebody else watches.
//
// By default, etcd is asked by HTTP. WithLocalClock cannot be combined with [WithHTTPClient] or
// [WithClockURLs].
func WithLocalClock() Option {
	return option(func(s *Store) error {
		s.local = true
		return nil
	})
}

func (s *Store) configure(options []Option) error {
	var faults []error
	for _, o := range options {
		if o == nil {
			faults = append(faults, errors.New("an option is nil"))
			continue
		}
		if err := o.apply(s); err != nil {
			faults = append(faults, err)
		}
	}
	if s.local && (s.http != nil || s.clockURLs != nil) {
		faults = append(faults, errors.New(
			"WithLocalClock asks nobody, so leave out WithHTTPClient and WithClockURLs"))
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: etcdlease: %w", lease.ErrInvalidOption, errors.Join(faults...))
	}
	if s.http == nil {
		s.http = defaultHTTPClient()
	}
	return nil
}
