package sandbox_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"gurtos/sandbox/sandboxtest"
)

// TestTrust holds that programs inside trust an authority that the sandbox was told of,
// with an empty environment too, and the machine's as before; that nobody inside can
// change that; and that the next sandbox knows nothing of it.
func TestTrust(t *testing.T) {
	h := sandboxtest.Open(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "trusted inside"}, NotBefore: time.Unix(0, 0), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	const count = `env -i /usr/bin/python3 -c 'import ssl
c = ssl.create_default_context().get_ca_certs()
print(len(c) > 50, sum("trusted inside" in str(a) for a in c))'`
	s := sandboxtest.Spec(t, "/bin/sh", "-c", count+`; f=/etc/ssl/certs/ca-certificates.crt; stat -c '%U %a' $f; (echo x >> $f) 2>/dev/null || echo no; rm -f $f 2>/dev/null || echo no; ls -A /tmp | wc -l; rm -rf /tmp/a; touch /tmp/a && echo yes`)
	s.Trust = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if e := sandboxtest.Start(t, h, s).Wait(); e.Output != "True 1\nroot 644\nno\nno\n0\nyes\n" {
		t.Errorf("%+v", e)
	}
	if e := sandboxtest.Shell(t, h, count); e.Output != "True 0\n" {
		t.Errorf("the next one: %+v", e)
	}
}
