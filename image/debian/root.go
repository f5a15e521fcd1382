package debian

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Root says what to make a root folder of.
type Root struct {
	Suite    string
	Packages []string
	Skip     []string // path patterns that dpkg doesn't unpack, where * also stands for /
	Keep     []string // what it unpacks all the same
	Unpack   bool     // unpack the packages only, and run nothing of theirs
	Epoch    int64    // seconds since 1970: no file is newer
}

// Package is one package that went in.
type Package struct {
	Name, Version, Arch, Source string
	Files                       []string // paths from the root, of a Root that was only unpacked
}

// Make makes the root in dir, which must not exist, with temp for scratch. What mmdebstrap does goes to log, and in few words to say.
func (r Root) Make(ctx context.Context, dir, temp string, log io.Writer, say func(string)) ([]Package, error) {
	sources, err := Sources(ctx, r.Suite)
	if err != nil {
		return nil, err
	}
	list := filepath.Join(temp, "packages")
	args := []string{"--mode=root", "--format=directory", "--variant=essential", "--aptopt=APT::Install-Recommends \"false\""}
	if r.Unpack {
		args[2] = "--variant=extract"
	}
	for _, p := range r.Skip {
		args = append(args, "--dpkgopt=path-exclude="+p)
	}
	for _, p := range r.Keep {
		args = append(args, "--dpkgopt=path-include="+p)
	}
	options, err := aptOptions(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range options {
		args = append(args, "--aptopt="+o)
	}
	const form = "--showformat='${Package} ${Version} ${Architecture} ${source:Package}\\n'"
	hook := "--customize-hook=dpkg-query --admindir=\"$1\"/var/lib/dpkg --show " + form + " > " + quote(list)
	if r.Unpack { // dpkg knows of nothing then, but the archives are still there right after unpacking
		hook = "--extract-hook=for d in \"$1\"/var/cache/apt/archives/*.deb; do dpkg-deb --show " + form + " \"$d\"; " +
			"dpkg-deb --fsys-tarfile \"$d\" | tar --list | sed 's,^[.],,'; done > " + quote(list)
	}
	args = append(args, hook, "--include="+strings.Join(r.Packages, ","), r.Suite, dir)
	args = append(args, sources...)

	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "LC_ALL=C", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.Epoch))
	// Its mounts (/proc, /sys and /dev in the root) end with it, however it ends: a later removal of the folder must not reach this machine's /dev.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting mmdebstrap: %w", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		if doing, ok := strings.CutPrefix(lines.Text(), "I: "); ok && strings.HasSuffix(doing, "...") {
			say(strings.TrimSuffix(doing, "..."))
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("mmdebstrap: %w", err)
	}
	return readPackages(list)
}

// quote makes one word of a path for the shell that runs a hook.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

func readPackages(name string) (list []Package, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading which packages went in: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "/") && len(list) > 0:
			p := &list[len(list)-1]
			p.Files = append(p.Files, line)
		case len(f) == 4:
			list = append(list, Package{Name: f[0], Version: f[1], Arch: f[2], Source: f[3]})
		default:
			return nil, fmt.Errorf("reading which packages went in: odd line %q", line)
		}
	}
	slices.SortFunc(list, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Sources are the lines of a sources.list for suite, with the archive and the security archive that this machine's apt uses. Where apt knows no
// Debian archive there are none, and mmdebstrap takes its own default.
func Sources(ctx context.Context, suite string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").Output()
	if err != nil {
		return nil, fmt.Errorf("asking apt which mirror it uses: %w", err)
	}
	return sources(string(out), suite), nil
}

// releases are the names by which a Debian machine's own sources go.
var releases = []string{"bullseye", "bookworm", "trixie", "forky", "oldoldstable", "oldstable", "stable", "testing", "unstable", "sid"}

func sources(targets, suite string) []string {
	var archive, security string
	for line := range strings.Lines(targets) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "main" {
			continue
		}
		name, part, _ := strings.Cut(strings.ReplaceAll(f[1], "/updates", "-security"), "-")
		switch {
		case !slices.Contains(releases, name):
		case part == "" && archive == "":
			archive = f[0]
		case part == "security" && security == "":
			security = f[0]
		}
	}
	if archive == "" {
		return nil
	}
	lines := []string{"deb " + archive + " " + suite + " main", "deb " + archive + " " + suite + "-updates main"}
	if security != "" {
		lines = append(lines, "deb "+security+" "+suite+"-security main")
	}
	return lines
}

var wanted = regexp.MustCompile(`^Acquire::(Retries|https?::.*(Proxy|Timeout|CaInfo|Verify)|https?::Proxy-Auto-Detect).* ".+";$`)

// aptOptions are the settings of this machine's apt that say how to reach its mirror.
func aptOptions(ctx context.Context) (list []string, err error) {
	out, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil, fmt.Errorf("reading apt's settings: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); wanted.MatchString(line) {
			list = append(list, strings.TrimSuffix(line, ";"))
		}
	}
	return list, nil
}
