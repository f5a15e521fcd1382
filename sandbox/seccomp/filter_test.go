package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

func no(e unix.Errno) int { return unix.SECCOMP_RET_ERRNO | int(e) }

// machine runs the compiled table as the kernel would.
func machine(t testing.TB, table []Row) *bpf.VM {
	raw, err := Filter(table)
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

const high = 1 << 32

// The calls that are refused, and those that are not there, whatever their arguments are. All others are made, with some arguments at least.
const (
	refused = "mount umount2 pivot_root chroot mount_setattr move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick " +
		"statmount listmount listns setns io_uring_setup io_uring_enter io_uring_register bpf perf_event_open uprobe uretprobe " +
		"userfaultfd memfd_secret ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp " +
		"migrate_pages move_pages mbind set_mempolicy_home_node add_key request_key keyctl name_to_handle_at open_by_handle_at " +
		"fanotify_init fanotify_mark quotactl quotactl_fd file_setattr syslog settimeofday clock_settime clock_adjtime adjtimex " +
		"init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct iopl ioperm vhangup " +
		"sethostname setdomainname modify_ldt lsm_get_self_attr lsm_set_self_attr lsm_list_modules"
	absent = "clone3 io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall " +
		"tuxcall security set_thread_area get_thread_area lookup_dcookie epoll_ctl_old epoll_wait_old remap_file_pages vserver"
)

// calls are calls with arguments, and what they get.
var calls = []struct {
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
	{"socket", []uint64{unix.AF_RXRPC, unix.SOCK_DGRAM, unix.AF_INET}, no(unix.EAFNOSUPPORT)},
	{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM}, no(unix.EPROTONOSUPPORT)},
	{"sendto", []uint64{3, 0, 1, unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT}, allow},
	{"sendto", []uint64{3, 0, 1, unix.MSG_OOB | unix.MSG_NOSIGNAL}, no(unix.EPERM)},
	{"sendto", []uint64{3, 0, 1, high | unix.MSG_OOB}, no(unix.EPERM)},
	{"sendmmsg", []uint64{3, 0, 1, unix.MSG_OOB}, no(unix.EPERM)},
	{"sendmsg", []uint64{3, 0, unix.MSG_OOB}, no(unix.EPERM)},
	{"sendmsg", []uint64{3, 0, 0, unix.MSG_OOB}, allow},
	{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.TCP_ULP}, allow},
	{"setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_NODELAY}, allow},
	{"setsockopt", []uint64{3, unix.SOL_TCP, unix.TCP_ULP}, no(unix.EPERM)},
	{"setsockopt", []uint64{3, high | unix.SOL_TCP, high | unix.TCP_ULP}, no(unix.EPERM)},
	{"setsockopt", []uint64{3, unix.SOL_UDP, unix.UDP_ENCAP}, no(unix.EPERM)},
	{"setsockopt", []uint64{3, unix.SOL_SOCKET, unix.UDP_ENCAP}, allow},
	{"setsockopt", []uint64{3, unix.SOL_UDP, 103}, allow}, // UDP_SEGMENT
	{"socket", []uint64{unix.AF_INET6, unix.SOCK_RAW, 0}, no(unix.EPERM)},
	{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 5}, allow},
	{"socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, no(unix.EPROTONOSUPPORT)},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP}, allow},
	{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, allow},
	{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, allow},
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
	{"ioctl", []uint64{0, unix.TIOCCONS}, no(unix.EPERM)},
	{"ioctl", []uint64{0, fsSetFlags32}, no(unix.EPERM)},
	{"ioctl", []uint64{0, unix.FS_IOC_SET_ENCRYPTION_POLICY}, no(unix.EPERM)},
	{"ioctl", []uint64{0, unix.FS_IOC_ADD_ENCRYPTION_KEY}, no(unix.EPERM)},
	{"ioctl", []uint64{0, fsVerity}, no(unix.EPERM)},
	{"ioctl", []uint64{0, unix.FICLONE}, allow},
	{"mknod", []uint64{0, unix.S_IFIFO | 0o600}, allow},
	{"mknod", []uint64{0, unix.S_IFCHR}, no(unix.EPERM)},
	{"mknod", []uint64{0, unix.S_IFBLK | 0o600}, no(unix.EPERM)},
	{"mknodat", []uint64{0, 0, unix.S_IFCHR}, no(unix.EPERM)},
	{"mknodat", []uint64{0, 0, unix.S_IFBLK | 0o600}, no(unix.EPERM)},
	{"mknodat", []uint64{0, 0, unix.S_IFSOCK | 0o600}, allow},
	{"personality", []uint64{0xffffffff}, allow},
	{"personality", []uint64{0x0040000}, no(unix.EPERM)}, // ADDR_NO_RANDOMIZE
}

// missed lists the calls that get something else from a table than they should.
func missed(t testing.TB, table []Row) (list []string) {
	vm := machine(t, table)
	for _, c := range calls {
		if got := verdict(t, vm, unix.AUDIT_ARCH_X86_64, numbers[c.name], c.args...); got != c.want {
			list = append(list, fmt.Sprintf("%s %#x: %#x, want %#x", c.name, c.args, got, c.want))
		}
	}
	for name, nr := range numbers {
		want := allow
		switch {
		case slices.Contains(strings.Fields(refused), name):
			want = no(unix.EPERM)
		case slices.Contains(strings.Fields(absent), name):
			want = no(unix.ENOSYS)
		case name == "socket": // family 0 is nobody's
			want = no(unix.EAFNOSUPPORT)
		case name == "socketpair":
			want = no(unix.EAFNOSUPPORT)
		}
		if got := verdict(t, vm, unix.AUDIT_ARCH_X86_64, nr); got != want {
			list = append(list, fmt.Sprintf("%s: %#x, want %#x", name, got, want))
		}
	}
	return list
}

func TestCalls(t *testing.T) {
	for _, m := range missed(t, Table) {
		t.Error(m)
	}
}

// Without any one row, refusal, condition or value of the table, a call gets something else than it should: each is tried.
func TestEachRuleIsTried(t *testing.T) {
	without := 0
	try := func(what string, change func(*Row), row int) {
		t.Helper()
		table := slices.Clone(Table)
		change(&table[row])
		without++
		if len(missed(t, table)) == 0 {
			t.Errorf("without %s every call gets what it should", what)
		}
	}
	for i, row := range Table {
		if row.Verdict != Allow {
			try("the row of "+row.Calls, func(r *Row) { r.Verdict = Allow }, i)
		}
		for j, refusal := range row.Refusals {
			cut := func(change func(*Refusal)) func(*Row) {
				return func(r *Row) {
					r.Refusals = slices.Clone(r.Refusals)
					r.Refusals[j].When = slices.Clone(r.Refusals[j].When)
					change(&r.Refusals[j])
				}
			}
			what := fmt.Sprintf("refusal %d of %s", j, row.Calls)
			try(what, func(r *Row) { r.Refusals = slices.Delete(slices.Clone(r.Refusals), j, j+1) }, i)
			for k, cond := range refusal.When {
				if len(refusal.When) > 1 {
					try(fmt.Sprintf("condition %d of %s", k, what), cut(func(r *Refusal) { r.When = slices.Delete(r.When, k, k+1) }), i)
				}
				for v, value := range cond.Values {
					if len(cond.Values) > 1 {
						try(fmt.Sprintf("value %#x of %s", value, what), cut(func(r *Refusal) { r.When[k].Values = slices.Delete(slices.Clone(cond.Values), v, v+1) }), i)
					}
				}
			}
		}
	}
	t.Logf("%d rules were left out, one at a time", without)
}

// Another architecture kills, x32 and what is newer than the table are absent.
func TestNumbers(t *testing.T) {
	vm := machine(t, Table)
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
	vm := machine(t, Table)
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

// A kernel without filters is told apart: one whose call for them is not there.
func TestAvailable(t *testing.T) {
	if err := Available(); err != nil {
		t.Error(err)
	}
	var rows []Row
	for name := range numbers {
		rows = append(rows, Row{Calls: name})
		if name == "seccomp" {
			rows[len(rows)-1].Verdict = Absent
		}
	}
	raw, err := Filter(rows)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the filter is the thread's, which ends with it
		prog := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			said <- err
			return
		}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
			said <- err
			return
		}
		said <- Available()
	}()
	if err := <-said; err == nil || !strings.Contains(err.Error(), "CONFIG_SECCOMP_FILTER") {
		t.Error(err)
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
