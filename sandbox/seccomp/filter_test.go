package seccomp

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func no(e unix.Errno) int { return unix.SECCOMP_RET_ERRNO | int(e) }

// machine runs the compiled table as the kernel would.
func machine(t testing.TB) *bpf.VM {
	raw, err := Filter(Table)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 4096 { // BPF_MAXINSNS
		t.Fatalf("%d instructions", len(raw))
	}
	prog, all := bpf.Disassemble(raw)
	if !all {
		t.Fatal("not all instructions are known")
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

func verdict(t testing.TB, vm *bpf.VM, arch, nr uint32, args ...uint64) int {
	t.Helper()
	var data [64]byte // struct seccomp_data; the VM reads words as network bytes
	binary.BigEndian.PutUint32(data[offNumber:], nr)
	binary.BigEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[offArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[offArgs+8*i+4:], uint32(a>>32))
	}
	v, err := vm.Run(data[:])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCalls(t *testing.T) {
	vm := machine(t)
	const high = 1 << 32
	for _, c := range []struct {
		name string
		args []uint64
		want int
	}{
		{"read", nil, allow},
		{"execve", nil, allow},
		{"rseq_slice_yield", nil, allow},
		{"ptrace", nil, no(unix.EPERM)},
		{"io_uring_setup", nil, no(unix.EPERM)},
		{"keyctl", nil, no(unix.EPERM)},
		{"file_setattr", nil, no(unix.EPERM)},
		{"clone3", nil, no(unix.ENOSYS)},
		{"clone", []uint64{uint64(unix.SIGCHLD)}, allow},
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID}, allow},
		{"clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, no(unix.EPERM)},
		{"clone", []uint64{unix.CLONE_NEWNET}, no(unix.EPERM)},
		{"clone", []uint64{high | unix.CLONE_NEWNS}, no(unix.EPERM)},
		{"unshare", []uint64{unix.CLONE_FILES}, allow},
		{"unshare", []uint64{unix.CLONE_NEWTIME}, no(unix.EPERM)},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, allow},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK, 0}, allow},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, no(unix.EPERM)},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, no(unix.EPROTONOSUPPORT)},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, no(unix.EPROTONOSUPPORT)},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, allow},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, no(unix.EPROTONOSUPPORT)},
		{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, no(unix.EAFNOSUPPORT)},
		{"socket", []uint64{high | unix.AF_VSOCK, unix.SOCK_STREAM}, no(unix.EAFNOSUPPORT)},
		{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, no(unix.EAFNOSUPPORT)},
		{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, no(unix.EAFNOSUPPORT)},
		{"socketpair", []uint64{unix.AF_UNIX}, allow},
		{"socketpair", []uint64{unix.AF_TIPC}, no(unix.EAFNOSUPPORT)},
		{"ioctl", []uint64{0, unix.TCGETS}, allow},
		{"ioctl", []uint64{0, unix.TIOCSTI}, no(unix.EPERM)},
		{"ioctl", []uint64{0, high | unix.TIOCSTI}, no(unix.EPERM)},
		{"ioctl", []uint64{0, tioclinux}, no(unix.EPERM)},
		{"ioctl", []uint64{0, unix.TIOCSETD}, no(unix.EPERM)},
		{"ioctl", []uint64{0, fsSetXattr}, no(unix.EPERM)},
		{"ioctl", []uint64{0, fsSetFlags}, no(unix.EPERM)},
		{"ioctl", []uint64{0, high | fsSetFlags}, no(unix.EPERM)},
		{"ioctl", []uint64{0, unix.FICLONE}, allow},
		{"mknod", []uint64{0, unix.S_IFIFO | 0o600}, allow},
		{"mknod", []uint64{0, unix.S_IFCHR}, no(unix.EPERM)},
		{"mknodat", []uint64{0, 0, unix.S_IFBLK | 0o600}, no(unix.EPERM)},
		{"mknodat", []uint64{0, 0, unix.S_IFSOCK | 0o600}, allow},
		{"personality", []uint64{0xffffffff}, allow},
		{"personality", []uint64{0x0040000}, no(unix.EPERM)}, // ADDR_NO_RANDOMIZE
	} {
		if got := verdict(t, vm, unix.AUDIT_ARCH_X86_64, numbers[c.name], c.args...); got != c.want {
			t.Errorf("%s %#x: %#x, want %#x", c.name, c.args, got, c.want)
		}
	}
}

// Another architecture kills, x32 and what is newer than the table are absent.
func TestNumbers(t *testing.T) {
	vm := machine(t)
	if got := verdict(t, vm, unix.AUDIT_ARCH_I386, numbers["read"]); got != kill {
		t.Errorf("an i386 call: %#x", got)
	}
	for _, nr := range []uint32{x32Bit, x32Bit | numbers["write"], 472, 10_000, 337, 400, 0xffffffff} {
		if got := verdict(t, vm, unix.AUDIT_ARCH_X86_64, nr); got != no(unix.ENOSYS) {
			t.Errorf("call %#x: %#x", nr, got)
		}
	}
}

// Every call that x/sys knows has been decided upon, once.
func TestEveryCallHasARow(t *testing.T) {
	rows := map[string]int{}
	for _, row := range Table {
		if row.Why == "" || len(row.Refusals) > 0 && row.Verdict != Allow {
			t.Errorf("row of %s has no reason, or refusals that say nothing", row.Calls)
		}
		for name := range strings.FieldsSeq(row.Calls) {
			rows[name]++
		}
	}
	byNumber := map[uint32]string{}
	for name, nr := range numbers {
		if rows[name] != 1 {
			t.Errorf("%s stands in %d rows", name, rows[name])
		}
		if other, twice := byNumber[nr]; twice {
			t.Errorf("%s and %s are both %d", name, other, nr)
		}
		byNumber[nr] = name
	}
	for nr := range uint32(472) {
		if (nr < 335 || nr >= 424) && byNumber[nr] == "" {
			t.Errorf("call %d is unknown", nr)
		}
	}
}

// What the table refuses is refused whatever the arguments are, and nothing
// falls between the ranges.
func TestVerdicts(t *testing.T) {
	vm := machine(t)
	for _, row := range Table {
		if len(row.Refusals) > 0 {
			continue
		}
		want := map[Verdict]int{Allow: allow, Refuse: no(unix.EPERM), Absent: no(unix.ENOSYS)}[row.Verdict]
		for name := range strings.FieldsSeq(row.Calls) {
			for _, arg := range []uint64{0, ^uint64(0), unix.TIOCSTI} {
				if got := verdict(t, vm, unix.AUDIT_ARCH_X86_64, numbers[name], arg, arg, arg); got != want {
					t.Errorf("%s: %#x, want %#x", name, got, want)
				}
			}
		}
	}
}

func TestWrongTable(t *testing.T) {
	for _, rows := range [][]Row{{{Allow, "", "read reed", nil}}, {{Allow, "", "read", nil}, {Refuse, "", "read", nil}}} {
		if _, err := Filter(rows); err == nil {
			t.Errorf("%v compiles", rows)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	for b.Loop() {
		if _, err := Filter(Table); err != nil {
			b.Fatal(err)
		}
	}
}
