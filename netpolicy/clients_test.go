package netpolicy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/test/internet/shops"
)

const javaClient = `
import java.net.URI; import java.net.http.*; import java.util.concurrent.*;
public class Main {
  public static void main(String[] a) throws Exception {
    HttpClient c = HttpClient.newHttpClient();
    for (String u : new String[]{"http://example.com/a", "https://example.com/a"}) {
      HttpResponse<String> r = c.send(HttpRequest.newBuilder(URI.create(u)).build(), HttpResponse.BodyHandlers.ofString());
      System.out.println(r.statusCode() + " " + r.version() + " " + r.body());
    }
    for (String u : new String[]{"ws://example.com/ws", "wss://example.com/ws"}) {
      CompletableFuture<String> got = new CompletableFuture<>();
      WebSocket w = c.newWebSocketBuilder().buildAsync(URI.create(u), new WebSocket.Listener() {
        public CompletionStage<?> onText(WebSocket s, CharSequence d, boolean last) { got.complete(d.toString()); return null; }
      }).get(20, TimeUnit.SECONDS);
      w.sendText("there", true).get(20, TimeUnit.SECONDS);
      System.out.println("socket " + got.get(20, TimeUnit.SECONDS));
      w.abort();
    }
  }
}`

// TestNothingBreaks runs the programs that people use, by the proxy and without; the
// environment is empty but for what each line says. Hosts are allowed by name; every
// program must end well and say what it must.
func TestNothingBreaks(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr, webAddr6)
	serveTCP(t, i, 22, func(c *net.TCPConn) { shops.SSH(c) })
	serveTCP(t, i, 5432, func(c *net.TCPConn) { shops.Postgres(c) })
	s, blocked := space(t, "example.com")

	dir := openDir(t)
	ca := filepath.Join(dir, "ca.pem")
	store := filepath.Join(dir, "ca.p12")
	if err := os.WriteFile(ca, i.cert.PEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Main.java"), []byte(javaClient), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("keytool"); err == nil {
		if out, err := exec.Command("keytool", "-importcert", "-noprompt", "-alias", "x", "-file", ca, "-keystore", store, "-storepass", "changeit", "-storetype", "PKCS12").CombinedOutput(); err != nil {
			t.Fatalf("keytool: %v, %s", err, out)
		}
		os.Chmod(store, 0o644) //nolint:errcheck // java tells
	}
	trust := []string{"SSL_CERT_FILE=" + ca, "NODE_EXTRA_CA_CERTS=" + ca, "REQUESTS_CA_BUNDLE=" + ca, "PIP_CERT=" + ca, "GIT_SSL_CAINFO=" + ca, "CURL_CA_BUNDLE=" + ca,
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin", "GOTOOLCHAIN=local", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOPROXY=https://example.com/go"}

	for _, c := range []struct{ needs, name, command, want string }{
		{"curl", "curl", "curl -sS -m 20 http://example.com/a https://example.com/b", "you reached example.com/ayou reached example.com/b"},
		{"curl", "curl over IPv6", "curl -6 -sS -m 20 http://example.com/a https://example.com/b", "you reached example.com/ayou reached example.com/b"},
		{"curl", "curl with a body", "head -c 3000000 /dev/zero | curl -sS -m 20 -T - http://example.com/a; head -c 3000000 /dev/zero | curl -sS -m 20 --data-binary @- https://example.com/b", "you reached example.com/ayou reached example.com/b"},
		{"curl", "curl and HTTP/2", "curl -sS -m 20 --http2 http://example.com/a https://example.com/b; curl -sS -m 20 --noproxy '*' --http2-prior-knowledge http://example.com/c", "you reached example.com/ayou reached example.com/byou reached example.com/c"},
		{"curl", "curl, many on one connection", "curl -sS -m 20 http://example.com/[1-20] | tail -c 26", "you reached example.com/20"},
		{"wget", "wget", "wget -q --ca-certificate=$SSL_CERT_FILE -O - http://example.com/a https://example.com/b", "you reached example.com/ayou reached example.com/b"},
		{"openssl", "openssl s_client", "echo | openssl s_client -connect example.com:443 -servername example.com -CAfile $SSL_CERT_FILE 2>/dev/null | grep -m 1 'Verify return code'", "Verify return code: 0 (ok)"},
		{"openssl", "openssl without a name", "echo | openssl s_client -connect example.com:443 -noservername -CAfile $SSL_CERT_FILE 2>/dev/null | grep -c 'BEGIN CERT'", "1"},
		{"python3", "Python urllib", "python3 -c \"import urllib.request as u; print(u.urlopen('http://example.com/a').read(), u.urlopen('https://example.com/b').read())\"", "b'you reached example.com/a' b'you reached example.com/b'"},
		{"python3", "Python requests", "python3 -c \"from pip._vendor import requests as r; s=r.Session(); print([s.get('http://example.com/a').text for _ in range(3)], s.get('https://example.com/b').text)\"", "['you reached example.com/a', 'you reached example.com/a', 'you reached example.com/a'] you reached example.com/b"},
		{"node", "node fetch", "node -e \"Promise.all(['http://example.com/a','https://example.com/b'].map(async u=>(await fetch(u)).text())).then(x=>console.log(x.join()))\"", "you reached example.com/a,you reached example.com/b"},
		{"git", "git over https", "git clone -q https://example.com/git/left.git c && cat c/file && cd c && git checkout -q -b $(basename $PWD)-$$ && git -c user.name=x -c user.email=x@y commit -q --allow-empty -m y && git push -q origin HEAD && git ls-remote -q origin | grep -c $$", "there\n1"},
		{"git", "git over http", "git clone -q http://example.com/git/left.git c && cat c/file", "there"},
		{"ssh", "git over ssh", "GIT_SSH_COMMAND='ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR' git clone -q ssh://x@example.com/left.git c && cat c/file", "there"},
		{"npm", "npm", "npm install --loglevel=error --cafile $SSL_CERT_FILE --fetch-retries=0 --no-audit --no-fund --registry https://example.com/npm/ left >/dev/null && node -p \"require('left')\"", "there"},
		{"pip3", "pip", "python3 -m pip install -q --disable-pip-version-check --no-deps --target p --index-url https://example.com/pip/ left && ls p/left/__init__.py", "p/left/__init__.py"},
		{"go", "go mod download", "go mod init x 2>/dev/null; go mod download -json example.com/left@v1.0.0 | grep -c v1.0.0.zip", "1"},
		{"psql", "psql", "psql -At 'postgresql://x@example.com/x' -c 'select 1'", "there"},
		{"java", "Java", "java -XX:TieredStopAtLevel=1 -Djava.net.useSystemProxies=false -Djavax.net.ssl.trustStore=" + store + " -Djavax.net.ssl.trustStorePassword=changeit " + filepath.Join(dir, "Main.java"),
			"200 HTTP_1_1 you reached example.com/a\n200 HTTP_2 you reached example.com/a\nsocket there\nsocket there"},
	} {
		if _, err := exec.LookPath(c.needs); err != nil && c.needs != "go" {
			t.Errorf("%s is not installed, so nothing is known of it", c.needs)
			continue
		}
		for _, way := range []string{"direct", "proxy", "env -i"} {
			if way == "env -i" && (c.needs == "node" || c.needs == "npm" || c.needs == "go" || c.needs == "java") {
				continue // they bring their own authorities, or have to be told of this test's shops
			}
			if way == "proxy" && (c.name == "curl over IPv6" || c.needs == "java" || c.needs == "psql" || c.needs == "openssl" || c.needs == "ssh") {
				continue // they know no proxy variables
			}
			t.Run(c.name+"/"+way, func(t *testing.T) {
				home := openDir(t)
				env := append([]string{"HOME=" + home}, trust...)
				if way == "proxy" {
					env = append(env, Env()...)
				}
				command := "cd " + home + " && " + c.command
				if way == "env -i" {
					file := filepath.Join(home, "command")
					if err := os.WriteFile(file, []byte(strings.ReplaceAll(command, "$SSL_CERT_FILE", ca)), 0o644); err != nil { //nolint:gosec // another user reads it
						t.Fatal(err)
					}
					command = "exec env -i HOME=" + home + " /bin/sh " + file
				}
				code, out := in(t, s, env, command)
				if out = strings.TrimSpace(out); code != 0 || out != c.want {
					t.Errorf("exit %d, %q, want %q", code, out, c.want)
				}
			})
		}
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %q", b)
	}
}

// openDir is a folder that another user may work in.
func openDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/tmp", "client")
	if err == nil {
		err = os.Chmod(dir, 0o777) //nolint:gosec // that is its purpose
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestGRPC holds that both directions of a stream of HTTP/2 pass as they come, in
// clear and in TLS, by the proxy and without.
func TestGRPC(t *testing.T) {
	i := outside(t)
	i.name("example.com", webAddr)
	s, blocked := space(t, "example.com")
	p := program{t, s}
	dial := func(_ context.Context, _, addr string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(addr)
		if host == "127.0.0.1" {
			return p.dial("tcp", addr)
		}
		return p.connect(host, map[string]uint16{"80": 80, "443": 443}[port], false)
	}
	for _, c := range []struct {
		url   string
		proxy bool
	}{{"http://example.com/shop.Echo/Talk", false}, {"https://example.com/shop.Echo/Talk", false}, {"https://example.com/shop.Echo/Talk", true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			p.t = t
			tr := &http.Transport{DialContext: dial, Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{RootCAs: i.pool}}
			tr.Protocols.SetHTTP2(true)
			tr.Protocols.SetUnencryptedHTTP2(true)
			if c.proxy {
				tr.Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(fmt.Sprintf("http://127.0.0.1:%d", proxyPort)) }
			}
			defer tr.CloseIdleConnections()
			r, w := io.Pipe()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, r)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/grpc")
			req.Header.Set("Te", "trailers")
			res, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for k := range 5 {
				body := bytes.Repeat([]byte{byte(k)}, 1<<(4*k))
				msg := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
				go w.Write(msg) //nolint:errcheck // the echo tells
				back := make([]byte, len(msg))
				if _, err := io.ReadFull(res.Body, back); err != nil || !bytes.Equal(back, msg) {
					t.Fatalf("message %d came back wrong: %v", k, err)
				}
			}
			w.Close()
			if _, err := io.ReadAll(res.Body); err != nil || res.Trailer.Get("Grpc-Status") != "0" {
				t.Errorf("trailer %v, %v", res.Trailer, err)
			}
		})
	}
	if b := blocked(); len(b) > 0 {
		t.Errorf("blocked %q", b)
	}
}
