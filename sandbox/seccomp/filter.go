package seccomp

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data of a little-endian machine.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16 // the low half of argument 0; 8 bytes each
)

const x32Bit = 0x40000000 // set in the number of every call of the x32 ABI

// Filter compiles a table to the program that box-init loads. It finds a call's number
// by halving: the kernel runs the program once for each number as it is loaded, to know
// which calls need it at all, and for those that do each time.
func Filter(table []Row) ([]bpf.RawInstruction, error) {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AUDIT_ARCH_X86_64, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		errno(unix.ENOSYS),
	}
	rows := map[uint32]Row{}
	seen := map[string]bool{}
	for _, row := range table {
		for _, name := range row.Names() {
			nr, known := numbers[name]
			if !known || seen[name] {
				return nil, fmt.Errorf("seccomp table: %s is unknown or stands there twice", name)
			}
			seen[name] = true
			rows[nr] = row
		}
	}
	return bpf.Assemble(append(prog, halves(pieces(rows))...))
}

// A piece is the numbers from one on, up to the next piece, that get the same answer.
type piece struct {
	from uint32
	code []bpf.Instruction
}

// pieces cuts all numbers that there may be; those without a row don't exist.
func pieces(rows map[uint32]Row) []piece {
	out := []piece{{0, []bpf.Instruction{errno(unix.ENOSYS)}}}
	add := func(from uint32, code []bpf.Instruction) {
		last := &out[len(out)-1]
		switch {
		case slices.Equal(last.code, code):
		case last.from == from:
			last.code = code
		default:
			out = append(out, piece{from, code})
		}
	}
	for _, nr := range slices.Sorted(maps.Keys(rows)) {
		add(nr, rows[nr].code())
		if _, ok := rows[nr+1]; !ok {
			add(nr+1, []bpf.Instruction{errno(unix.ENOSYS)})
		}
	}
	return out
}

// halves jumps to the code of the piece that holds the number in the accumulator.
func halves(all []piece) []bpf.Instruction {
	if len(all) == 1 {
		return all[0].code
	}
	mid := len(all) / 2
	low, high := halves(all[:mid]), halves(all[mid:])
	if len(low) <= 0xff {
		return slices.Concat([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[mid].from, SkipTrue: uint8(len(low))}}, low, high)
	}
	return slices.Concat([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: all[mid].from, SkipFalse: 1}, bpf.Jump{Skip: uint32(len(low))}}, low, high)
}

// Available tells why this kernel can't load a filter as Filter makes them, nil when it can.
func Available() error {
	for _, action := range []uint32{unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_KILL_PROCESS} {
		_, _, no := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
		if no != 0 {
			return fmt.Errorf("this kernel has no filters for system calls (CONFIG_SECCOMP_FILTER): %w", no)
		}
	}
	return nil
}

func errno(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

// code answers a call of the row. It ends in an answer.
func (r Row) code() []bpf.Instruction {
	switch r.Verdict {
	case Refuse:
		return []bpf.Instruction{errno(unix.EPERM)}
	case Absent:
		return []bpf.Instruction{errno(unix.ENOSYS)}
	}
	var body []bpf.Instruction
	for _, f := range r.Refusals {
		body = append(body, f.code()...)
	}
	return append(body, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
}

// code returns Errno when all conditions hold, else falls out at its end. It is
// built from there, since BPF jumps forward only.
func (r Refusal) code() []bpf.Instruction {
	tail := []bpf.Instruction{errno(r.Errno)}
	for _, c := range slices.Backward(r.When) {
		block := []bpf.Instruction{
			bpf.LoadAbsolute{Off: offArgs + 8*uint32(c.Arg), Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.Mask},
		}
		for i, v := range c.Values {
			left := len(c.Values) - 1 - i // comparisons that follow
			if c.Not {
				block = append(block, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(left + len(tail))})
			} else {
				block = append(block, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(left + 1)})
			}
		}
		if !c.Not {
			block = append(block, bpf.Jump{Skip: uint32(len(tail))})
		}
		tail = append(block, tail...)
	}
	return tail
}
