package firstboot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"gurtos/boot/disk"
	"gurtos/image/layout"
)

const (
	edge    = 1 << 20 // bytes read at both ends
	samples = 1024    // places looked at in between: ten seconds of a disk that turns, once
	sample  = 4 << 10 // bytes of each
)

// A signature is a mark that a file system or another user of disks leaves. Off
// counts from the start, or from the end when it is negative.
type signature struct {
	what  string
	off   int64
	bytes string
}

// signatures only give what is found its name: a disk is refused for any byte
// that is not zero, known or not.
var signatures = []signature{
	{"an encrypted volume (LUKS)", 0, "LUKS\xba\xbe"},
	{"an encrypted volume (BitLocker)", 3, "-FVE-FS-"},
	{"an NTFS file system", 3, "NTFS    "},
	{"an exFAT file system", 3, "EXFAT   "},
	{"an ReFS file system", 3, "ReFS\x00"},
	{"an XFS file system", 0, "XFSB"},
	{"a SquashFS image", 0, "hsqs"},
	{"an LVM volume", 512, "LABELONE"},
	{"an LVM volume", 0, "LABELONE"},
	{"an EROFS image", 1024, "\xe2\xe1\xf5\xe0"},
	{"an F2FS file system", 1024, "\x10\x20\xf5\xf2"},
	{"an HFS+ file system", 1024, "H+"},
	{"an HFS+ file system", 1024, "HX"},
	{"an ext file system", 1024 + 0x38, "\x53\xef"},
	{"an APFS container", 32, "NXSB"},
	{"a part of a RAID array", 4096, "\xfc\x4e\x2b\xa9"},
	{"a part of a RAID array", 0, "\xfc\x4e\x2b\xa9"},
	{"a part of a RAID array", -65536, "\xfc\x4e\x2b\xa9"},
	{"a part of a RAID array", -8192, "\xfc\x4e\x2b\xa9"},
	{"a bcache device", 4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
	{"swap space", 4086, "SWAPSPACE2"},
	{"swap space", 4086, "SWAP-SPACE"},
	{"an ISO 9660 image", 32769, "CD001"},
	{"a UDF file system", 32769, "BEA01"},
	{"a Btrfs file system", 0x10040, "_BHRfS_M"},
	{"a VMFS volume", 1 << 20, "\x0d\xd0\x01\xc0"},
	{"a FAT file system", 54, "FAT1"},
	{"a FAT file system", 82, "FAT32"},
	{"a GUID partition table", 512, "EFI PART"},
	{"a GUID partition table", 4096, "EFI PART"},
	{"what is left of a GUID partition table", -512, "EFI PART"},
	{"what is left of a GUID partition table", -4096, "EFI PART"},
	{"an MBR partition table or boot sector", 510, "\x55\xaa"},
}

// copies are where file systems keep second copies of their superblock, beyond
// the first MiB: a disk whose start was wiped can still hold what somebody
// wants back. Btrfs: 64 MiB and 256 GiB. Ext: groups 1, 3, 5 … for blocks of
// 1, 2 and 4 KiB.
var copies = []int64{
	64<<20 + 0x10000, 64 << 20, 256 << 30,
	8193 << 10, 24577 << 10, 40961 << 10, 16384 << 11, 49152 << 11, 32768 << 12, 98304 << 12, 163840 << 12, 229376 << 12,
}

// what describes what a device of size bytes holds, or returns "" when it is
// blank.
func what(f io.ReaderAt, size int64) (string, error) {
	for _, s := range signatures {
		at := s.off
		if at < 0 {
			at += size
		}
		if at < 0 {
			continue
		}
		b := make([]byte, len(s.bytes))
		if _, err := f.ReadAt(b, at); err != nil && err != io.EOF {
			return "", err
		}
		if string(b) == s.bytes {
			return s.what, nil
		}
	}
	if zfs, err := isZFS(f); zfs || err != nil {
		return "a ZFS pool", err
	}
	for _, r := range ranges(size) {
		at, err := firstByte(f, r[0], r[1])
		if err != nil {
			return "", err
		}
		if at >= 0 {
			return fmt.Sprintf("something unknown (its byte %d is not zero)", at), nil
		}
	}
	return "", nil
}

// ranges are the places that are read, as offset and length.
func ranges(size int64) [][2]int64 {
	out := [][2]int64{{0, min(edge, size)}}
	if size > edge {
		out = append(out, [2]int64{max(edge, size-edge), min(edge, size-edge)})
	}
	for _, at := range copies {
		if at+sample <= size {
			out = append(out, [2]int64{at, sample})
		}
	}
	for i := range int64(samples) {
		if at := size / samples * i / sample * sample; at > edge && at+sample <= size {
			out = append(out, [2]int64{at, sample})
		}
	}
	return out
}

var zeros [64 << 10]byte

// firstByte returns the offset of the first byte that is not zero, or -1.
func firstByte(f io.ReaderAt, off, length int64) (int64, error) {
	buf := make([]byte, len(zeros))
	for length > 0 {
		b := buf[:min(length, int64(len(buf)))]
		if _, err := f.ReadAt(b, off); err != nil {
			return 0, err
		}
		if !bytes.Equal(b, zeros[:len(b)]) {
			for i, c := range b {
				if c != 0 {
					return off + int64(i), nil
				}
			}
		}
		off, length = off+int64(len(b)), length-int64(len(b))
	}
	return -1, nil
}

// isZFS looks for an uberblock in the first label; they fill 128 KiB to 256 KiB
// in steps of at least 1 KiB.
func isZFS(f io.ReaderAt) (bool, error) {
	label := make([]byte, 128<<10)
	if _, err := f.ReadAt(label, 128<<10); err != nil && err != io.EOF {
		return false, err
	}
	for i := 0; i+8 <= len(label); i += 1024 {
		if binary.LittleEndian.Uint64(label[i:]) == 0x00bab10c || binary.BigEndian.Uint64(label[i:]) == 0x00bab10c {
			return true, nil
		}
	}
	return false, nil
}

// tableOf adds to "a GUID partition table" what lies in it, as far as it can be
// read.
func tableOf(d disk.Disk, found string) string {
	parts, _, err := d.Parts()
	if err != nil || len(parts) == 0 {
		return found
	}
	for _, p := range parts {
		switch p.Type {
		case layout.TypeSystem, layout.TypeTasks:
			return "a GurtOS system"
		}
	}
	var names []string
	for _, p := range parts {
		name := disk.Bytes(p.Size)
		if p.Name != "" {
			name += " " + fmt.Sprintf("%q", p.Name)
		}
		names = append(names, name)
	}
	return fmt.Sprintf("%s with %d partitions (%s)", found, len(parts), strings.Join(names, ", "))
}
