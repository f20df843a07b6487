package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"connectrpc.com/connect"
)

// called lets only those requests pass which call the service by a name that is its own, unless clients show
// tokens or certificates. Otherwise the page of a stranger could let its own name lead to this machine, and
// ask with the browser of a person who can reach the service. To the browser that is one and the same web
// site. The probes answer to every name: load balancers use addresses, and there is nothing to be had.
func (o Options) called(next http.Handler) http.Handler {
	if o.Tokens.Required() || o.Certificates {
		return next
	}
	return o.named(next)
}

func (o Options) named(next http.Handler) http.Handler {
	if slices.Contains(o.Hosts, "*") {
		return next
	}
	known := map[string]bool{"localhost": true}
	for _, name := range o.Hosts {
		known[hostOf(name)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		if ip, err := netip.ParseAddr(host); known[host] || err == nil && ip.Unmap().IsLoopback() {
			next.ServeHTTP(w, r)
			return
		}
		o.reject(w, r, connect.CodePermissionDenied, http.StatusForbidden, "this service asks for no token and "+
			"no certificate, so it only answers to the names of this machine and to those in its setting hosts")
	})
}

// hostOf returns the host of a Host header in one form, without the port.
func hostOf(text string) string {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	return strings.ToLower(strings.TrimSuffix(text, "."))
}
