package daemon_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/snowflakeplugin/snowflakeplugin/server/client"
	"github.com/snowflakeplugin/snowflakeplugin/server/snowflakev1"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	a.key = newKey(t)
	der := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}, nil, a.key, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue writes a certificate for a purpose that ends at a time, and returns the files.
func (a *authority) issue(t *testing.T, use x509.ExtKeyUsage, end time.Time) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	private := newKey(t)
	writePEM(t, cert, "CERTIFICATE", sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "shop"}, ExtKeyUsage: []x509.ExtKeyUsage{use},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, private, a.key))
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, key, "PRIVATE KEY", secret)
	return cert, key
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, own, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &own.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// caller is a client with or without a certificate.
type caller struct{ config *tls.Config }

// newCaller returns a client that trusts an authority and shows the certificate of two files, if any. It
// shows it whether the server asks for its authority or not.
func newCaller(t *testing.T, trusted *authority, files ...string) caller {
	t.Helper()
	c := caller{&tls.Config{RootCAs: x509.NewCertPool()}}
	c.config.RootCAs.AddCert(trusted.cert)
	if len(files) == 2 {
		cert, err := tls.LoadX509KeyPair(files[0], files[1])
		if err != nil {
			t.Fatal(err)
		}
		c.config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	return c
}

// http returns the status of a request, or 0 if there was no answer.
func (c caller) http(t *testing.T, s *service, path string, header ...string) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c.config.Clone(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	method, body := http.MethodPost, "{}"
	if !strings.Contains(path, "IDService") {
		method, body = http.MethodGet, ""
	}
	request, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

func (c caller) grpc(t *testing.T, s *service) codes.Code {
	t.Helper()
	conn, err := grpc.NewClient(s.HTTPAddr(), grpc.WithTransportCredentials(credentials.NewTLS(c.config.Clone())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var answer snowflakev1.NextResponse
	return status.Code(conn.Invoke(t.Context(), "/snowflake.v1.IDService/Next", &snowflakev1.NextRequest{}, &answer))
}

// redis returns the answer to PING. Under TLS 1.3 a client learns from it whether its certificate is right.
func (c caller) redis(t *testing.T, s *service) (string, error) {
	t.Helper()
	conn, err := (&tls.Dialer{Config: c.config.Clone()}).DialContext(t.Context(), "tcp", s.RESPAddr())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	r := newRedis(t, conn)
	if _, err := io.WriteString(r, "PING\r\n"); err != nil {
		return "", err
	}
	return r.read()
}

const procedure = "/snowflake.v1.IDService/Next"

func TestClientsNeedTheirCertificate(t *testing.T) {
	t.Parallel()
	ours, strange := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	cert, key := ours.issue(t, x509.ExtKeyUsageServerAuth, later)
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ours.file)
	show := func(a *authority, use x509.ExtKeyUsage, end time.Time) caller {
		c, k := a.issue(t, use, end)
		return newCaller(t, ours, c, k)
	}
	for _, c := range []struct {
		name   string
		caller caller
		status int // 0 means that the handshake fails
		code   codes.Code
		right  bool
	}{
		{"none", newCaller(t, ours), http.StatusUnauthorized, codes.Unauthenticated, false},
		{"one of another authority", show(strange, x509.ExtKeyUsageClientAuth, later), 0, codes.Unavailable, false},
		{"an expired one", show(ours, x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute)), 0, codes.Unavailable, false},
		{"one of a server", show(ours, x509.ExtKeyUsageServerAuth, later), 0, codes.Unavailable, false},
		{"the right one", show(ours, x509.ExtKeyUsageClientAuth, later), http.StatusOK, codes.OK, true},
	} {
		if got, text := c.caller.http(t, s, procedure); got != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, got, text, c.status)
		}
		if got := c.caller.grpc(t, s); got != c.code {
			t.Errorf("%s: gRPC: %v, want %v", c.name, got, c.code)
		}
		if answer, err := c.caller.redis(t, s); (answer == "+PONG") != c.right || (err == nil) != c.right {
			t.Errorf("%s: Redis: %q, %v", c.name, answer, err)
		}
	}
	without := newCaller(t, ours)
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 401} {
		if got, text := without.http(t, s, path); got != want {
			t.Errorf("%s without a certificate: %d %s, want %d", path, got, text, want)
		}
	}
	right := show(ours, x509.ExtKeyUsageClientAuth, later)
	if _, text := right.http(t, s, "/metrics"); !strings.Contains(text, `_count{code="unauthenticated",protocol="http"} 3`) {
		t.Errorf("the metrics do not count those without a certificate:\n%s", text)
	}
}

// With tokens and certificates, a client needs both.
func TestACertificateDoesNotReplaceAToken(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	cert, key := ours.issue(t, x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour))
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ours.file, "--token-file", tokenFile(t))
	cert, key = ours.issue(t, x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour))
	certified, plain := newCaller(t, ours, cert, key), newCaller(t, ours)
	bearer := []string{"Authorization", "Bearer " + token}
	for name, c := range map[string]struct {
		caller caller
		header []string
		want   int
	}{
		"both": {certified, bearer, 200}, "a certificate": {certified, nil, 401}, "a token": {plain, bearer, 401}, "none": {plain, nil, 401},
	} {
		if got, text := c.caller.http(t, s, procedure, c.header...); got != c.want {
			t.Errorf("%s: %d %s, want %d", name, got, text, c.want)
		}
	}
	if answer, err := certified.redis(t, s); !strings.HasPrefix(answer, "-NOAUTH") {
		t.Errorf("Redis without a token: %q, %v", answer, err)
	}
}

// The authorities can be replaced, and a client whose authority is gone does not come back by a session
// that it has kept.
func TestTheAuthoritiesOfClientsCanBeReplaced(t *testing.T) {
	t.Parallel()
	first, second := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	cert, key := first.issue(t, x509.ExtKeyUsageServerAuth, later)
	file := filepath.Join(t.TempDir(), "clients.pem")
	put := func(files ...string) {
		t.Helper()
		var all []byte
		for _, one := range files {
			text, err := os.ReadFile(one)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		if err := os.WriteFile(file, all, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(first.file)
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", file)
	callers := map[string]caller{}
	for name, a := range map[string]*authority{"first": first, "second": second} {
		c, k := a.issue(t, x509.ExtKeyUsageClientAuth, later)
		callers[name] = newCaller(t, first, c, k)
		callers[name].config.ClientSessionCache = tls.NewLRUClientSessionCache(10)
	}
	pass := func(step string, want ...string) {
		t.Helper()
		for name, c := range callers {
			answer, err := c.redis(t, s)
			status, _ := c.http(t, s, procedure)
			if right := slices.Contains(want, name); right != (answer == "+PONG") || right != (status == http.StatusOK) {
				t.Errorf("%s: %s: %d, %q, %v", step, name, status, answer, err)
			}
		}
	}
	pass("at first", "first")
	put(first.file, second.file)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	pass("with both", "first", "second")
	put(second.file)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	pass("with the second one", "second")
	for name, files := range map[string][]string{
		"nothing": nil, "a key": {key}, "no authority": {cert}, "half of it": {second.file, key},
	} {
		put(files...)
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "tls-client-ca") {
			t.Errorf("%s: %v", name, err)
		}
	}
	pass("after wrong files", "second")
	put(second.file, first.file)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a block that is not base64":  strings.Replace(string(whole), "MII", "-*-", 1),
		"a block that does not begin": strings.Replace(string(whole), "-----BEGIN", "-----BEGI", 1),
		"a block that does not end":   strings.TrimSuffix(strings.TrimSpace(string(whole)), "-----END CERTIFICATE-----"),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "tls-client-ca") {
			t.Errorf("%s: %v", name, err)
		}
	}
	pass("after damaged files", "second")
}

// The client in Go shows a certificate, and reads it again when it was renewed.
func TestTheClientInGoShowsItsCertificate(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t)
	later := time.Now().Add(time.Hour)
	cert, key := ours.issue(t, x509.ExtKeyUsageServerAuth, later)
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ours.file)
	cert, key = ours.issue(t, x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute))
	ask := func(wait time.Duration, opts ...client.Option) (*client.Client, error) {
		t.Helper()
		c, err := client.New([]string{"https://" + s.HTTPAddr()}, append(opts, client.WithBlock(1, 1), client.WithAuthority(ours.file))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err = c.Next(ctx)
		return c, err
	}
	if _, err := ask(time.Minute); !errors.Is(err, client.ErrRefused) {
		t.Errorf("without a certificate: %v, want ErrRefused", err)
	}
	expired, err := ask(100*time.Millisecond, client.WithCertificate(cert, key))
	if !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("with an expired certificate: %v, want ErrUnavailable", err)
	}
	renewed, itsKey := ours.issue(t, x509.ExtKeyUsageClientAuth, later)
	if err := errors.Join(os.Rename(renewed, cert), os.Rename(itsKey, key)); err != nil {
		t.Fatal(err)
	}
	if _, err := expired.Next(t.Context()); err != nil {
		t.Errorf("after the certificate was renewed: %v", err)
	}
	for name, opts := range map[string][]client.Option{
		"no file": {client.WithCertificate("nowhere", "nowhere")}, "an authority that is none": {client.WithAuthority(key)},
		"no name": {client.WithCertificate("", "")}, "two ways": {client.WithAuthority(ours.file), client.WithHTTPClient(http.DefaultClient)},
	} {
		if _, err := client.New([]string{"https://" + s.HTTPAddr()}, opts...); !errors.Is(err, client.ErrOption) {
			t.Errorf("%s: %v", name, fmt.Sprint(err))
		}
	}
}
