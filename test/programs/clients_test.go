package programs

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/test/internet"
	"gurtos/test/internet/shops"
)

// way is how a client finds its environment.
type way struct{ name, with string }

var ways = []way{
	{"proxy variables", "/bin/sh"}, // as a task has them
	{"no proxy variables", "env -u HTTP_PROXY -u HTTPS_PROXY -u ALL_PROXY -u NO_PROXY -u http_proxy -u https_proxy -u all_proxy -u no_proxy /bin/sh"},
	{"env -i", "env -i HOME=/home/box /bin/sh"},
}

// client is a program of the network that agents use: a script, and all that it prints, by each of the ways.
type client struct{ name, script, want string }

// where clients find the internet's authority, which no task trusts by itself.
const where = "set -eu; CA=/work/ca.pem; cd $(mktemp -d)\n"

const both = "http://shop.example.com/a https://shop.example.com/b"

var clients = []client{
	{"curl", `curl -sS --cacert $CA ` + both, "you reached shop.example.com/ayou reached shop.example.com/b"},
	{"curl and HTTP 2", `curl -sS --http2 --cacert $CA https://shop.example.com/a; curl -sS --noproxy '*' --http2-prior-knowledge http://shop.example.com:8080/b`, "you reached shop.example.com/ayou reached shop.example.com:8080/b"},
	{"curl over IPv6", `curl -6 -sS --noproxy '*' --cacert $CA ` + both, "you reached shop.example.com/ayou reached shop.example.com/b"},
	{"wget", `wget -q --ca-certificate=$CA -O - ` + both, "you reached shop.example.com/ayou reached shop.example.com/b"},
	{"git over https", `b=b$(od -An -N8 -tx8 /dev/urandom | tr -d ' '); g="git -c http.sslCAInfo=$CA -c user.name=x -c user.email=x@box.test"
$g clone -q https://shop.example.com/git/left.git c; cat c/file; cd c; git checkout -q -b $b; $g commit -q --allow-empty -m y; $g push -q origin HEAD; $g ls-remote -q origin | grep -c $b`, "there\n1"},
	{"git over http", `git clone -q http://shop.example.com/git/left.git c; cat c/file`, "there"},
	{"git over ssh", `export GIT_SSH_COMMAND='ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR'
git clone -q ssh://x@shop.example.com/left.git c; cat c/file`, "there"},
	{"npm", `npm install --loglevel=error --cache $PWD/cache --cafile $CA --registry https://shop.example.com/npm/ left >/dev/null; node -p "require('left')"`, "there"},
	{"pip", `python3 -m pip install -q --disable-pip-version-check --no-cache-dir --no-deps --target p --cert $CA --index-url https://shop.example.com/pip/ left; ls p/left/__init__.py`, "p/left/__init__.py"},
	{"go mod download", `export GOTOOLCHAIN=local GOSUMDB=off GOMODCACHE=$PWD/mod GOFLAGS=-modcacherw GOPROXY=https://shop.example.com/go SSL_CERT_FILE=$CA
go mod init x 2>/dev/null; go mod download -json example.com/left@v1.0.0 | grep -c v1.0.0.zip`, "1"},
	{"node fetch", `export NODE_EXTRA_CA_CERTS=$CA
node -e "Promise.all('` + both + `'.split(' ').map(async u => (await fetch(u)).text())).then(x => console.log(x.join()))"`, "you reached shop.example.com/a,you reached shop.example.com/b"},
	{"node fetch that heeds variables", `export NODE_EXTRA_CA_CERTS=$CA NODE_USE_ENV_PROXY=1
node -e "Promise.all('` + both + `'.split(' ').map(async u => (await fetch(u)).text())).then(x => console.log(x.join()))"`, "you reached shop.example.com/a,you reached shop.example.com/b"},
	{"Python urllib", `python3 -c "import ssl, urllib.request as u
c = ssl.create_default_context(cafile='$CA')
for a in '` + both + `'.split(): print(u.urlopen(a, context=c if a.startswith('https') else None).read().decode())"`, "you reached shop.example.com/a\nyou reached shop.example.com/b"},
	{"Python requests", `python3 -c "import requests
s = requests.Session()
for a in ('` + both + ` ' * 3).split(): print(s.get(a, verify='$CA').text)" | tail -2`, "you reached shop.example.com/a\nyou reached shop.example.com/b"},
	{"Java", keystore + `java -XX:TieredStopAtLevel=1 $trust /work/Main.java`, "200 HTTP_1_1 you reached shop.example.com/a\n200 HTTP_2 you reached shop.example.com/b\nsocket there\nsocket there"},
	{"Java that is told of the proxy", keystore + `java -XX:TieredStopAtLevel=1 $trust -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=15002 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=15002 /work/Main.java`,
		"200 HTTP_1_1 you reached shop.example.com/a\n200 HTTP_2 you reached shop.example.com/b\nsocket there\nsocket there"},
	{"openssl s_client", `echo | openssl s_client -connect shop.example.com:443 -servername shop.example.com -CAfile $CA 2>/dev/null | grep -m 1 -o 'Verify return code: .*'`, "Verify return code: 0 (ok)"},
	{"openssl s_client without a name", `echo | openssl s_client -connect shop.example.com:443 -noservername -CAfile $CA 2>/dev/null | grep -c 'BEGIN CERT'`, "1"},
	{"openssl s_client by the proxy", `echo | openssl s_client -proxy 127.0.0.1:15002 -connect shop.example.com:443 -servername shop.example.com -CAfile $CA 2>/dev/null | grep -m 1 -o 'Verify return code: .*'`, "Verify return code: 0 (ok)"},
	{"psql", `psql -At postgresql://x@shop.example.com/x -c 'select 1'`, "there"},
	{"WebSocket of Node", `export NODE_EXTRA_CA_CERTS=$CA
node -e "for (const u of ['ws://shop.example.com/ws', 'wss://shop.example.com/ws']) {
  let said = false; const w = new WebSocket(u); w.onopen = () => w.send('there');
  w.onmessage = e => { said = true; console.log(e.data); w.close(); }; w.onerror = e => said || console.log(String(e.error ?? e.message)); // the server hangs up where it should say goodbye
}"`, "there\nthere"},
	{"WebSocket of Python", `python3 -c "import ssl
from websockets.sync.client import connect
c = ssl.create_default_context(cafile='$CA')
for u, k in (('ws://shop.example.com/ws', {}), ('wss://shop.example.com/ws', {'ssl': c})):
    with connect(u, **k) as w: w.send('there'); print(w.recv())"`, "there\nthere"},
	{"gRPC", `python3 -c "import grpc
same = lambda b: b
for c in (grpc.insecure_channel('shop.example.com:8080'), grpc.secure_channel('shop.example.com:443', grpc.ssl_channel_credentials(open('$CA', 'rb').read()))):
    print(b''.join(c.stream_stream('/shop.Echo/Talk', request_serializer=same, response_deserializer=same)(iter([b'th', b'ere']))).decode())"`, "there\nthere"},
}

const keystore = `keytool -importcert -noprompt -alias x -file $CA -keystore s -storepass changeit >/dev/null 2>&1; trust="-Djavax.net.ssl.trustStore=s -Djavax.net.ssl.trustStorePassword=changeit"
`

const javaMain = `
import java.net.URI; import java.net.http.*; import java.util.concurrent.*;
public class Main {
  public static void main(String[] a) throws Exception {
    HttpClient c = HttpClient.newHttpClient();
    for (String u : "` + both + `".split(" ")) {
      HttpResponse<String> r = c.send(HttpRequest.newBuilder(URI.create(u)).build(), HttpResponse.BodyHandlers.ofString());
      System.out.println(r.statusCode() + " " + r.version() + " " + r.body());
    }
    for (String u : new String[]{"ws://shop.example.com/ws", "wss://shop.example.com/ws"}) {
      CompletableFuture<String> got = new CompletableFuture<>();
      WebSocket w = c.newWebSocketBuilder().buildAsync(URI.create(u), new WebSocket.Listener() {
        public CompletionStage<?> onText(WebSocket s, CharSequence d, boolean last) { got.complete(d.toString()); return null; }
      }).get(100, TimeUnit.SECONDS);
      w.sendText("there", true).get(100, TimeUnit.SECONDS);
      System.out.println("socket " + got.get(100, TimeUnit.SECONDS));
      w.abort();
    }
  }
}`

// page is every page of the shop.
func page() http.Handler {
	m := shops.Web()
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "you reached %s%s", r.Host, r.URL.Path) })
	return m
}

// each serves the connections to an address of the internet until the test ends.
func each(t *testing.T, n *internet.Net, addr string, serve func(net.Conn)) {
	l := n.Listen(t, addr)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
}

// TestClients holds that the clients which agents use reach a host that their task was given, in a real task: with the proxy's variables, without them,
// and with an empty environment.
func TestClients(t *testing.T) {
	api, _ := start(t)
	n, at := internet.Connect(t), internet.Addr(35)
	n.Name("shop.example.com", at)
	n.Serve(t, at+":80", page())
	n.Secure(t, at+":443", page())
	clear := &http.Server{Handler: page(), Protocols: new(http.Protocols)} //nolint:gosec // only tests ask it
	clear.Protocols.SetUnencryptedHTTP2(true)
	go clear.Serve(n.Listen(t, at+":8080")) //nolint:errcheck // until it is closed
	t.Cleanup(func() { clear.Close() })
	each(t, n, at+":22", shops.SSH)
	each(t, n, at+":5432", shops.Postgres)

	files := []string{"ca.pem", string(n.CA.PEM()), "Main.java", javaMain, "variables", "env | grep -ic _proxy= || true"}
	for k, c := range clients {
		files = append(files, fmt.Sprint(k), where+c.script)
	}
	put(t, api, "clients", files...)
	begin := func(file string) string {
		var made task.Task
		var lines []string
		for _, w := range ways {
			lines = append(lines, "try timeout 400 "+w.with+" "+file+" 2>&1")
		}
		api.Do("POST", "/api/tasks", map[string]any{"title": "clients " + file, "prompt": strings.Join(lines, "\n"), "workspace": "clients", "worker": "fake", "hosts": []string{"shop.example.com"}}, &made)
		return made.ID
	}
	ids := []string{begin("variables")}
	for k := range clients {
		ids = append(ids, begin(fmt.Sprint(k)))
	}
	said := func(t *testing.T, id string) []string {
		api := api.With(t)
		if end := api.End(id, patience); end.State != task.Done {
			t.Fatalf("the task is %s: %s", end.State, end.Error)
		}
		var all []string
		for _, s := range api.Steps(id) {
			all = append(all, strings.TrimSpace(s.Output))
		}
		if len(all) != len(ways) {
			t.Fatalf("%d steps: %q", len(all), all)
		}
		return all
	}
	if v := said(t, ids[0]); !slices.Equal(v, []string{"8", "0", "0"}) {
		t.Errorf("there are %v variables of the proxy, so the rows show nothing", v)
	}
	for k, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			for n, got := range said(t, ids[k+1]) {
				if got != c.want {
					t.Errorf("%s: %q, want %q", ways[n].name, got, c.want)
				}
			}
		})
	}
	for _, e := range api.Log() {
		if e.Type == actionlog.TypeNetBlocked {
			t.Errorf("%s: blocked %s", e.Task, e.Host)
		}
	}
}
