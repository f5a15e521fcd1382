package api

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"gurtos/core/task"
	"gurtos/core/workspace"
	"gurtos/sandbox/layers"
)

// NewWorkspace names a workspace to be made.
type NewWorkspace struct {
	Name *string `json:"name" doc:"1 to 100 letters, digits, _, . and -."`
}

// Entry is one entry of a folder.
type Entry struct {
	Name  string `json:"name" doc:"Its name in the folder."`
	Kind  string `json:"kind" doc:"file, folder or symlink."`
	Size  int64  `json:"size" doc:"Bytes of a file, 0 of others."`
	MTime string `json:"mtime" doc:"When its content changed last."`
}

const timeForm = "2006-01-02T15:04:05.000Z"

func (s *Server) workspaces(c *call) error {
	v, err := s.opt.Workspaces.List()
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, v)
}

func (s *Server) newWorkspace(c *call) error {
	var n NewWorkspace
	if err := c.decode(&n); err != nil {
		return err
	}
	if n.Name == nil {
		return bad("name: %v", workspace.ErrName)
	}
	w, err := s.opt.Workspaces.Make(*n.Name)
	if errors.Is(err, workspace.ErrName) || errors.Is(err, workspace.ErrExists) {
		return bad("name: %v", err)
	}
	if err != nil {
		return err
	}
	if err := s.note(NoteWorkspace, map[string]any{"name": w.Name, "by": c.caller.name()}); err != nil {
		return err
	}
	return c.json(http.StatusCreated, w)
}

// workspace is the name of a workspace that is there.
func (s *Server) workspace(c *call) (string, error) {
	w, err := s.opt.Workspaces.Get(c.r.PathValue("name"))
	if errors.Is(err, workspace.ErrName) {
		err = workspace.ErrMissing
	}
	return w.Name, err
}

// readFile sends a file or a folder's entries.
func (s *Server) readFile(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	name, err := s.workspace(c)
	if err != nil {
		return err
	}
	tree, err := s.opt.Tasks.Tree(c.r.Context(), name)
	if err != nil {
		return err
	}
	defer tree.Close()
	at := q.Get("path")
	e, err := tree.Stat(at)
	if err != nil {
		return pathError(err, at)
	}
	switch e.Kind {
	case "folder":
		entries, err := tree.ReadDir(at)
		if err != nil {
			return pathError(err, at)
		}
		out := make([]Entry, len(entries))
		for i, e := range entries {
			out[i] = Entry{e.Name, e.Kind, e.Size, e.Time.UTC().Format(timeForm)}
		}
		return c.json(http.StatusOK, out)
	case "file":
		f, err := tree.Open(at)
		if err != nil {
			return pathError(err, at)
		}
		defer f.Close()
		return c.file(path.Base(at), e, f)
	}
	return bad("path: %s is a %s, which the box does not follow", shown(at), e.Kind)
}

// file sends a file's bytes. A browser must not run what a task wrote as a page
// of the box: the type is a plain one, and the sandbox holds it should a browser
// guess another.
func (c *call) file(name string, e layers.Entry, f io.ReadSeeker) error {
	h := c.w.Header()
	h.Set("Content-Type", plainType(name))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": name}))
	h.Set("Cache-Control", "no-store")
	c.w.status = http.StatusOK
	http.ServeContent(c.w, c.r, name, e.Time, f) // answers ranges; a failed write is the client's loss
	return nil
}

// plainType is a type that a browser shows and does not run.
func plainType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	case ".pdf":
		return "application/pdf"
	case ".zip", ".gz", ".tgz", ".zst", ".xz", ".bin", ".exe", ".so", ".o", ".a":
		return "application/octet-stream"
	}
	return "text/plain; charset=utf-8"
}

func pathError(err error, at string) error {
	var p *layers.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return notFound("there is no %s in the workspace", shown(at))
	case errors.As(err, &p):
		return bad("path: %v", err)
	}
	return err
}

// putFiles makes a layer of a file or an archive.
func (s *Server) putFiles(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	at, unpack := q.Get("path"), q.Get("unpack")
	if q.Has("unpack") && unpack != "tar" {
		return bad("unpack: only tar is known")
	}
	if at == "" && unpack == "" {
		return bad("path: the file's path in the workspace is needed")
	}
	return s.change(c, func(name string) (task.Task, error) {
		return s.opt.Tasks.PutFiles(c.r.Context(), name, func(w *layers.Writer) error {
			if unpack == "tar" {
				return w.Tar(at, c.r.Body)
			}
			return w.File(at, 0o644, time.Time{}, c.r.Body)
		}, c.caller.name())
	})
}

func (s *Server) deleteFile(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	if q.Get("path") == "" {
		return bad("path: the path of what is to be deleted is needed")
	}
	if err := c.nothing(); err != nil {
		return err
	}
	return s.change(c, func(name string) (task.Task, error) {
		return s.opt.Tasks.DeleteFile(c.r.Context(), name, q.Get("path"), c.caller.name())
	})
}

// change answers with the task that a change of a workspace's files is.
func (s *Server) change(c *call, do func(workspace string) (task.Task, error)) error {
	name, err := s.workspace(c)
	if err != nil {
		return err
	}
	t, err := do(name)
	var cut *http.MaxBytesError
	switch {
	case err == nil:
	case errors.As(err, &cut):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrHeader):
		return bad("the archive is broken or ends in the middle; nothing was put in")
	default:
		return pathError(err, c.r.URL.Query().Get("path"))
	}
	return c.json(c.route.success(), t)
}
