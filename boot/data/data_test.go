package data

import (
	"context"
	"io"
	"log"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/boot/disk"
)

// exit is the error of a program that ended with a code.
func exit(t *testing.T, code string) error {
	t.Helper()
	return exec.Command("/bin/sh", "-c", "exit "+code).Run()
}

func TestAttach(t *testing.T) {
	p := disk.Part{Disk: disk.Disk{Name: "vdb", Path: "/dev/vdb", Size: 8e9}, Index: 1}
	for _, c := range []struct {
		name   string
		mounts []error // what each try to mount gives
		repair error
		want   string // what was done
		shape  Shape
		fails  bool
	}{
		{name: "sound", mounts: []error{nil}, want: "mount rw"},
		{name: "write-protected", mounts: []error{unix.EACCES, nil}, want: "mount rw, mount ro", shape: Shape{ReadOnly: true, Reason: "can't be written"}},
		{name: "damaged", mounts: []error{unix.EUCLEAN, nil}, want: "mount rw, repair, mount rw", shape: Shape{Repaired: true, Reason: "has been repaired"}},
		{name: "bad checksum", mounts: []error{unix.EBADMSG, nil}, want: "mount rw, repair, mount rw", shape: Shape{Repaired: true, Reason: "has been repaired"}},
		{name: "dirty journal is kept", mounts: []error{unix.EUCLEAN, nil}, repair: exit(t, "2"), want: "mount rw, repair, mount ro", shape: Shape{ReadOnly: true, Reason: "nothing on it was changed"}},
		{name: "repair fails", mounts: []error{unix.EUCLEAN, nil}, repair: exit(t, "1"), want: "mount rw, repair, mount ro", shape: Shape{ReadOnly: true, Reason: "could not be repaired"}},
		{name: "repair in vain", mounts: []error{unix.EUCLEAN, unix.EUCLEAN, nil}, want: "mount rw, repair, mount rw, mount ro", shape: Shape{ReadOnly: true, Repaired: true, Reason: "still so"}},
		{name: "unreadable", mounts: []error{unix.EIO}, want: "mount rw", fails: true},
		{name: "not even read-only", mounts: []error{unix.EROFS, unix.EIO}, want: "mount rw, mount ro", shape: Shape{ReadOnly: true, Reason: "can't be written"}, fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var did []string
			m := &Mounter{Log: log.New(io.Discard, "", 0)}
			m.Mount = func(source, target, fstype string, flags uintptr, data string) error {
				if source != "/dev/vdb1" || target != "/data" || fstype != "xfs" || flags&(unix.MS_NOSUID|unix.MS_NODEV) != unix.MS_NOSUID|unix.MS_NODEV {
					t.Errorf("mount %s on %s, %s, %#x", source, target, fstype, flags)
				}
				if ro := flags&unix.MS_RDONLY != 0; ro && data == "norecovery" {
					did = append(did, "mount ro")
				} else if !ro && data == "prjquota" {
					did = append(did, "mount rw")
				} else {
					t.Errorf("mount with flags %#x and %q", flags, data)
				}
				err := c.mounts[0]
				c.mounts = c.mounts[1:]
				return err
			}
			m.Run = func(_ context.Context, name string, args ...string) error {
				if name != "xfs_repair" || len(args) != 1 || args[0] != "/dev/vdb1" {
					t.Errorf("ran %s %v: a journal is never thrown away", name, args)
				}
				did = append(did, "repair")
				return c.repair
			}
			got, err := m.Attach(t.Context(), p, "/data")
			if (err != nil) != c.fails {
				t.Errorf("err = %v", err)
			}
			if s := strings.Join(did, ", "); s != c.want {
				t.Errorf("did %s\nwant %s", s, c.want)
			}
			if got.ReadOnly != c.shape.ReadOnly || got.Repaired != c.shape.Repaired || !strings.Contains(got.Reason, c.shape.Reason) || (got.Reason != "") != (c.shape.Reason != "") {
				t.Errorf("shape = %+v, want %+v", got, c.shape)
			}
		})
	}
}

func TestLowSpace(t *testing.T) {
	for _, c := range []struct {
		size, free int64
		want       string
	}{
		{100e9, 50e9, ""},
		{100e9, 200e6, "nearly full"},
		{2e9, 150e6, ""},
		{2e9, 50e6, "nearly full"},
		{2e9, 1000, "is full"},
	} {
		if got := low(c.size, c.free); !strings.Contains(got, c.want) || (got != "") != (c.want != "") {
			t.Errorf("low(%d, %d) = %q, want %q", c.size, c.free, got, c.want)
		}
		// It is told once, not with each byte that is written.
		if again := low(c.size, c.free-c.free/100); again != low(c.size, c.free) {
			t.Errorf("low(%d, %d) is told again: %q", c.size, c.free, again)
		}
	}
}
