package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Reload reads the tokens, the certificate and the authorities of clients again. What cannot be read stays
// in force as it was.
func (d *Daemon) Reload() error {
	err := d.tokens.Reload()
	if d.cert.Load() != nil {
		err = errors.Join(err, d.loadCertificate())
	}
	if d.clients.Load() != nil {
		err = errors.Join(err, d.loadAuthorities())
	}
	return err
}

func (d *Daemon) loadCertificate() error {
	cert, err := tls.LoadX509KeyPair(d.settings.TLSCert, d.settings.TLSKey)
	if err != nil {
		return fmt.Errorf("the TLS certificate cannot be used: %w", err)
	}
	d.cert.Store(&cert)
	return nil
}

func (d *Daemon) loadAuthorities() error {
	pool, err := readAuthorities(d.settings.TLSClientCA)
	if err != nil {
		return err
	}
	d.clients.Store(pool)
	return nil
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
