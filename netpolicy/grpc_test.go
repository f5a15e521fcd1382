package netpolicy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
)

// grpcClient in the environment makes this test's program a client: what it holds is
// the target, such as tls:example.com:4443.
const grpcClient = "GURTOS_TEST_GRPC"

// asIs is a codec whose messages are bytes.
type asIs struct{}

func (asIs) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (asIs) Unmarshal(b []byte, v any) error { *v.(*[]byte) = bytes.Clone(b); return nil }
func (asIs) Name() string                    { return "asis" }

// anyService sends each message back as it comes.
func anyService(_ any, s grpc.ServerStream) error {
	for {
		var m []byte
		if err := s.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

var stream = &grpc.StreamDesc{StreamName: "Talk", ServerStreams: true, ClientStreams: true}

// runGRPC is a program of grpc-go that talks to a target and says what came back.
func runGRPC(target string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kind, addr, _ := strings.Cut(target, ":")
	creds := insecure.NewCredentials()
	if kind == "tls" {
		pem, err := os.ReadFile(os.Getenv("SSL_CERT_FILE"))
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		creds = credentials.NewTLS(&tls.Config{RootCAs: pool})
	}
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer c.Close()
	for range 2 { // the second on the same connection
		s, err := c.NewStream(ctx, stream, "/shop.Echo/Talk", grpc.ForceCodec(asIs{}), grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		for n := range 5 {
			m := bytes.Repeat([]byte{byte(n)}, 1<<(4*n))
			if err := s.SendMsg(&m); err != nil {
				return err
			}
			var back []byte
			if err := s.RecvMsg(&back); err != nil {
				return err
			}
			if !bytes.Equal(back, m) {
				return fmt.Errorf("message %d came back with %d bytes", n, len(back))
			}
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		var end []byte
		if err := s.RecvMsg(&end); !errors.Is(err, io.EOF) {
			return fmt.Errorf("the end: %w", err)
		}
	}
	_, err = fmt.Println("it talks")
	return err
}

// TestGRPCGo holds that grpc-go itself, as a program of its own, talks to a server of
// its own, in clear and in TLS, by the proxy and without.
func TestGRPCGo(t *testing.T) {
	encoding.RegisterCodec(asIs{})
	i := outside(t)
	i.name("example.com", webAddr, webAddr6)
	for port, opt := range map[int][]grpc.ServerOption{4480: nil, 4443: {grpc.Creds(credentials.NewTLS(i.tls()))}} {
		ln, err := i.listenRaw(fmt.Sprintf("%s:%d", webAddr, port))
		if err != nil {
			t.Fatal(err)
		}
		srv := grpc.NewServer(append(opt, grpc.ForceServerCodec(asIs{}), grpc.UnknownServiceHandler(anyService))...)
		go srv.Serve(ln) //nolint:errcheck // until it is stopped
		t.Cleanup(srv.Stop)
	}
	s, blocked := space(t, "example.com")
	dir := openDir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "client"), self, 0o755) //nolint:gosec // another user runs it
	}
	ca := filepath.Join(dir, "ca.pem")
	if err == nil {
		err = os.WriteFile(ca, i.cert.PEM(), 0o644) //nolint:gosec // the same
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"clear:example.com:4480", "tls:example.com:4443"} {
		for way, env := range map[string][]string{"direct": nil, "proxy": Env()} {
			t.Run(target+"/"+way, func(t *testing.T) {
				code, out := in(t, s, env, "env -i "+strings.Join(env, " ")+" "+grpcClient+"="+target+" SSL_CERT_FILE="+ca+" "+dir+"/client")
				if code != 0 || out != "it talks\n" {
					t.Errorf("exit %d, %q", code, out)
				}
			})
		}
	}
	// It looks for a configuration too, in a name of its own that no rule has.
	for _, b := range blocked() {
		if b != "_grpc_config.example.com:53" {
			t.Errorf("blocked %q", b)
		}
	}
}
