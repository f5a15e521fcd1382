package boxd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// A Client asks one boxd.
type Client struct{ http *http.Client }

// New makes a client of the socket at path. No connection is kept: boxd may be
// another one by the next question.
func New(path string) *Client {
	return &Client{http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", path)
			},
		},
	}}
}

// A Health is what boxd says of itself.
type Health struct {
	OK      bool   `json:"ok"`
	Version string `json:"version"`
	Paused  bool   `json:"paused"`
	Error   string `json:"error"` // why not ok

	LogDamaged bool `json:"logDamaged"` // not ok because lines of the action log are not what was written
}

// A Pair is a link that pairs one device.
type Pair struct {
	Code      string    `json:"code"`
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// A Device is one that was paired.
type Device struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"`
}

// Health asks whether boxd answers, and how it is.
func (c *Client) Health(ctx context.Context) (h Health, err error) {
	return h, c.call(ctx, "GET", "/api/health", nil, &h)
}

// Devices lists the paired devices.
func (c *Client) Devices(ctx context.Context) (d []Device, err error) {
	return d, c.call(ctx, "GET", "/api/devices", nil, &d)
}

// Pair opens pairing for one owner's device.
func (c *Client) Pair(ctx context.Context) (p Pair, err error) {
	return p, c.call(ctx, "POST", "/api/pair/code", map[string]string{"role": "owner"}, &p)
}

// Head is the action log's newest durable line.
func (c *Client) Head(ctx context.Context) (seq int64, hash string, err error) {
	var box struct {
		LogHead struct {
			Seq  int64  `json:"seq"`
			Hash string `json:"hash"`
		} `json:"logHead"`
	}
	err = c.call(ctx, "GET", "/api/box", nil, &box)
	return box.LogHead.Seq, box.LogHead.Hash, err
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask boxd: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("ask boxd for %s: %w", path, err)
	}
	if resp.StatusCode/100 != 2 {
		var e struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(b, &e)
		return fmt.Errorf("ask boxd for %s: %s: %s", path, resp.Status, e.Error)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("ask boxd for %s: %w", path, err)
	}
	return nil
}
