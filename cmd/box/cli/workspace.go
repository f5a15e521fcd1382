package cli

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

func files(name string) string { return "/api/workspaces/" + url.PathEscape(name) + "/files" }

func at(p string) url.Values {
	if p == "" {
		return nil
	}
	return url.Values{"path": {p}}
}

func workspaceList(s *session) error {
	var list []struct{ Name, CreatedAt string }
	raw, err := s.get("/api/workspaces", nil, &list)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		rows := [][]string{{"NAME", "AGE"}}
		for _, w := range list {
			rows = append(rows, []string{w.Name, age(w.CreatedAt)})
		}
		return s.columns(rows)
	})
}

func workspaceNew(s *session) error {
	var w struct{ Name string }
	raw, err := s.ask(http.MethodPost, "/api/workspaces", nil, map[string]string{"name": s.args[0]}, &w)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		_, err := fmt.Fprintln(s.Out, w.Name)
		return err
	})
}

func workspaceLs(s *session) error {
	p := ""
	if len(s.args) == 2 {
		p = s.args[1]
	}
	res, err := s.box.send(s.ctx, http.MethodGet, files(s.args[0]), at(p), "", nil)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		res.Body.Close()
		return fmt.Errorf("%s is a file: `box workspace cat %s %s` prints it", p, s.args[0], p)
	}
	a, err := readAll(s.box, res)
	if err != nil {
		return err
	}
	var list []struct {
		Name, Kind, MTime string
		Size              int64
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		return fmt.Errorf("the box's answer can't be read: %w", err)
	}
	return s.print(a.body, func() error {
		var rows [][]string
		for _, e := range list {
			name, size := e.Name, bytesText(e.Size)
			switch e.Kind {
			case "folder":
				name, size = name+"/", ""
			case "symlink":
				name, size = name+"@", ""
			}
			rows = append(rows, []string{size, age(e.MTime), name})
		}
		return s.columns(rows)
	})
}

func workspaceCat(s *session) error {
	if s.json {
		return &usageError{"the bytes of a file have no JSON form: leave --json out"}
	}
	res, err := s.box.send(s.ctx, http.MethodGet, files(s.args[0]), at(s.args[1]), "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return fmt.Errorf("%s is a folder: `box workspace ls %s %s` lists it", s.args[1], s.args[0], s.args[1])
	}
	if _, err := io.Copy(s.Out, res.Body); err != nil {
		return fmt.Errorf("the box broke off in the middle of the file: %w", err)
	}
	return nil
}

func workspaceRm(s *session) error {
	var t taskAnswer
	raw, err := s.ask(http.MethodDelete, files(s.args[0]), at(s.args[1]), nil, &t)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		_, err := fmt.Fprintf(s.Out, "%s deleted; `box task undo %s` brings it back\n", visible(s.args[1]), t.ID)
		return err
	})
}

func putFlags(f *flag.FlagSet) {
	f.String("to", "", "`folder` inside the workspace that they go into; made if it is missing")
}

// workspacePut sends everything as one tar while it is being read, so neither side
// holds it.
func workspacePut(s *session) error {
	if err := checkSources(s.args[1:]); err != nil {
		return err
	}
	r, w := io.Pipe()
	pack := &packer{out: tar.NewWriter(w), skip: func(p, why string) {
		fmt.Fprintf(s.Err, "box: %s is left out: %s\n", visible(p), why)
	}}
	packed := make(chan error, 1)
	go func() {
		err := pack.all(s.args[1:])
		w.CloseWithError(err) // nil becomes EOF
		packed <- err
	}()
	q := url.Values{"unpack": {"tar"}}
	if to := s.value("to"); to != "" {
		q.Set("path", to)
	}
	res, err := s.box.send(s.ctx, http.MethodPut, files(s.args[0]), q, "application/x-tar", r)
	r.CloseWithError(errEnd) // frees the packer when the box answered early
	// The transport closes the pipe too, when it has an answer before all was sent: that
	// answer tells why.
	if perr := <-packed; perr != nil && !errors.Is(perr, errEnd) && !errors.Is(perr, io.ErrClosedPipe) {
		if res != nil {
			res.Body.Close()
		}
		return perr
	}
	if err != nil {
		return err
	}
	a, err := readAll(s.box, res)
	if err != nil {
		return err
	}
	var t taskAnswer
	if err := json.Unmarshal(a.body, &t); err != nil {
		return fmt.Errorf("the box's answer can't be read: %w", err)
	}
	return s.print(a.body, func() error {
		what, them := fmt.Sprintf("%d files", pack.files), "them"
		if pack.files == 1 {
			what, them = "1 file", "it"
		}
		_, err := fmt.Fprintf(s.Out, "%s, %s put into %s; `box task undo %s` takes %s out again\n", what, bytesText(pack.bytes), visible(s.args[0]), t.ID, them)
		return err
	})
}

// checkSources says, before anything is sent, what can't be put in: a source that is
// none, and two that would go to one place, of which the second would take the place of
// the first without a word. Folders of one name are merged.
func checkSources(paths []string) error {
	taken := map[string]source{}
	for _, from := range paths {
		info, err := os.Stat(from)
		switch {
		case err != nil:
			return err
		case !info.IsDir() && !info.Mode().IsRegular():
			return fmt.Errorf("%s is no file and no folder: only those can be put in", from)
		case !info.IsDir():
			if err := take(taken, filepath.Base(from), source{from, false}); err != nil {
				return err
			}
			continue
		case len(paths) == 1: // a folder has each name once
			continue
		}
		root, err := filepath.EvalSymlinks(from)
		if err != nil {
			return err
		}
		if err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && name != root {
				return nil // deleted meanwhile
			}
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil || rel == "." {
				return err
			}
			return take(taken, filepath.ToSlash(rel), source{filepath.Join(from, rel), d.IsDir()})
		}); err != nil {
			return err
		}
	}
	return nil
}

// source is where a file of the archive comes from.
type source struct {
	path   string
	folder bool
}

func take(taken map[string]source, name string, from source) error {
	if was, twice := taken[name]; twice && !(was.folder && from.folder) {
		if was.path == from.path {
			return &usageError{fmt.Sprintf("%s is given twice", from.path)}
		}
		return &usageError{fmt.Sprintf("%s and %s would both be %s in the workspace: put them in one by one, with --to", was.path, from.path, name)}
	}
	taken[name] = from
	return nil
}

// packer writes files into a tar.
type packer struct {
	out   *tar.Writer
	skip  func(path, why string)
	files int
	bytes int64
}

// all packs what is in each folder, and each file by its name.
func (p *packer) all(paths []string) error {
	for _, from := range paths {
		info, err := os.Stat(from) // a link that is named is followed; those inside are not
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = p.folder(from)
		} else {
			err = p.one(from, filepath.Base(from), info)
		}
		if err != nil {
			return err
		}
	}
	return p.out.Close()
}

func (p *packer) folder(root string) error {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
		return p.one(name, filepath.ToSlash(rel), info)
	})
}

func (p *packer) one(from, name string, info fs.FileInfo) error {
	target := ""
	switch mode := info.Mode(); {
	case mode.IsRegular(), mode.IsDir():
	case mode&fs.ModeSymlink != 0:
		var err error
		if target, err = os.Readlink(from); err != nil {
			return err
		}
	default:
		p.skip(from, "it is no file, folder or link")
		return nil
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	// Who owns it here, and when it was read last, is no business of the box's.
	h = &tar.Header{Typeflag: h.Typeflag, Name: path.Clean(name), Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o777, ModTime: h.ModTime, Format: tar.FormatPAX}
	if info.IsDir() {
		h.Name += "/"
	}
	if err := p.out.WriteHeader(h); err != nil {
		return fmt.Errorf("packing %s: %w", from, err)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.CopyN(p.out, f, h.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s became shorter while it was read; put it in again", from)
	}
	if err != nil {
		return fmt.Errorf("packing %s: %w", from, err)
	}
	p.files++
	p.bytes += n
	return nil
}
