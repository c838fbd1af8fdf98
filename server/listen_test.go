package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mneme/errkind"
)

// TestSocketOfAKilledServer has a server take the place of one that was killed, and of nothing else.
func TestSocketOfAKilledServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = Listen(UnixPrefix + path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(UnixPrefix + path); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Error(err)
	}
}

// TestAddressInUse says so, and what to do.
func TestAddressInUse(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(l.Addr().String()); errkind.Of(err) != errkind.InUse || !strings.Contains(err.Error(), "give another port") {
		t.Error(err)
	}
	if _, err := Listen("192.0.2.1:0"); err == nil || !strings.Contains(err.Error(), "this machine has no such address") { // of no machine, RFC 5737
		t.Error(err)
	}
}

// TestCertificateChanges has a server speak with a new certificate once its files have changed, and
// with the one before while they are broken.
func TestCertificateChanges(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(serial int64) {
		t.Helper()
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
		der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
		if err != nil {
			t.Fatal(err)
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
			if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	serial := func(c *tls.Config) int64 {
		t.Helper()
		got, err := c.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.SerialNumber.Int64()
	}
	if _, err := TLS(cert, key, nil); err == nil {
		t.Fatal("there is no certificate")
	}
	write(1)
	failures := 0
	c := &certificate{certFile: cert, keyFile: key}
	if err := c.read(); err != nil {
		t.Fatal(err)
	}
	config := c.config(func(error) { failures++ })
	if serial(config) != 1 {
		t.Fatal("another certificate")
	}
	write(2)
	c.looked = time.Time{}
	if got := serial(config); got != 2 {
		t.Errorf("certificate %d", got)
	}
	if err := os.WriteFile(key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.looked = time.Time{}
	if got := serial(config); got != 2 || failures != 1 {
		t.Errorf("certificate %d, %d failures", got, failures)
	}
}
