package shops

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // npm's shasum
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/net/websocket"
)

// Web is what web hosts have beside their pages, whatever their name: registries of
// packages at /npm/, /pip/ and /go/, git's repository at /git/left.git, an echo by
// WebSocket at /ws and one by gRPC, shop.Echo/Talk.
func Web() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("/npm/left", func(w http.ResponseWriter, r *http.Request) {
		tgz := npmPackage()
		sum := sha1.Sum(tgz)                      //nolint:gosec // npm's shasum
		json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // the client tells
			"name": "left", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{"name": "left", "version": "1.0.0", "dist": map[string]string{"tarball": "https://" + r.Host + "/npm/left-1.0.0.tgz", "shasum": hex.EncodeToString(sum[:])}}},
		})
	})
	m.HandleFunc("/npm/left-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) { w.Write(npmPackage()) }) //nolint:errcheck // the client tells
	m.HandleFunc("/pip/left/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/wheel/left-1.0.0-py3-none-any.whl">left-1.0.0-py3-none-any.whl</a>`)
	})
	m.HandleFunc("/wheel/", func(w http.ResponseWriter, _ *http.Request) {
		w.Write(Zip("left/__init__.py", "there = True\n", //nolint:errcheck // the client tells
			"left-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: left\nVersion: 1.0.0\n",
			"left-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			"left-1.0.0.dist-info/RECORD", "left/__init__.py,,\nleft-1.0.0.dist-info/METADATA,,\nleft-1.0.0.dist-info/WHEEL,,\nleft-1.0.0.dist-info/RECORD,,\n"))
	})
	m.HandleFunc("/go/example.com/left/@v/", func(w http.ResponseWriter, r *http.Request) {
		const mod = "module example.com/left\n"
		switch filepath.Base(r.URL.Path) {
		case "list":
			fmt.Fprintln(w, "v1.0.0")
		case "v1.0.0.info":
			fmt.Fprint(w, `{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`)
		case "v1.0.0.mod":
			fmt.Fprint(w, mod)
		case "v1.0.0.zip":
			w.Write(Zip("example.com/left@v1.0.0/go.mod", mod, "example.com/left@v1.0.0/left.go", "package left\n")) //nolint:errcheck // the client tells
		default:
			http.NotFound(w, r)
		}
	})
	m.Handle("/git/", gitServer())
	m.Handle("/ws", websocket.Server{
		Handshake: func(*websocket.Config, *http.Request) error { return nil }, // from anywhere
		Handler:   func(c *websocket.Conn) { io.Copy(c, c) },                   //nolint:errcheck // the client tells
	})
	m.HandleFunc("/shop.Echo/Talk", grpcEcho)
	return m
}

// grpcEcho is a gRPC method that sends each message back as it comes.
func grpcEcho(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 || r.Header.Get("Content-Type") != "application/grpc" {
		http.Error(w, "this is gRPC", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(r.Body, head); err != nil {
			break
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(r.Body, body); err != nil {
			break
		}
		w.Write(append(head, body...)) //nolint:errcheck // the client tells
		w.(http.Flusher).Flush()
	}
	w.Header().Set("Grpc-Status", "0")
}

func npmPackage() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range [][2]string{{"package/package.json", `{"name":"left","version":"1.0.0","main":"index.js"}`}, {"package/index.js", "module.exports = 'there'\n"}} {
		w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1]))}) //nolint:errcheck // a buffer
		io.WriteString(w, f[1])                                                     //nolint:errcheck // a buffer
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

// Zip packs files, given as name and text in turn.
func Zip(files ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for k := 0; k < len(files); k += 2 {
		w, err := z.Create(files[k])
		if err != nil {
			panic(err)
		}
		io.WriteString(w, files[k+1]) //nolint:errcheck // a buffer
	}
	z.Close()
	return b.Bytes()
}

// gitRoot holds the repository left.git that anyone may read and write.
var gitRoot = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "git")
	if err == nil {
		var out []byte
		out, err = exec.Command("sh", "-ec", `
			git init -q --bare -b main "$0/left.git"; git -C "$0/left.git" config http.receivepack true
			git init -q -b main "$0/work"; cd "$0/work"; head -c 300000 /dev/urandom > big; echo there > file; git add .
			git -c user.name=x -c user.email=x@example.com commit -qm first; git push -q "$0/left.git" main`, dir).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		panic(err)
	}
	return dir
})

func gitServer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(&cgi.Handler{Path: "/usr/lib/git-core/git-http-backend", Root: "/git", Env: []string{"GIT_PROJECT_ROOT=" + gitRoot(), "GIT_HTTP_EXPORT_ALL=1", "HOME=/root"}, Stderr: io.Discard}).ServeHTTP(w, r)
	})
}

// sshd is how the ssh server introduces itself, with a key that is made for the process.
var sshd = sync.OnceValue(func() *ssh.ServerConfig {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		panic(err)
	}
	conf := &ssh.ServerConfig{NoClientAuth: true}
	conf.AddHostKey(signer)
	return conf
})

// SSH serves a connection as an ssh server that anyone may use, for git alone.
func SSH(c net.Conn) {
	sc, chans, reqs, err := ssh.NewServerConn(c, sshd())
	if err != nil {
		return
	}
	defer sc.Close()
	go ssh.DiscardRequests(reqs)
	for nc := range chans {
		ch, reqs, err := nc.Accept()
		if err != nil {
			return
		}
		for r := range reqs {
			if r.Type != "exec" {
				r.Reply(r.Type == "env", nil) //nolint:errcheck // the client tells
				continue
			}
			r.Reply(true, nil) //nolint:errcheck // the same
			line := string(r.Payload[4:])
			cmd := exec.Command("sh", "-c", strings.ReplaceAll(line, "'/", "'"+gitRoot()+"/"))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = ch, ch, ch.Stderr()
			var status struct{ Status uint32 }
			if cmd.Run() != nil {
				status.Status = 1
			}
			ch.SendRequest("exit-status", false, ssh.Marshal(status)) //nolint:errcheck // the same
			ch.Close()
		}
	}
}

// Postgres serves a connection as a database that answers one row to any query (the
// protocol's version 3.0).
func Postgres(c net.Conn) {
	message := func(kind byte, body string) string {
		return string(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...))
	}
	startup := func() (uint32, bool) {
		head := make([]byte, 8)
		if _, err := io.ReadFull(c, head); err != nil {
			return 0, false
		}
		_, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head))-8)
		return binary.BigEndian.Uint32(head[4:]), err == nil
	}
	code, ok := startup()
	for ok && code != 196608 { // asks for encryption first, twice
		io.WriteString(c, "N") //nolint:errcheck // the client tells
		code, ok = startup()
	}
	if !ok {
		return
	}
	io.WriteString(c, message('R', "\x00\x00\x00\x00")+message('S', "client_encoding\x00UTF8\x00")+message('Z', "I")) //nolint:errcheck // the same
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(c, head); err != nil || head[0] == 'X' {
			return
		}
		io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[1:]))-4)                                                      //nolint:errcheck // the same
		io.WriteString(c, message('T', "\x00\x01a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00")+ //nolint:errcheck // the same
			message('D', "\x00\x01\x00\x00\x00\x05there")+message('C', "SELECT 1\x00")+message('Z', "I"))
	}
}
