// Package deps knows what the building machine must have installed, each thing with what it is for, and installs what is missing where it can:
// on Debian, as root. Elsewhere it says in a sentence what to install.
package deps

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Package is one Debian package.
type Package struct {
	Name string
	For  string   // what it is needed for
	Has  []string // files that tell it is there; one of them suffices
	Use  Use
}

// Use is a kind of work that needs packages.
type Use int

const (
	Build Use = iota // programs and the tasks file system
	Image            // the system disk
	Boot             // QEMU
	Test             // what tests and benchmarks compare with
)

// Packages is the one list.
var Packages = []Package{
	{"gcc", "boxd's sandbox code and box-init are C in part", []string{"/usr/bin/gcc"}, Build},
	{"libc6-dev", "the C library to link them statically with", []string{"/usr/lib/x86_64-linux-gnu/libc.a"}, Build},
	{"git", "the commit and its time are part of a build", []string{"/usr/bin/git"}, Build},
	{"npm", "brings the pinned Node (package-lock.json)", []string{"/usr/bin/npm", "/usr/local/bin/npm"}, Build},
	{"mmdebstrap", "makes the two roots of Debian packages", []string{"/usr/bin/mmdebstrap"}, Build},
	{"debian-archive-keyring", "tells Debian's packages from forged ones", []string{"/usr/share/keyrings/debian-archive-trixie-automatic.gpg", "/usr/share/keyrings/debian-archive-trixie-automatic.pgp"}, Build},
	{"erofs-utils", "packs the two file systems", []string{"/usr/bin/mkfs.erofs"}, Build},
	{"binutils", "takes debugging symbols out of Node", []string{"/usr/bin/strip"}, Build},
	{"xz-utils", "unpacks the kernel's modules", []string{"/usr/bin/xz"}, Image},
	{"kmod", "makes modprobe's tables of the modules", []string{"/usr/sbin/depmod", "/sbin/depmod"}, Image},
	{"dosfstools", "makes the disk's FAT partition", []string{"/usr/sbin/mkfs.fat", "/sbin/mkfs.fat"}, Image},
	{"mtools", "puts the boot file into it", []string{"/usr/bin/mcopy"}, Image},
	{"qemu-system-x86", "runs the box", []string{"/usr/bin/qemu-system-x86_64"}, Boot},
	{"ovmf", "the firmware that starts it", []string{"/usr/share/OVMF/OVMF_CODE_4M.fd"}, Boot},
	{"xfsprogs", "data disks in tests", []string{"/usr/sbin/mkfs.xfs", "/sbin/mkfs.xfs"}, Test},
	{"e2fsprogs", "foreign disks in tests", []string{"/usr/sbin/mke2fs", "/sbin/mke2fs"}, Test},
	{"qemu-utils", "the client that the tests' disk server is tried with", []string{"/usr/bin/qemu-io"}, Test},
	{"curl", "a client that the task network is tried with", []string{"/usr/bin/curl"}, Test},
	{"wget", "a client that the task network is tried with", []string{"/usr/bin/wget"}, Test},
	{"openssl", "a client that the task network is tried with", []string{"/usr/bin/openssl"}, Test},
	{"openssh-client", "a client that the task network is tried with", []string{"/usr/bin/ssh"}, Test},
	{"postgresql-client", "a client that the task network is tried with", []string{"/usr/bin/psql"}, Test},
	{"python3-pip", "a client that the task network is tried with", []string{"/usr/bin/pip3"}, Test},
	{"default-jdk-headless", "a client that the task network is tried with", []string{"/usr/bin/javac"}, Test},
	{"chromium", "the browser that apps' pages are tried in", []string{"/usr/bin/chromium"}, Test},
	{"bubblewrap", "make bench compares with it", []string{"/usr/bin/bwrap"}, Test},
	{"crun", "make bench compares with it", []string{"/usr/bin/crun"}, Test},
	{"runc", "make bench compares with it", []string{"/usr/sbin/runc", "/usr/bin/runc"}, Test},
	{"nftables", "make bench compares with a link that it guards", []string{"/usr/sbin/nft"}, Test},
	{"iproute2", "makes and shapes that link", []string{"/usr/sbin/tc", "/sbin/tc"}, Test},
	{"squid", "make bench compares with it", []string{"/usr/sbin/squid"}, Test},
	{"tinyproxy", "make bench compares with it", []string{"/usr/bin/tinyproxy"}, Test},
	{"mitmproxy", "make bench compares with it", []string{"/usr/bin/mitmdump"}, Test},
	{"libseccomp-dev", "make bench builds the runc that it compares with", []string{"/usr/include/seccomp.h"}, Test},
	{"pkg-config", "tells that build where the library is", []string{"/usr/bin/pkg-config"}, Test},
	{"fio", "make bench measures files with it", []string{"/usr/bin/fio"}, Test},
}

// Missing lists what is not installed of what the uses need.
func Missing(uses ...Use) (list []Package) {
	for _, p := range Packages {
		there := slices.ContainsFunc(p.Has, func(f string) bool { _, err := os.Stat(f); return err == nil })
		if slices.Contains(uses, p.Use) && !there {
			list = append(list, p)
		}
	}
	return list
}

// Ensure installs what is missing, or says what to install.
func Ensure(ctx context.Context, out, log io.Writer, uses ...Use) error {
	missing := Missing(uses...)
	if len(missing) == 0 {
		return nil
	}
	var names []string
	for _, p := range missing {
		names = append(names, p.Name)
	}
	line := "apt-get install --no-install-recommends " + strings.Join(names, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("this machine lacks %s (names as in Debian): install them and try again", strings.Join(names, ", "))
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing: run `%s` as root and try again", line)
	}
	for _, p := range missing {
		fmt.Fprintf(out, "installing %s: %s\n", p.Name, p.For)
	}
	for _, args := range [][]string{{"-q", "update"}, append([]string{"-q", "-y", "install", "--no-install-recommends"}, names...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("`%s`: %w", line, err)
		}
	}
	if still := Missing(uses...); len(still) > 0 {
		return fmt.Errorf("%s was installed, yet %s is not there", still[0].Name, still[0].Has[0])
	}
	return nil
}
