package firstboot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"

	"gurtos/boot/disk"
	"gurtos/image/layout"
)

const size = 2200 << 20 // of test disks: sparse, and a little more than the least

// image makes a disk of an image file that is all zero.
func image(t *testing.T, name string) disk.Disk {
	t.Helper()
	d := disk.Disk{Name: name, Path: filepath.Join(t.TempDir(), name), Size: size, Block: 512, Model: "Test disk", Serial: "S-" + name}
	if err := os.WriteFile(d.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.Path, size); err != nil {
		t.Fatal(err)
	}
	return d
}

func write(t *testing.T, d disk.Disk, off int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if off < 0 {
		off += d.Size
	}
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// mkfs runs the real mkfs.xfs on a file of the partition's size and puts the
// result into the disk's image, block for block that is not zero.
func mkfs(ctx context.Context, p disk.Part, options ...string) error {
	dir, err := os.MkdirTemp("", "mkfs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "fs")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(file, p.Size); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "mkfs.xfs", append(options, file)...).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.xfs: %w: %s", err, out)
	}
	f, err := os.OpenFile(p.Disk.Path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return blocks(file, func(off int64, b []byte) error {
		if bytes.Equal(b, zeros[:512]) {
			return nil
		}
		_, err := f.WriteAt(b, p.Start+off)
		return err
	})
}

func setup() *Setup { return &Setup{Log: log.New(io.Discard, "", 0), MkFS: mkfs} }

func TestBlankDiskIsTaken(t *testing.T) {
	for _, block := range []int{512, 4096} {
		d := image(t, "vdb")
		d.Block = block
		found, err := Find([]disk.Disk{d})
		if err != nil || !found.Blank || !found.Fresh() {
			t.Fatalf("Find = %+v, %v", found, err)
		}
		if err := setup().Disk(t.Context(), &found); err != nil {
			t.Fatal(err)
		}
		again, err := Find([]disk.Disk{d})
		if err != nil || again.Fresh() || again.Part.GUID != found.Part.GUID {
			t.Fatalf("block %d: found again as %+v, %v", block, again, err)
		}
		if p := again.Part; p.Start != layout.Align || p.Start+p.Size > size-edge || p.Size < size-4*edge || p.Name != layout.NameData {
			t.Errorf("block %d: partition %+v", block, p)
		}
		f, err := os.Open(d.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if sb, err := readSuperblock(f, layout.Align); err != nil || sb.uuid != again.Part.GUID {
			t.Errorf("block %d: superblock %+v, %v; want the partition's UUID %s", block, sb, err, again.Part.GUID)
		}
		// A disk that is ours is never formatted again.
		s := setup()
		s.MkFS = func(context.Context, disk.Part, ...string) error { t.Error("formatted a second time"); return nil }
		if err := s.Disk(t.Context(), &again); err != nil {
			t.Error(err)
		}
	}
}

// foreign are disks that are not blank, each in one way.
var foreign = []struct {
	name string
	mark func(t *testing.T, d disk.Disk)
	says string
}{
	{"ext4", func(t *testing.T, d disk.Disk) { run(t, "mke2fs", "-q", "-F", "-t", "ext4", d.Path, "64M") }, "an ext file system"},
	{"fat", func(t *testing.T, d disk.Disk) { run(t, "mkfs.fat", "-F", "32", d.Path) }, "a FAT file system"},
	{"xfs", func(t *testing.T, d disk.Disk) { run(t, "mkfs.xfs", "-q", d.Path) }, "an XFS file system"},
	{"NTFS", func(t *testing.T, d disk.Disk) { write(t, d, 3, []byte("NTFS    ")) }, "an NTFS file system"},
	{"exFAT", func(t *testing.T, d disk.Disk) { write(t, d, 3, []byte("EXFAT   ")) }, "an exFAT file system"},
	{"LUKS", func(t *testing.T, d disk.Disk) { write(t, d, 0, []byte("LUKS\xba\xbe\x00\x02")) }, "LUKS"},
	{"BitLocker", func(t *testing.T, d disk.Disk) { write(t, d, 3, []byte("-FVE-FS-")) }, "BitLocker"},
	{"LVM", func(t *testing.T, d disk.Disk) { write(t, d, 512, []byte("LABELONE")) }, "an LVM volume"},
	{"RAID 1.0, at the end", func(t *testing.T, d disk.Disk) { write(t, d, -8192, []byte("\xfc\x4e\x2b\xa9")) }, "RAID"},
	{"ZFS", func(t *testing.T, d disk.Disk) {
		write(t, d, 128<<10, []byte("\x0c\xb1\xba\x00\x00\x00\x00\x00"))
	}, "a ZFS pool"},
	{"Btrfs", func(t *testing.T, d disk.Disk) { write(t, d, 0x10040, []byte("_BHRfS_M")) }, "a Btrfs file system"},
	{"swap", func(t *testing.T, d disk.Disk) { run(t, "mkswap", d.Path) }, "swap space"},
	{"MBR", func(t *testing.T, d disk.Disk) { write(t, d, 510, []byte("\x55\xaa")) }, "an MBR partition table"},
	{"GPT of others", func(t *testing.T, d disk.Disk) {
		otherTable(t, d, "0fc63daf-8483-4772-8e79-3d69d8477de4", "photos")
	}, `a GUID partition table with 1 partitions (1.1 GB "photos")`},
	{"the second GPT alone", func(t *testing.T, d disk.Disk) {
		otherTable(t, d, "0fc63daf-8483-4772-8e79-3d69d8477de4", "photos")
		write(t, d, 0, make([]byte, 1<<20))
	}, "what is left of a GUID partition table"},
	{"one byte in the first MiB", func(t *testing.T, d disk.Disk) { write(t, d, 700_001, []byte{1}) }, "its byte 700001 is not zero"},
	{"one byte in the last MiB", func(t *testing.T, d disk.Disk) { write(t, d, -5, []byte{1}) }, "is not zero"},
	{"start wiped, ext4 copies left", func(t *testing.T, d disk.Disk) {
		run(t, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", d.Path)
		write(t, d, 0, make([]byte, 2<<20))
	}, "is not zero"},
	{"start wiped, content left", func(t *testing.T, d disk.Disk) {
		write(t, d, 1<<30, []byte(strings.Repeat("photo", 2_000_000)))
	}, "is not zero"},
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

func otherTable(t *testing.T, d disk.Disk, typ, name string) {
	t.Helper()
	f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table := &gpt.Table{LogicalSectorSize: 512, PhysicalSectorSize: 512, ProtectiveMBR: true,
		Partitions: []*gpt.Partition{{Index: 1, Start: 2048, End: 2048 + 1<<21 - 1, Type: gpt.Type(typ), Name: name}}}
	if err := table.Write(f, d.Size); err != nil {
		t.Fatal(err)
	}
}

// hash is of the image's blocks that are not zero.
func hash(t *testing.T, path string) string {
	t.Helper()
	h := sha256.New()
	if err := blocks(path, func(off int64, b []byte) error {
		if !bytes.Equal(b, zeros[:512]) {
			fmt.Fprintf(h, "%d:%s", off, b)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A disk that is not blank and not ours is named with what it holds, and is the
// same to the byte afterwards.
func TestForeignDisksAreLeftAlone(t *testing.T) {
	for _, c := range foreign {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := image(t, "vdc")
			c.mark(t, d)
			before, err := os.Stat(d.Path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Find([]disk.Disk{d})
			var none *NoDisk
			if !errors.As(err, &none) {
				t.Fatalf("Find = %v, want a NoDisk", err)
			}
			for _, part := range []string{"vdc (2.3 GB, Test disk, serial S-vdc)", c.says, "left untouched"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the reason has no %q: %v", part, err)
				}
			}
			// Even when somebody hands it in as blank.
			forced := Data{Disk: d, Blank: true}
			if err := setup().Disk(t.Context(), &forced); err == nil || !strings.Contains(err.Error(), "step claim") {
				t.Errorf("Disk of a foreign disk = %v", err)
			}
			after, err := os.Stat(d.Path)
			if err != nil || !after.ModTime().Equal(before.ModTime()) {
				t.Errorf("the disk was written to: %v", err)
			}
		})
	}
}

func TestFindChooses(t *testing.T) {
	blank, other, mine := image(t, "vdb"), image(t, "vdc"), image(t, "vdd")
	write(t, other, 510, []byte("\x55\xaa"))
	d := Data{Disk: mine, Blank: true}
	if err := setup().Disk(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	second := image(t, "vde")
	small, stick, locked := blank, blank, blank
	small.Size, stick.Removable, locked.ReadOnly = layout.MinData-1, true, true
	for _, c := range []struct {
		name  string
		disks []disk.Disk
		takes string
		says  []string
	}{
		{"nothing", nil, "", []string{"no data disk", "2.1 GB"}},
		{"a blank one", []disk.Disk{other, blank}, "vdb", nil},
		{"ours before a blank one", []disk.Disk{blank, mine, other}, "vdd", nil},
		{"two blank ones", []disk.Disk{blank, second}, "", []string{"2 blank disks", "vdb (", " and vde (", "leave only one"}},
		{"too small", []disk.Disk{small}, "", []string{"vdb", "smaller than 2.1 GB"}},
		{"a stick", []disk.Disk{stick}, "", []string{"removable"}},
		{"write-protected", []disk.Disk{locked}, "", []string{"can't be written"}},
		{"gone", []disk.Disk{{Name: "vdz", Path: "/no/such/disk", Size: size, Block: 512}}, "", []string{"vdz", "can't be opened"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(c.disks)
			if got.Disk.Name != c.takes {
				t.Errorf("took %q, want %q (%v)", got.Disk.Name, c.takes, err)
			}
			if (err == nil) != (c.says == nil) {
				t.Errorf("err = %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(fmt.Sprint(err), s) {
					t.Errorf("the reason has no %q: %v", s, err)
				}
			}
		})
	}
	twin := second
	copyDisk(t, mine, twin)
	if _, err := Find([]disk.Disk{mine, twin}); err == nil || !strings.Contains(err.Error(), "2 data disks of GurtOS") {
		t.Errorf("two disks of ours: %v", err)
	}
}

func copyDisk(t *testing.T, from, to disk.Disk) {
	t.Helper()
	run(t, "cp", "--sparse=always", from.Path, to.Path)
}

// The claim outlives the disk's next owner, and must not give the disk back to
// us then.
func TestNextOwnerKeepsTheDisk(t *testing.T) {
	for _, state := range []string{claimed, formatted} {
		for _, next := range []struct {
			name string
			mark func(t *testing.T, d disk.Disk)
		}{
			{"GPT", func(t *testing.T, d disk.Disk) {
				otherTable(t, d, "0fc63daf-8483-4772-8e79-3d69d8477de4", "photos")
			}},
			{"MBR", func(t *testing.T, d disk.Disk) {
				write(t, d, 0, make([]byte, 34*512))
				write(t, d, -33*512, make([]byte, 33*512))
				write(t, d, 446, []byte{0x80, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0x20, 0})
				write(t, d, 510, []byte("\x55\xaa"))
				write(t, d, 1<<20, make([]byte, 8192)) // the new partition's own file system begins
			}},
		} {
			t.Run(state+", then "+next.name, func(t *testing.T) {
				d := image(t, "vdb")
				found := Data{Disk: d, Blank: true}
				if err := setup().Disk(t.Context(), &found); err != nil {
					t.Fatal(err)
				}
				if state == claimed {
					f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
					if err != nil {
						t.Fatal(err)
					}
					found.claim.State = claimed
					if err := found.claim.write(f, d); err != nil {
						t.Fatal(err)
					}
					f.Close()
				}
				if _, err := Find([]disk.Disk{d}); err != nil {
					t.Fatalf("the disk is not ours before: %v", err)
				}
				next.mark(t, d)
				if got, err := Find([]disk.Disk{d}); err == nil {
					t.Errorf("Find took a disk that has another owner now: %+v", got)
				}
			})
		}
	}
}

// A formatted disk whose tables are gone is known by claim and file system, and
// its table is made again, the same.
func TestTableIsMended(t *testing.T) {
	d := image(t, "vdb")
	found := Data{Disk: d, Blank: true}
	if err := setup().Disk(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	want := hash(t, d.Path)
	for _, damage := range []func(){
		func() { write(t, d, 512, make([]byte, 512)) },
		func() { write(t, d, 0, make([]byte, 34*512)); write(t, d, -33*512, make([]byte, 33*512)) },
	} {
		damage()
		got, err := Find([]disk.Disk{d})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := setup().Grow(&got); err != nil {
			t.Fatal(err)
		}
		if hash(t, d.Path) != want {
			t.Error("the mended disk is not the same as before")
		}
		if got.Part.GUID != found.Part.GUID {
			t.Errorf("partition %+v", got.Part)
		}
	}
}

func TestGrow(t *testing.T) {
	d := image(t, "vdb")
	found := Data{Disk: d, Blank: true}
	if err := setup().Disk(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	if room, err := setup().Grow(&found); room || err != nil {
		t.Errorf("a disk of the same size: room %v, %v", room, err)
	}
	if err := os.Truncate(d.Path, 2*size); err != nil {
		t.Fatal(err)
	}
	d.Size = 2 * size
	for range 2 { // the second finds the table grown and the file system not yet
		got, err := Find([]disk.Disk{d})
		if err != nil {
			t.Fatal(err)
		}
		if room, err := setup().Grow(&got); !room || err != nil {
			t.Errorf("a disk of twice the size: room %v, %v", room, err)
		}
		if got.Part.Size < 2*size-4*edge || got.Part.GUID != found.Part.GUID || got.Part.Start != found.Part.Start {
			t.Errorf("grown partition: %+v", got.Part)
		}
	}
}

// Whoever moves the box to a larger disk may put a partition of their own behind
// the data: the table that has it, and what is in it, stay.
func TestGrowLeavesOthersPartitions(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		d := image(t, "vdb")
		found := Data{Disk: d, Blank: true}
		if err := setup().Disk(t.Context(), &found); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(d.Path, 2*size); err != nil {
			t.Fatal(err)
		}
		d.Size = 2 * size
		table := found.claim.table(d)
		table.Partitions = append(table.Partitions, &gpt.Partition{Index: 2, Start: uint64(size / 512), End: uint64(size/512) + 2047, Type: gpt.LinuxFilesystem, Name: "holiday photos"})
		f, err := os.OpenFile(d.Path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(table.Write(f, d.Size), f.Close()); err != nil {
			t.Fatal(err)
		}
		if damaged { // the first of the two headers
			write(t, d, 512, make([]byte, 512))
		}
		before := hash(t, d.Path)
		got, err := Find([]disk.Disk{d})
		if err != nil {
			t.Fatal(err)
		}
		if room, err := setup().Grow(&got); room || err != nil {
			t.Errorf("damaged %v: room %v, %v", damaged, room, err)
		}
		if hash(t, d.Path) != before {
			t.Errorf("damaged %v: the disk was written to", damaged)
		}
	}
}
