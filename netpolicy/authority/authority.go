// Package authority owns a certificate authority that answers TLS in the place of
// a few declared hosts, towards tasks that were told to trust it. It never signs
// for a name that it was not asked to by the code that made it, and no browser or
// phone is ever offered it.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Names of the files in the authority's folder.
const (
	certFile = "ca.pem"
	keyFile  = "ca.key"
)

// notBefore is long past, so that a box whose clock is not set yet makes
// certificates that are valid all the same.
var notBefore = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// years that an authority and its leaves are valid from notBefore. The folder is
// the box's own and ends with it.
const years = 60

// Authority signs leaves for hosts and keeps them.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// Open reads the authority in dir, or makes one when there is none. The key file
// must be readable by root alone.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the tasks' certificate authority: %w", err)
	}
	keyPEM, err := readKey(filepath.Join(dir, keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(dir); err != nil {
			return nil, fmt.Errorf("make the tasks' certificate authority: %w", err)
		}
		keyPEM, err = readKey(filepath.Join(dir, keyFile))
	}
	if err != nil {
		return nil, err
	}
	certPEM, err := os.ReadFile(filepath.Join(dir, certFile))
	if err != nil {
		return nil, fmt.Errorf("read the tasks' certificate authority: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read the tasks' certificate authority in %s: %w", dir, err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("read the tasks' certificate authority in %s: %w", dir, err)
	}
	return &Authority{cert: cert, pem: certPEM, key: pair.PrivateKey.(crypto.Signer), leaves: map[string]*tls.Certificate{}}, nil
}

func readKey(path string) ([]byte, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of the tasks' certificate authority: %w", err)
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, and must be a file that root alone may read: chmod 0600 it", path, st.Mode().Perm())
	}
	return os.ReadFile(path)
}

// create writes the certificate first and the key last: a folder with a key is
// whole.
func create(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	tmpl := template("GurtOS task authority")
	tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.MaxPathLenZero = true, true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, certFile), 0o644, "CERTIFICATE", der); err != nil {
		return err
	}
	return write(filepath.Join(dir, keyFile), 0o600, "PRIVATE KEY", keyDER)
}

// write puts a PEM block into a new file and syncs it and its folder.
func write(path string, mode os.FileMode, kind string, der []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = errors.Join(f.Chmod(mode), pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: notBefore, NotAfter: notBefore.AddDate(years, 0, 0),
	}
}

// PEM is the authority's certificate, for those who are to trust it.
func (a *Authority) PEM() []byte { return a.pem }

// Leaf gives the certificate for a host, made once.
func (a *Authority) Leaf(host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[host]; c != nil {
		return c, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := template(host)
	tmpl.DNSNames = []string{host}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", host, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
	a.leaves[host] = c
	return c, nil
}
