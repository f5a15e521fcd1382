package sandbox

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/layers"
)

// Authorities is the file inside from which programs take whom they trust: Debian's
// place, which OpenSSL, GnuTLS, Go and git read without being told.
const Authorities = "/etc/ssl/certs/ca-certificates.crt"

// trust puts a file that names more authorities over the root's own, on a thread in the
// sandbox's mount namespace.
func trust(more []byte) error {
	if len(more) == 0 {
		return nil
	}
	own, err := os.ReadFile(Authorities)
	if err != nil {
		return fmt.Errorf("the authorities in the tasks root: %w", err)
	}
	fs, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, rootOwned("0755", "4m")...)
	if err != nil {
		return err
	}
	defer fs.Close()
	// A file can be bound from a mount that has a place only (before 6.15).
	if err := attach(fs, "/tmp"); err != nil {
		return err
	}
	const file = "/tmp/authorities"
	text := append(append(bytes.TrimRight(own, "\n"), '\n'), more...)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(file, 0o644); err != nil { // whatever the umask
		return err
	}
	if err := os.Chown(file, layers.RootUID, layers.RootUID); err != nil {
		return err
	}
	m, err := cloneMount(file, 0)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := setAttr(m, unix.MOUNT_ATTR_RDONLY, nil); err != nil {
		return err
	}
	if err := attach(m, Authorities); err != nil {
		return err
	}
	return unix.Unmount("/tmp", unix.MNT_DETACH)
}
