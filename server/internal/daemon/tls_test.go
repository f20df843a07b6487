package daemon_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes a new certificate for 127.0.0.1 and its key.
func certificate(t *testing.T, cert, key string, serial int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return pool
}

func TestBothProtocolsAreEncryptedAndTheCertificateCanBeReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := certificate(t, cert, key, 1)
	s := start(t, "--tls-cert", cert, "--tls-key", key, "--token-file", tokenFile(t))
	trusts := func(pool *x509.CertPool) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://"+s.HTTPAddr()+"/snowflake.v1.IDService/Next", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && (answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2) {
			err = errors.New(answer.Proto + " " + string(text))
		}
		return err
	}
	if err := trusts(first); err != nil {
		t.Error(err)
	}
	secured, err := (&tls.Dialer{Config: &tls.Config{RootCAs: first}}).DialContext(t.Context(), "tcp", s.RESPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer secured.Close()
	r := newRedis(t, secured)
	if got := r.do(t, "AUTH", token) + r.do(t, "PING"); got != "+OK+PONG" {
		t.Errorf("over TLS: %s", got)
	}
	plain := s.redis(t)
	plain.send(t, "PING")
	if answer, err := plain.read(); err == nil {
		t.Errorf("without TLS: %s", answer)
	}

	second := certificate(t, cert, key, 2)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := trusts(second); err != nil {
		t.Error(err)
	}
	if trusts(first) == nil {
		t.Error("the old certificate is still in use")
	}
	if err := os.WriteFile(cert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Reload() == nil {
		t.Error("a file without a certificate was accepted")
	}
	if err := trusts(second); err != nil {
		t.Errorf("a wrong file has taken away the certificate: %v", err)
	}
}
