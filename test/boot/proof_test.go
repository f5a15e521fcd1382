package boot

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"gurtos/image/build"
	"gurtos/image/qemu"
	"gurtos/initramfs"
	"gurtos/test/boot/box"
	"gurtos/test/boot/nbd"
)

const recordSize = 4096

// The power cut has to be seen to lose what a program forgot to sync, or no
// other test of this folder proves anything; and to lose nothing that was.
func TestPowerCutLosesWhatWasNotSynced(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r := box.Seed(t)
	img := box.Built(t)
	initrd := proofInitrd(t, img)
	disks := map[string]*nbd.Disk{"raw-forgets": nbd.New(64 << 20), "raw-careful": nbd.New(64 << 20), "files": xfsDisk(t)}

	rounds := strconv.Itoa(30 + r.IntN(40))
	vm := startProof(t, ctx, img, initrd, "write", disks)
	waitFor(t, ctx, vm, `round `+rounds+`\r?\n`)
	said := regexp.MustCompile(`round (\d+)\r?\n`).FindAllStringSubmatch(vm.Serial.Text(0), -1)
	acked, _ := strconv.Atoi(said[len(said)-1][1])
	for _, d := range disks {
		d.PowerOff()
	}
	vm.Kill()

	// The guest's flushes reach the disk, and nothing else makes one.
	if c := disks["raw-forgets"].Count(); c.Flushes+c.FUA > 0 || c.Writes < acked {
		t.Errorf("the disk that is never flushed was sent %+v", c)
	}
	if c := disks["raw-careful"].Count(); c.Flushes+c.FUA < acked {
		t.Errorf("the disk that is flushed %d times was sent %+v", acked, c)
	}

	// What killing QEMU alone would have shown: nothing is ever lost.
	if missing := missing(t, disks["raw-forgets"].Clone(), acked); len(missing) > 0 {
		t.Errorf("records %v never reached the disk: a killed QEMU alone would have lost them, and nothing is proved", missing)
	}
	const cuts = 100
	lost := 0
	for range cuts {
		seed := r.Uint64()
		after, loss := disks["raw-forgets"].Cut(seed)
		if len(missing(t, after, acked)) > 0 {
			lost++
		}
		after, loss = disks["raw-careful"].Cut(seed)
		if missing := missing(t, after, acked); len(missing) > 0 {
			t.Fatalf("%v: flushed records %v of %d are gone", loss, missing, acked)
		}
	}
	t.Logf("of %d cuts at record %d, %d lost records that were written without a flush", cuts, acked, lost)
	if lost < cuts/10 {
		t.Errorf("only %d of %d cuts lost unflushed records", lost, cuts)
	}

	// The file system after six cuts, looked at by one more guest.
	after := map[string]*nbd.Disk{}
	for i := range 6 {
		disk, loss := disks["files"].Cut(r.Uint64())
		t.Logf("files-%d: %v", i, loss)
		after[fmt.Sprintf("files-%d", i)] = disk
	}
	vm = startProof(t, ctx, img, initrd, "read", after)
	waitFor(t, ctx, vm, `all read\r?\n`)
	forgot := 0
	seen := regexp.MustCompile(`left (\{.*\})`).FindAllStringSubmatch(vm.Serial.Text(0), -1)
	if len(seen) != len(after) {
		t.Fatalf("%d of %d disks were looked at", len(seen), len(after))
	}
	for _, m := range seen {
		var left struct {
			Disk  string
			Whole map[string][]int
		}
		if err := json.Unmarshal([]byte(m[1]), &left); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= acked; n++ {
			if !slices.Contains(left.Whole["careful"], n) {
				t.Errorf("%s: file %d was synced and isn't whole", left.Disk, n)
			}
			if !slices.Contains(left.Whole["forgets"], n) {
				forgot++
			}
		}
	}
	t.Logf("of %d files that were saved without a sync, %d are gone or damaged", len(seen)*acked, forgot)
	if forgot == 0 {
		t.Error("no file that was saved without a sync was lost")
	}
}

// missing lists the records up to last that aren't whole on a raw disk.
func missing(t *testing.T, d *nbd.Disk, last int) (list []int) {
	t.Helper()
	p := make([]byte, recordSize)
	for n := 1; n <= last; n++ {
		if _, err := d.ReadAt(p, int64(n)*recordSize); err != nil {
			t.Fatal(err)
		}
		body, sum := p[:recordSize-sha256.Size], p[recordSize-sha256.Size:]
		if want := sha256.Sum256(body); string(sum) != string(want[:]) {
			list = append(list, n)
		}
	}
	return list
}

func startProof(t *testing.T, ctx context.Context, img build.Image, initrd, what string, disks map[string]*nbd.Disk) *qemu.VM {
	t.Helper()
	m := qemu.Machine{
		Dir: filepath.Join(box.Keep(t), what), MemoryMB: 512, NoNet: true, NoReboot: true,
		Kernel: img.Kernel, Initrd: initrd, Cmdline: "console=ttyS0 quiet loglevel=3 panic=-1 proof=" + what,
	}
	for serial, d := range disks {
		socket := filepath.Join(t.TempDir(), "s")
		s, err := nbd.Serve(d, socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		m.Disks = append(m.Disks, qemu.Disk{NBD: socket, Serial: serial})
	}
	vm, err := qemu.Start(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(vm.Kill)
	return vm
}

func waitFor(t *testing.T, ctx context.Context, vm *qemu.VM, pattern string) {
	t.Helper()
	if _, _, err := vm.Serial.Wait(ctx, 0, regexp.MustCompile(pattern)); err != nil {
		t.Fatal(err)
	}
}

// xfsDisk is a disk with nothing but an empty XFS.
func xfsDisk(t *testing.T) *nbd.Disk {
	t.Helper()
	file := filepath.Join(t.TempDir(), "xfs")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 320<<20); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("mkfs.xfs", "-q", file).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.xfs (Debian's xfsprogs): %v\n%s", err, text)
	}
	d, err := nbd.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// proofInitrd builds the guest program and puts it into an initramfs with the
// drivers that it loads.
func proofInitrd(t *testing.T, img build.Image) string {
	t.Helper()
	dir := t.TempDir()
	tree := initramfs.New()
	tree.File("/init", box.GoBuild(t, "gurtos/test/boot/proof"), 0o755)
	box.AddModules(t, tree, img, "xfs", "virtio_blk", "crc32c_generic")
	file := filepath.Join(dir, "initrd")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := tree.Write(f); err != nil {
		t.Fatal(err)
	}
	return file
}
