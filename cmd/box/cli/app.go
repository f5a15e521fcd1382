package cli

import (
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"gurtos/cmd/box/check"
	"gurtos/core/app/declare"
	"gurtos/core/config"
)

//go:embed scaffold
var scaffold embed.FS

// appAnswer is an app as the API tells it.
type appAnswer struct {
	Name          string
	Title         string
	On            bool
	Error         string
	RestartNeeded bool
	Secrets       []struct {
		Name          string
		Set, Optional bool
	}
	Apps []struct{ Title, Href string }
}

func appList(s *session) error {
	var list []appAnswer
	raw, err := s.get("/api/apps", url.Values{"all": {"1"}}, &list)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		rows := [][]string{{"APP", "STATE", "TITLE", "NEEDS"}}
		for _, a := range list {
			rows = append(rows, []string{a.Name, a.short(), a.Title, strings.Join(a.missing(), ", ")})
		}
		if err := s.columns(rows); err != nil {
			return err
		}
		for _, a := range list { // below, since it may be long
			if a.Error != "" {
				fmt.Fprintf(s.Out, "\n%s: %s\n", visible(a.Name), visible(a.Error))
			}
		}
		return nil
	})
}

// short is state without what went wrong.
func (a appAnswer) short() string {
	switch {
	case a.Error == "" || !a.On && a.RestartNeeded:
		return a.state()
	case a.On:
		return "on, with an error"
	}
	return "off, with an error"
}

func (a appAnswer) state() string {
	switch {
	case a.On && a.Error != "":
		return "on, " + a.Error
	case a.On:
		return "on"
	case a.RestartNeeded:
		return "off, but a part of it runs until the box starts anew"
	case a.Error != "":
		return a.Error
	}
	return "off"
}

// missing are the keys that it can't do without and that are not set.
func (a appAnswer) missing() []string {
	var out []string
	for _, k := range a.Secrets {
		if !k.Set && !k.Optional {
			out = append(out, k.Name)
		}
	}
	return out
}

func appOn(s *session) error  { return switchApp(s, true) }
func appOff(s *session) error { return switchApp(s, false) }

func switchApp(s *session, on bool) error {
	a, raw, err := s.switchTo(s.args[0], on)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		_, err := fmt.Fprintf(s.Out, "%s is %s\n", visible(a.Name), visible(a.state()))
		return err
	})
}

func (s *session) switchTo(name string, on bool) (a appAnswer, raw json.RawMessage, err error) {
	raw, err = s.ask(http.MethodPut, "/api/apps/"+url.PathEscape(name), nil, map[string]bool{"on": on}, &a)
	return a, raw, err
}

func appNewFlags(f *flag.FlagSet) {
	f.String("in", "", "the `folder` of apps that it goes to; when not given, BOX_TRACKS or as above")
}

// appNew lays a new app down, whole or not at all.
func appNew(s *session) error {
	name := s.args[0]
	if err := declare.CheckName(name); err != nil {
		return &usageError{err.Error()}
	}
	in := s.value("in")
	if in == "" {
		var err error
		if in, err = appsFolder(); err != nil {
			return err
		}
	}
	in, err := filepath.Abs(in)
	if err != nil {
		return err
	}
	folder := filepath.Join(in, name)
	if _, err := check.SDK(folder); err != nil {
		return err
	}
	if _, err := os.Lstat(folder); err == nil {
		return fmt.Errorf("%s is there already; choose another name, or change what is there", folder)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp, err := os.MkdirTemp(in, "."+name+"-")
	if err != nil {
		return fmt.Errorf("making the app's folder: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	files, err := layScaffold(tmp, name)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, folder); err != nil {
		return fmt.Errorf("making the app's folder: %w", err)
	}
	if s.json {
		return json.NewEncoder(s.Out).Encode(map[string]any{"app": name, "folder": folder, "files": files})
	}
	fmt.Fprintf(s.Out, "%s\n", folder)
	for _, f := range files {
		fmt.Fprintf(s.Out, "  %s\n", f)
	}
	_, err = fmt.Fprintf(s.Out, "\nTry it:   box app dev %s\nCheck it: box app check %[1]s\n", show(folder))
	return err
}

// appsFolder is where a new app goes when nobody says: to BOX_TRACKS, else to the tracks/
// that one stands in or before, else to that of the source tree.
func appsFolder() (string, error) {
	conf, err := config.Read()
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil || os.Getenv("BOX_TRACKS") != "" {
		return conf.Tracks, nil
	}
	for _, dir := range []string{here, filepath.Join(here, "tracks")} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || filepath.Base(dir) != "tracks" {
			continue
		}
		if _, err := check.SDK(filepath.Join(dir, "app")); err == nil {
			return dir, nil
		}
	}
	return conf.Tracks, nil
}

func layScaffold(to, name string) (files []string, err error) {
	title := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return ' '
		}
		return r
	}, name)
	title = string(unicode.ToUpper(rune(title[0]))) + title[1:]
	words := strings.NewReplacer("NAME", name, "TITLE", title)
	all, err := scaffold.ReadDir("scaffold")
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		b, err := scaffold.ReadFile("scaffold/" + f.Name())
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), []byte(words.Replace(string(b))), 0o644); err != nil {
			return nil, err
		}
		files = append(files, f.Name())
	}
	return files, nil
}

// show is a path as it is typed from here.
func show(path string) string {
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}

// folderArg is the folder of an app that is named, or the one that this runs in.
func (s *session) folderArg() (string, error) {
	name := "."
	if len(s.args) > 0 {
		name = s.args[0]
	}
	folder, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(folder)
	switch {
	case err != nil:
		return "", fmt.Errorf("there is no folder %s", name)
	case !info.IsDir():
		return "", fmt.Errorf("%s is no folder: the app's folder is needed, which holds its track.ts", name)
	}
	return folder, nil
}

func appCheck(s *session) error {
	folder, err := s.folderArg()
	if err != nil {
		return err
	}
	conf, err := config.Read()
	if err != nil {
		return err
	}
	r, err := check.App(s.ctx, conf.Tools, folder)
	if err != nil {
		return err
	}
	if s.json {
		if err := json.NewEncoder(s.Out).Encode(r); err != nil {
			return err
		}
	} else if err := s.showReport(r); err != nil {
		return err
	}
	switch n := len(r.Problems); n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: one thing is wrong", r.App)
	default:
		return fmt.Errorf("%s: %d things are wrong", r.App, n)
	}
}

func (s *session) showReport(r check.Report) error {
	for _, p := range r.Problems {
		fmt.Fprintln(s.Out, visible(p.String()))
	}
	for _, p := range r.Notes {
		fmt.Fprintf(s.Out, "note: %s\n", visible(p.String()))
	}
	for _, what := range r.Skipped {
		fmt.Fprintf(s.Out, "not looked at: %s\n", what)
	}
	if len(r.Problems) > 0 {
		return nil
	}
	_, err := fmt.Fprintf(s.Out, "%s is in order: %s\n", r.App, r.Sum())
	return err
}
