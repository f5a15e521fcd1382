package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const record = 4096 // bytes of a record

// disks finds the devices by serial number.
func disks() (map[string]string, error) {
	found := map[string]string{}
	dirs, err := filepath.Glob("/sys/block/*")
	for _, dir := range dirs {
		serial, err := os.ReadFile(dir + "/serial") // virtio
		if err != nil {
			serial, err = os.ReadFile(dir + "/device/serial") // NVMe
		}
		if err != nil {
			continue
		}
		found[strings.TrimSpace(string(serial))] = "/dev/" + filepath.Base(dir)
	}
	return found, err
}

// content is what record n holds: its number and a sum over all of it.
func content(n int) []byte {
	p := aligned()
	for i := 0; i < record; i += 8 {
		binary.LittleEndian.PutUint64(p[i:], uint64(n)<<32|uint64(i))
	}
	sum := sha256.Sum256(p[:record-sha256.Size])
	copy(p[record-sha256.Size:], sum[:])
	return p
}

// aligned is a buffer as O_DIRECT wants it.
func aligned() []byte {
	p := make([]byte, 2*record)
	skip := record - int(uintptr(unsafe.Pointer(&p[0]))%record)
	return p[skip : skip+record : skip+record]
}

func write(disks map[string]string) error {
	forgets, err := os.OpenFile(disks["raw-forgets"], os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	careful, err := os.OpenFile(disks["raw-careful"], os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	dir, err := mount("files", disks["files"])
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		p := content(n)
		if _, err := forgets.WriteAt(p, int64(n)*record); err != nil {
			return err
		}
		if _, err := careful.WriteAt(p, int64(n)*record); err != nil {
			return err
		}
		if err := careful.Sync(); err != nil {
			return err
		}
		if err := save(dir, name("careful", n), p, true); err != nil {
			return err
		}
		if err := save(dir, name("forgets", n), p, false); err != nil {
			return err
		}
		fmt.Println("round", n)
	}
}

func name(who string, n int) string { return fmt.Sprintf("%s-%05d", who, n) }

func mount(serial, dev string) (dir string, err error) {
	dir = "/run/" + serial
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Copies of one file system lie side by side when cuts are looked at.
	if err := unix.Mount(dev, dir, "xfs", 0, "nouuid"); err != nil {
		return "", fmt.Errorf("mount %s: %w", serial, err)
	}
	return dir, nil
}

// save writes a file by way of a new one that is renamed.
func save(dir, name string, p []byte, sync bool) error {
	temp := filepath.Join(dir, name+".new")
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	if _, err := f.Write(p); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// left is what read tells of one disk, as a line of JSON.
type left struct {
	Disk    string
	Whole   map[string][]int // by who wrote: the numbers of records that are as they were written
	Damaged int              // files that are there and aren't whole
}

func read() error {
	const copies = 6
	for i := range copies {
		serial := fmt.Sprintf("files-%d", i)
		dev, err := appears(serial)
		if err != nil {
			return err
		}
		dir, err := mount(serial, dev)
		if err != nil {
			return err
		}
		l := left{Disk: serial, Whole: map[string][]int{}}
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			var who string
			var n int
			if _, err := fmt.Sscanf(f.Name(), "%7s-%05d", &who, &n); err != nil || strings.HasSuffix(f.Name(), ".new") {
				continue
			}
			p, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err == nil && bytes.Equal(p, content(n)) {
				l.Whole[who] = append(l.Whole[who], n)
			} else {
				l.Damaged++
			}
		}
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		fmt.Printf("left %s\n", line)
	}
	return nil
}
