package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Disk is one whole block device.
type Disk struct {
	Name      string // kernel name, such as vdb or nvme0n1
	Path      string // device node, or an image file in tests
	Size      int64  // bytes
	Block     int    // bytes of a logical block: 512 or 4096
	Model     string // what the maker calls it, "" when unknown
	Serial    string // "" when unknown
	Removable bool
	ReadOnly  bool
}

// String names the disk to a person.
func (d Disk) String() string {
	words := []string{d.Name, "(" + Bytes(d.Size)}
	if d.Model != "" {
		words[len(words)-1] += ","
		words = append(words, d.Model)
	}
	if d.Serial != "" {
		words[len(words)-1] += ","
		words = append(words, "serial", d.Serial)
	}
	return strings.Join(words, " ") + ")"
}

// Bytes writes a size the way disks are sold: 8.0 GB.
func Bytes(n int64) string {
	const units = "kMGTP"
	f, i := float64(n), -1
	for f >= 1000 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	if i < 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %cB", f, units[i])
}

// notDisks are block devices that stand for memory, for other devices or for
// optical media.
var notDisks = []string{"loop", "ram", "zram", "sr", "fd", "md", "dm-", "mtdblock"}

// List reads all disks out of sysfs, in the order of their names. sys is /sys
// and dev is /dev, but in tests.
func List(sys, dev string) ([]Disk, error) {
	entries, err := os.ReadDir(filepath.Join(sys, "block"))
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	var disks []Disk
	for _, e := range entries {
		name := e.Name()
		if slices.ContainsFunc(notDisks, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		dir := filepath.Join(sys, "block", name)
		d := Disk{
			Name:      name,
			Path:      filepath.Join(dev, strings.ReplaceAll(name, "!", "/")),
			Size:      number(dir, "size") * 512, // sysfs counts in 512 bytes whatever the block
			Block:     int(number(dir, "queue/logical_block_size")),
			Model:     text(dir, "device/model"),
			Serial:    first(text(dir, "serial"), text(dir, "device/serial")),
			Removable: number(dir, "removable") == 1,
			ReadOnly:  number(dir, "ro") == 1,
		}
		if vendor := text(dir, "device/vendor"); d.Model != "" && vendor != "" && !strings.HasPrefix(vendor, "0x") {
			d.Model = vendor + " " + d.Model
		}
		if d.Block == 0 {
			d.Block = 512
		}
		if d.Size > 0 { // an empty card reader is a disk of no size
			disks = append(disks, d)
		}
	}
	return disks, nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// text reads a sysfs file as one line of printable words; firmware pads names
// with spaces and some with worse.
func text(dir, file string) string {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return ""
	}
	s := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return ' '
		}
		return c
	}, string(b))
	return strings.Join(strings.Fields(s), " ")
}

func number(dir, file string) int64 {
	n, _ := strconv.ParseInt(text(dir, file), 10, 64)
	return n
}

// PartPath is the device node of the disk's partition n, counted from 1. Names
// that end in a digit get a p between: nvme0n1p1.
func (d Disk) PartPath(n int) string {
	if last := d.Path[len(d.Path)-1]; last >= '0' && last <= '9' {
		return fmt.Sprintf("%sp%d", d.Path, n)
	}
	return fmt.Sprintf("%s%d", d.Path, n)
}
