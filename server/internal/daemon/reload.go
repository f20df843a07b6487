package daemon

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// Reload reads the tokens and the certificate again. After an error the old ones stay in force.
func (d *Daemon) Reload() error {
	err := d.tokens.Reload()
	if d.cert.Load() != nil {
		err = errors.Join(err, d.loadCertificate())
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

// tlsConfig returns a configuration that always takes the latest certificate.
func (d *Daemon) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return d.cert.Load(), nil
		},
	}
}
