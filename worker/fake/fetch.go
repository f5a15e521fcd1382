package fake

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// fetchTime is how long a page may take.
const fetchTime = time.Minute

// client uses the task's network as it is, no proxy, and shows a redirect
// instead of following it.
var client = &http.Client{
	Timeout:       fetchTime,
	Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func isURL(args []string) bool {
	u, err := url.Parse(args[0])
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func fetch(ctx context.Context, l *line, args []string) error {
	if err := l.get(ctx, args[0]); err != nil {
		return l.failed("%w", err)
	}
	return nil
}

func tryFetch(ctx context.Context, l *line, args []string) error {
	l.get(ctx, args[0])
	return nil
}

func (l *line) get(ctx context.Context, page string) error {
	err := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, mostRead))
		if err != nil {
			return err
		}
		l.data["status"], l.data["body"] = resp.StatusCode, cut(string(b), mostRead)
		return nil
	}()
	if err != nil {
		l.data["error"] = err.Error()
	}
	return err
}
