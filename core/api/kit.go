package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// pageScript is the file of the kit that is put first into every page of an app.
const pageScript = "page.js"

// kitTypes are those of its files: the machine's own table is not asked.
var kitTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}

// kitFile is one file that the box lends to pages of apps.
type kitFile struct {
	kind    string // its type
	body    []byte
	version string // changes with it
}

// readKit reads the kit into memory; none has no files.
func readKit(files fs.FS) map[string]kitFile {
	out := map[string]kitFile{}
	if files == nil {
		return out
	}
	entries, err := fs.ReadDir(files, ".")
	for _, e := range entries {
		var b []byte
		if b, err = fs.ReadFile(files, e.Name()); err != nil {
			break
		}
		sum := sha256.Sum256(b)
		out[e.Name()] = kitFile{kitTypes[path.Ext(e.Name())], b, hex.EncodeToString(sum[:6])}
	}
	if err != nil {
		panic("api: the kit is part of this program, and can't be read: " + err.Error())
	}
	return out
}

// kitAddress is where a page finds a file of the kit; it may be kept for ever.
func (s *Server) kitAddress(name string) string { return "/kit/" + name + "?v=" + s.kit[name].version }

// scriptTag is what is put into a page.
func scriptTag(kit map[string]kitFile) string {
	f, ok := kit[pageScript]
	if !ok {
		return ""
	}
	return `<script src="/kit/` + pageScript + `?v=` + f.version + `"></script>`
}

// kitRoute sends a file of the kit.
func (s *Server) kitRoute(c *call) error {
	name := c.r.PathValue("file")
	f, ok := s.kit[name]
	if !ok {
		return notFound("the kit has no %s", shown(name))
	}
	h := c.w.Header()
	h.Set("ETag", `"`+f.version+`"`)
	h.Set("Cache-Control", "no-cache")
	if c.r.URL.Query().Get("v") == f.version {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if strings.Contains(c.r.Header.Get("If-None-Match"), `"`+f.version+`"`) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		c.w.Write(f.body) // a failed write is the client's loss
	}
	return nil
}

// refusalPage is what a browser shows of a refusal where a page of an app was wanted.
var refusalPage = template.Must(template.New("refusal").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Sentence}}</title>
<script src="{{.Script}}"{{if .NoToken}} data-missing="token"{{end}}></script>
<script src="{{.Kit}}"></script>
<link rel="stylesheet" href="{{.Style}}">
<main class="page"><p class="notice" role="alert">{{.Sentence}}</p></main>
</html>
`))

// failPage is fail for a browser that opens an address under /t/ as a page.
func (s *Server) failPage(c *call, e *Error) error {
	var b strings.Builder
	err := refusalPage.Execute(&b, map[string]any{
		"Sentence": e.Sentence, "NoToken": e.Status == http.StatusUnauthorized,
		"Script": s.kitAddress(pageScript), "Kit": s.kitAddress("gurtos.js"), "Style": s.kitAddress("gurtos.css"),
	})
	if err != nil {
		return fmt.Errorf("making a page of a refusal: %w", err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Cache-Control", "no-store")
	c.w.WriteHeader(e.Status)
	c.w.Write([]byte(b.String())) // a failed write is the client's loss
	return nil
}
