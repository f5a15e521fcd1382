package firstboot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"gurtos/boot/disk"
	"gurtos/image/layout"
)

const claimHead = "GURTOS CLAIM 1\n"

// The states of a claim.
const (
	claimed   = "claimed"   // what follows may be made anew
	formatted = "formatted" // the partition holds a file system and is never formatted again
)

// errNoClaim says that a disk carries no claim of ours.
var errNoClaim = errors.New("no claim of GurtOS")

// A claim is the mark by which we know a disk as ours before there is anything
// else on it.
type claim struct {
	Disk  string `json:"disk"`
	Part  string `json:"part"`
	Size  int64  `json:"size"`
	State string `json:"state"`
}

// claimOffset is the last block below the first partition: no table, MBR gap
// loader or file system of anybody's uses it.
func claimOffset(d disk.Disk) int64 { return layout.Align - int64(d.Block) }

func (c claim) encode(block int) ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	text := append([]byte(claimHead), body...)
	text = append(text, '\n')
	text = fmt.Appendf(text, "%08x\n", crc32.ChecksumIEEE(text))
	if len(text) > block {
		return nil, fmt.Errorf("the claim has %d bytes and a block only %d", len(text), block)
	}
	return append(text, make([]byte, block-len(text))...), nil
}

func readClaim(f io.ReaderAt, d disk.Disk) (claim, error) {
	var c claim
	block := make([]byte, d.Block)
	if _, err := f.ReadAt(block, claimOffset(d)); err != nil {
		return c, err
	}
	body, ok := bytes.CutPrefix(block, []byte(claimHead))
	if !ok {
		return c, errNoClaim
	}
	body, rest, ok := bytes.Cut(body, []byte("\n"))
	sum := fmt.Appendf(nil, "%08x\n", crc32.ChecksumIEEE(block[:len(claimHead)+len(body)+1]))
	if !ok || !bytes.HasPrefix(rest, sum) {
		return c, errNoClaim
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, errNoClaim
	}
	return c, nil
}

// write puts the claim on the disk and waits until it is there.
func (c claim) write(f *os.File, d disk.Disk) error {
	b, err := c.encode(d.Block)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(b, claimOffset(d)); err != nil {
		return err
	}
	return f.Sync()
}

// holds says whether the disk is still as the claim left it. The claim's block
// lies where no one looks, so it outlives a disk's next owner: another
// system's installer writes a table of its own and never touches it.
//
// Once formatted, our partition must be in the table, or, when there is no
// table to be read, our file system where the partition was. Before that,
// nothing may be there but zeros and, block for block, what table writes.
func (c claim) holds(f io.ReaderAt, d *Data, table bool) (bool, error) {
	if c.State == formatted {
		if table {
			return d.Part.Index != 0, nil
		}
		sb, err := readSuperblock(f, layout.Align)
		return err == nil && sb.uuid == c.Part, nil
	}
	if table && d.Part.Index == 0 {
		return false, nil
	}
	image, err := c.tableImage(d.Disk)
	if err != nil {
		return false, err
	}
	for _, r := range [][2]int64{{0, layout.Align}, {c.Size - edge, edge}} {
		if r[0]+r[1] > d.Disk.Size {
			return false, nil
		}
		have := make([]byte, r[1])
		if _, err := f.ReadAt(have, r[0]); err != nil {
			return false, err
		}
		for at := int64(0); at < r[1]; at += 512 {
			block, off := have[at:at+512], r[0]+at
			if claimAt := claimOffset(d.Disk); off >= claimAt && off < claimAt+int64(d.Disk.Block) {
				continue
			}
			if !bytes.Equal(block, zeros[:512]) && !bytes.Equal(block, image.block(off)) {
				return false, nil
			}
		}
	}
	return true, nil
}
