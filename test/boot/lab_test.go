package boot

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gurtos/test/boot/box"
	"gurtos/test/boot/nbd"
	"gurtos/test/daemon"
)

const recordSize = 4096

// TestLab is what needs the box's kernel and no box, in one small guest. It
// comes first: what the power cut proves elsewhere rests on it.
func TestLab(t *testing.T) {
	box.Built(t) // before all that is built for the lab
	r := daemon.Seed(t)
	disks := map[string]*nbd.Disk{
		"raw-forgets": nbd.New(64 << 20), "raw-careful": nbd.New(64 << 20), "files": xfsDisk(t, 320<<20), "data": xfsDisk(t, 2<<30),
	}
	late := map[string]*nbd.Disk{}
	for i := range 6 {
		late[fmt.Sprintf("files-%d", i)] = nbd.New(320 << 20)
	}
	s := box.LabSetup{
		Disks: disks, Late: late, Modules: append([]string{"loop", "tun", "dummy", "nfnetlink"}, netModules...), MemoryMB: 1536,
		Programs: guestTests(t),
	}
	lab := box.StartLab(t, s)
	t.Run("a cut loses what was not synced", func(t *testing.T) { cutIsHonest(t, r, lab, disks) })
	for _, m := range netModules {
		lab.Do(time.Minute, "load "+m)
	}
	lab.Do(time.Minute, "load xfs", "load loop", "load tun", "mount xfs data /data prjquota", "mount erofs tasks /tasks ro", "machine")
	runGuestTests(t, lab)
	// Nothing that sandboxes left holds the data disk (runc 5537, 5581).
	t.Run("the data disk comes off", func(t *testing.T) { lab.Do(time.Minute, "umount /data") })
}

// netModules are what tasks' networks are made of, and what tells whose a connection is.
var netModules = []string{"nf_tables", "nft_chain_nat", "nft_ct", "nft_limit", "nft_log", "nft_redir", "nfnetlink_log", "inet_diag", "tcp_diag"}

// The power cut has to be seen to lose what a program forgot to sync, or no
// other test of this folder proves anything; and to lose nothing that was.
func cutIsHonest(t *testing.T, r *rand.Rand, lab *box.Lab, disks map[string]*nbd.Disk) {
	lab.Do(time.Minute, "load xfs")
	lab.Send("write")
	lab.Wait(fmt.Sprintf(`round %d\r?\n`, 30+r.IntN(40)), time.Minute)
	said := regexp.MustCompile(`round (\d+)\r?\n`).FindAllStringSubmatch(lab.VM.Serial.Text(0), -1)
	acked, _ := strconv.Atoi(said[len(said)-1][1])
	written := []*nbd.Disk{disks["raw-forgets"], disks["raw-careful"], disks["files"]}
	for _, d := range written {
		d.PowerOff()
	}
	lab.Wait(`lab: failed: [^\n]*\n`, time.Minute) // the writer runs into disks without power

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
		after, _ := disks["raw-forgets"].Cut(seed)
		if len(missing(t, after, acked)) > 0 {
			lost++
		}
		after, loss := disks["raw-careful"].Cut(seed)
		if missing := missing(t, after, acked); len(missing) > 0 {
			t.Fatalf("%v: flushed records %v of %d are gone", loss, missing, acked)
		}
	}
	t.Logf("of %d cuts at record %d, %d lost records that were written without a flush", cuts, acked, lost)
	if lost < cuts/10 {
		t.Errorf("only %d of %d cuts lost unflushed records", lost, cuts)
	}

	// The file system after six cuts, as disks that the guest has never seen.
	for i := range 6 {
		disk, loss := disks["files"].Cut(r.Uint64())
		serial := fmt.Sprintf("files-%d", i)
		t.Logf("%s: %v", serial, loss)
		if err := lab.Server(serial).Swap(disk); err != nil {
			t.Fatal(err)
		}
	}
	seen := regexp.MustCompile(`left (\{.*\})`).FindAllStringSubmatch(lab.Do(time.Minute, "load nvme", "read"), -1)
	if len(seen) != 6 {
		t.Fatalf("%d of 6 disks were looked at", len(seen))
	}
	forgot := 0
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

// inGuest are packages whose tests want the box's kernel: cgroup v2, and an XFS
// with project quotas at /data. The short form leaves out what a developer's
// machine shows as well.
var inGuest = []struct {
	pkg   string
	cgo   bool
	args  string
	short string // tests of the short form, "" for all
}{
	{"gurtos/boot/mounts", false, "-test.run TestProtectOnTheKernel", ""},
	{"gurtos/sandbox/quota", false, "-xfs /data", ""},
	{"gurtos/sandbox/layers", false, "", "TestMountedView|TestSealedLayer|TestParallelTasks"},
	{"gurtos/sandbox", true, "", "TestSurroundings|TestLayers|TestExit|TestDisk|TestFreeze|TestBytes|TestServe|TestShared|TestLimitsInPlace|TestTogether|TestPressure"},
	{"gurtos/test/hostile", true, "-test.skip TestSources|TestSecurityNames", ""}, // those two read the source tree
	{"gurtos/test/scale", true, "", "TestManyTasks|TestKilledAnywhere"},
}

func testName(pkg string) string {
	return strings.ReplaceAll(strings.TrimPrefix(pkg, "gurtos/"), "/", "-")
}

// guestTests builds the tests and the programs that they need.
func guestTests(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{
		"tools/worker":   box.GoBuild(t, "gurtos/cmd/worker"),
		"tools/box-init": boxInit(t),
		"tools/attempts": gcc(t, "test/hostile/attempts.c"),
		"tools/hog":      gcc(t, "sandbox/hog.c"),
		"tools/boxd":     box.GoStatic(t, "gurtos/cmd/boxd"),
	}
	for _, p := range inGuest {
		if asked(testName(p.pkg)) {
			files["tests/"+testName(p.pkg)] = box.GoTest(t, p.pkg, p.cgo)
		}
	}
	return files
}

// asked says whether go test's -run, such as TestLab$/sandbox-quota, wants a subtest of TestLab: others aren't built.
func asked(subtest string) bool {
	_, pattern, some := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	match, err := regexp.MatchString(pattern, subtest)
	return !some || err != nil || match
}

func boxInit(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "box-init")
	cmd := exec.Command("gcc", "@sandbox/boxinit/gcc.args", "-o", file)
	cmd.Dir = box.Root()
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc box-init: %v\n%s", err, text)
	}
	return file
}

func gcc(t *testing.T, source string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if text, err := exec.Command("gcc", "-static", "-O1", "-o", file, filepath.Join(box.Root(), source)).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", source, err, text)
	}
	return file
}

var verdict = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// unproven is how the hostile tests print attempts whose control failed too.
var unproven = regexp.MustCompile(`(?m)\d+ attempts, unproven: .*$`)

// runGuestTests runs them, and makes each a test of this run.
func runGuestTests(t *testing.T, lab *box.Lab) {
	for _, p := range inGuest {
		t.Run(testName(p.pkg), func(t *testing.T) {
			args := p.args + " -test.v -test.timeout=20m"
			if !long() && p.short != "" {
				args += " -test.short -test.run " + p.short
			}
			said, ok := lab.Try(5*time.Minute, "run /tmp /tests/"+testName(p.pkg)+" "+args)
			found := verdict.FindAllStringSubmatch(said, -1)
			if len(found) == 0 {
				t.Fatalf("no test ran: %s", said)
			}
			for _, v := range found {
				if v[1] != "FAIL" || strings.Contains(v[2], "/") {
					continue
				}
				t.Errorf("%s failed in the guest", v[2])
			}
			if !ok {
				t.Errorf("it ended badly:\n%s", said)
			}
			for _, line := range unproven.FindAllString(said, -1) {
				t.Log("in the guest: ", line)
			}
			t.Logf("%d tests and subtests ran in the guest", len(found))
		})
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

// xfsDisk is a disk with nothing but an empty XFS.
func xfsDisk(t *testing.T, size int64) *nbd.Disk {
	t.Helper()
	file := filepath.Join(t.TempDir(), "xfs")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
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
