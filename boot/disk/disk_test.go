package disk

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"

	"gurtos/image/layout"
)

// sysfs makes a /sys/block out of a table of files.
func sysfs(t *testing.T, disks map[string]map[string]string) string {
	t.Helper()
	sys := t.TempDir()
	for name, files := range disks {
		for file, content := range files {
			path := filepath.Join(sys, "block", name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sys
}

func TestList(t *testing.T) {
	sys := sysfs(t, map[string]map[string]string{
		"vda":     {"size": "16384\n", "queue/logical_block_size": "512\n", "serial": "data-1\n", "device/vendor": "0x1af4\n", "ro": "1\n"},
		"sdb":     {"size": "15728640\n", "queue/logical_block_size": "512\n", "device/vendor": "ATA     \n", "device/model": "QEMU \x01 HARDDISK   \n", "removable": "1\n"},
		"nvme0n1": {"size": "1953525168\n", "queue/logical_block_size": "4096\n", "device/model": "Fast 990\n", "device/serial": "S1  \n"},
		"sdc":     {"size": "0\n"},
		"loop0":   {"size": "100\n"},
		"sr0":     {"size": "100\n"},
		"dm-0":    {"size": "100\n"},
	})
	disks, err := List(sys, "/dev")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"nvme0n1 (1.0 TB, Fast 990, serial S1)",
		"sdb (8.1 GB, ATA QEMU HARDDISK)",
		"vda (8.4 MB, serial data-1)",
	}
	if len(disks) != len(want) {
		t.Fatalf("List = %v, want %v", disks, want)
	}
	for i, d := range disks {
		if d.String() != want[i] {
			t.Errorf("disk %d = %s, want %s", i, d, want[i])
		}
	}
	if d := disks[0]; d.Block != 4096 || d.PartPath(2) != "/dev/nvme0n1p2" {
		t.Errorf("nvme: block %d, partition 2 at %s", d.Block, d.PartPath(2))
	}
	if !disks[1].Removable || !disks[2].ReadOnly || disks[2].PartPath(1) != "/dev/vda1" {
		t.Errorf("flags or partition path wrong: %+v", disks)
	}
}

// image makes a disk image with one partition of each type.
func image(t *testing.T, block int, types ...string) Disk {
	t.Helper()
	d := Disk{Name: "img", Path: filepath.Join(t.TempDir(), "img"), Size: 64 << 20, Block: block}
	f, err := os.Create(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(d.Size); err != nil {
		t.Fatal(err)
	}
	table := &gpt.Table{LogicalSectorSize: block, PhysicalSectorSize: block, ProtectiveMBR: true}
	for i, typ := range types {
		start := uint64((1 + i*8) << 20 / block)
		table.Partitions = append(table.Partitions, &gpt.Partition{
			Index: i + 1, Start: start, End: start + uint64(4<<20/block) - 1, Type: gpt.Type(typ), Name: "p"})
	}
	if err := table.Write(f, d.Size); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParts(t *testing.T) {
	for _, block := range []int{512, 4096} {
		d := image(t, block, layout.TypeESP, layout.TypeSystem, layout.TypeData)
		parts, recovered, err := d.Parts()
		if err != nil || recovered || len(parts) != 3 {
			t.Fatalf("block %d: %v, recovered %v, %v", block, parts, recovered, err)
		}
		if p := parts[1]; p.Type != layout.TypeSystem || p.Index != 2 || p.Start != 9<<20 || p.Size != 4<<20 {
			t.Errorf("block %d: second partition %+v", block, p)
		}
		if got := Find([]Disk{{Path: "/no/such"}, d}, layout.TypeData); len(got) != 1 || got[0].Index != 3 {
			t.Errorf("block %d: Find = %v", block, got)
		}
	}
}

func TestPartsFromTheBackup(t *testing.T) {
	d := image(t, 512, layout.TypeData)
	f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 4096), 512); err != nil {
		t.Fatal(err)
	}
	parts, recovered, err := d.Parts()
	if err != nil || !recovered || len(parts) != 1 {
		t.Errorf("after the first table is gone: %v, recovered %v, %v", parts, recovered, err)
	}
}

// A header with a valid checksum that asks for 2^31 entries must be refused
// before anything is allocated for it.
func TestForgedHeader(t *testing.T) {
	d := image(t, 512, layout.TypeData)
	f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := make([]byte, 92)
	if _, err := f.ReadAt(h, 512); err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(h[80:], 1<<31)
	copy(h[16:20], make([]byte, 4))
	binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h))
	if _, err := f.WriteAt(h, 512); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Parts(); !errors.Is(err, ErrNoTable) {
		t.Errorf("Parts of a forged header = %v, want ErrNoTable", err)
	}
}
