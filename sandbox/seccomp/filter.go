package seccomp

import (
	"fmt"
	"slices"

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

// Filter compiles a table to the program that box-init loads.
func Filter(table []Row) ([]bpf.RawInstruction, error) {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AUDIT_ARCH_X86_64, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		errno(unix.ENOSYS),
	}
	var allowed, refused []uint32
	seen := map[string]bool{}
	for _, row := range table {
		for _, name := range row.Names() {
			nr, known := numbers[name]
			if !known || seen[name] {
				return nil, fmt.Errorf("seccomp table: %s is unknown or stands there twice", name)
			}
			seen[name] = true
			switch {
			case row.Verdict == Refuse:
				refused = append(refused, nr)
			case row.Verdict == Allow && len(row.Refusals) > 0:
				prog = append(prog, guarded(nr, row.Refusals)...)
			case row.Verdict == Allow:
				allowed = append(allowed, nr)
			}
		}
	}
	prog = append(prog, ranges(allowed, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})...)
	prog = append(prog, ranges(refused, errno(unix.EPERM))...)
	prog = append(prog, errno(unix.ENOSYS))
	return bpf.Assemble(prog)
}

func errno(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

// guarded answers call nr by its refusals, else allows it; other calls go past.
func guarded(nr uint32, refusals []Refusal) []bpf.Instruction {
	var body []bpf.Instruction
	for _, r := range refusals {
		body = append(body, r.code()...)
	}
	body = append(body, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipTrue: 1}, bpf.Jump{Skip: uint32(len(body))}}, body...)
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

// ranges returns then for the numbers, which it merges where they follow one
// another; the accumulator holds the number.
func ranges(nrs []uint32, then bpf.Instruction) []bpf.Instruction {
	slices.Sort(nrs)
	var out []bpf.Instruction
	for i := 0; i < len(nrs); {
		j := i
		for j+1 < len(nrs) && nrs[j+1] == nrs[j]+1 {
			j++
		}
		if i == j {
			out = append(out, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nrs[i], SkipTrue: 1}, then)
		} else {
			out = append(out, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: nrs[i], SkipTrue: 2},
				bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: nrs[j], SkipTrue: 1}, then)
		}
		i = j + 1
	}
	return out
}
