package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sys/unix"

	"gurtos/core/config"
)

// client talks to one box.
type client struct {
	http  *http.Client
	base  string // address without a slash at its end
	token string
	sock  string // path of the box's socket, "" over the network
	home  string // BOX_HOME
}

func newClient(env Env) (*client, error) {
	conf, err := config.Read()
	if err != nil {
		return nil, err
	}
	c := &client{home: conf.Home, token: env.Get("BOX_TOKEN")}
	if strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, &usageError{"BOX_TOKEN holds a blank, a line break or another sign that no token has: set it to what pairing gave, and nothing else"}
	}
	if addr := env.Get("BOX_URL"); addr != "" {
		u, err := url.Parse(addr)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, &usageError{fmt.Sprintf("BOX_URL is %q: an address such as http://192.168.1.20 is needed", addr)}
		}
		c.base = strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/")
		// Never through a proxy: the token is for the box alone.
		c.http = &http.Client{Transport: &http.Transport{}}
		return c, nil
	}
	return overSocket(conf.Home), nil
}

// overSocket talks to the box of a home on this machine.
func overSocket(home string) *client {
	c := &client{home: home, base: "http://box", sock: config.Config{Home: home}.Socket()}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", c.sock)
		},
	}}
	return c
}

// reply is what the box said to a request that went well.
type reply struct {
	status int
	header http.Header
	body   json.RawMessage
}

// refusal is what the box said to one that did not.
type refusal struct {
	status   int
	sentence string
}

func (r *refusal) Error() string { return r.sentence }

// send makes a request and leaves its answer open.
func (c *client) send(ctx context.Context, method, path string, query url.Values, kind string, body io.Reader) (*http.Response, error) {
	addr := c.base + path
	if len(query) > 0 {
		addr += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, addr, body)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreached(err)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	var said struct {
		Error string `json:"error"`
	}
	b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if json.Unmarshal(b, &said) != nil || said.Error == "" {
		said.Error = fmt.Sprintf("the box answered %s, and not as a box does: is %s really one?", res.Status, c.base)
	}
	if res.StatusCode == http.StatusUnauthorized {
		if c.token == "" {
			said.Error = "the box wants a token: set BOX_TOKEN to the one that pairing gave, or pair with the code that `box pair` shows on the box"
		} else {
			said.Error = "BOX_TOKEN was refused: " + said.Error
		}
	}
	return nil, &refusal{res.StatusCode, visible(said.Error)}
}

// unreached says why there was no answer, and what to do.
func (c *client) unreached(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if c.sock != "" {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("no box runs on this machine with BOX_HOME %s (there is no box.sock). Start one with `make dev` or `make run`, or set BOX_URL and BOX_TOKEN for a box elsewhere", c.home)
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("only root may use the box's socket %s: run this as root, or set BOX_URL and BOX_TOKEN", c.sock)
		case errors.Is(err, unix.ECONNREFUSED):
			return fmt.Errorf("the box on this machine does not run: nothing answers on %s. Start it with `make dev` or `make run`", c.sock)
		}
		return fmt.Errorf("the box broke off while it was asked: %w", err)
	}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("there is no machine named %s here. Try the address in numbers that the box shows on its screen", dns.Name)
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("nothing answers at %s. Is that the box's address, and does the box run?", c.base)
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return fmt.Errorf("%s can't be reached from here. Is the box on, and on the same network?", c.base)
	}
	if strings.HasPrefix(c.base, "https:") && strings.Contains(err.Error(), "HTTP response to HTTPS client") {
		return fmt.Errorf("%s answers without encryption: set BOX_URL to http%s", c.base, strings.TrimPrefix(c.base, "https"))
	}
	return fmt.Errorf("asking %s: %w", c.base, err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// call sends a JSON body, or none, and reads the whole answer.
func (c *client) call(ctx context.Context, method, path string, query url.Values, in any) (reply, error) {
	var body io.Reader
	kind := ""
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return reply{}, err
		}
		body, kind = bytes.NewReader(b), "application/json"
	}
	res, err := c.send(ctx, method, path, query, kind, body)
	if err != nil {
		return reply{}, err
	}
	return readAll(c, res)
}

func readAll(c *client, res *http.Response) (reply, error) {
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, fmt.Errorf("the box broke off in the middle of its answer: %w", err)
	}
	return reply{res.StatusCode, res.Header, b}, nil
}

// get asks and reads the answer into v; raw is the answer as it came.
func (s *session) get(path string, query url.Values, v any) (raw json.RawMessage, err error) {
	return s.ask(http.MethodGet, path, query, nil, v)
}

func (s *session) ask(method, path string, query url.Values, in, v any) (raw json.RawMessage, err error) {
	a, err := s.box.call(s.ctx, method, path, query, in)
	if err != nil {
		return nil, err
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			return nil, fmt.Errorf("the box's answer can't be read, perhaps it is of another version: %w", err)
		}
	}
	return a.body, nil
}
