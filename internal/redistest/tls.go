package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartTLS is Start for a server that speaks nothing but TLS and wants a password. Its certificate, for 127.0.0.1, is
// signed by itself; a Client trusts it and knows the password. If the server was built without TLS the test fails.
func StartTLS(t testing.TB, password string, args ...string) *Server {
	t.Helper()
	s := newServer(t)
	cert, key, pool := selfSigned(t)
	files := []string{"--tls-auth-clients", "no", "--requirepass", password}
	for option, content := range map[string][]byte{"tls-cert-file": cert, "tls-key-file": key} {
		file := filepath.Join(s.dir, option)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatalf("redistest: %v", err)
		}
		files = append(files, "--"+option, file)
	}
	s.args = append(files, args...)
	s.tls, s.password = &tls.Config{RootCAs: pool}, password
	return s.start()
}

// selfSigned makes a certificate and its key, in PEM, and the pool that trusts it.
func selfSigned(t testing.TB) (cert, key []byte, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "redistest"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return cert, key, pool
}
