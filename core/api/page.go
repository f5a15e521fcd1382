package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

//go:embed page.html
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// pagePolicy lets the page use its own style and nothing else.
var pagePolicy = func() string {
	_, rest, _ := strings.Cut(pageSource, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// page says what the box is to whoever opens its address. It tells nothing that
// GET /api/health doesn't.
func (s *Server) page(c *call) error {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, map[string]any{
		"Name":    s.opt.Settings.Values().BoxName,
		"Version": s.opt.Version,
		"Paused":  s.opt.Tasks.Standstill(),
		"Broken":  s.broken() != nil,
		"Host":    c.r.Host,
	})
	if err != nil {
		return fmt.Errorf("making the page: %w", err)
	}
	c.w.Header().Set("Content-Security-Policy", pagePolicy)
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if c.r.Method == http.MethodHead {
		return nil
	}
	return c.text("text/html; charset=utf-8", b.String())
}
