// Package uki writes a unified kernel image: systemd's EFI stub with kernel, initramfs, command line and what they belong to as further PE
// sections. The same parts give the same bytes. It also reads one back. The sections are those of the UAPI Group's specification of UKIs.
package uki

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Parts are what a UKI carries beside the stub.
type Parts struct {
	OSRelease string // .osrel: os-release of the system that it starts
	Uname     string // .uname: the kernel's release
	Cmdline   string // .cmdline
	Kernel    []byte // .linux
	Initrd    []byte // .initrd
}

// sections in the order in which they lie: what a boot menu reads first.
func (p Parts) sections() []section {
	return []section{
		{".osrel", []byte(p.OSRelease)}, {".uname", []byte(p.Uname)}, {".cmdline", []byte(p.Cmdline)}, {".linux", p.Kernel}, {".initrd", p.Initrd},
	}
}

type section struct {
	name string
	data []byte
}

// Places in the headers (Microsoft's PE format, "Optional Header Windows-Specific Fields"), from the optional header's begin.
const (
	sectionAlign  = 32
	fileAlign     = 36
	sizeOfImage   = 56
	sizeOfHeaders = 60
	checkSum      = 64
)

const (
	sectionHeader = 40         // bytes
	readable      = 0x40000040 // IMAGE_SCN_CNT_INITIALIZED_DATA | IMAGE_SCN_MEM_READ
)

// Write adds the parts to the stub.
func Write(w io.Writer, stub []byte, p Parts) error {
	f, err := pe.NewFile(bytes.NewReader(stub))
	if err != nil {
		return fmt.Errorf("reading the stub: %w", err)
	}
	defer f.Close()
	if _, ok := f.OptionalHeader.(*pe.OptionalHeader64); !ok || len(f.Sections) == 0 {
		return errors.New("the stub is no 64-bit EFI program")
	}
	out := bytes.Clone(stub)
	coff := int(binary.LittleEndian.Uint32(out[0x3c:])) + 4
	optional := coff + 20
	table := optional + int(f.SizeOfOptionalHeader) + len(f.Sections)*sectionHeader
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(out[at:]) }
	set := func(at int, v uint32) { binary.LittleEndian.PutUint32(out[at:], v) }
	align, fileBlock := u32(optional+sectionAlign), u32(optional+fileAlign)

	add := p.sections()
	if room := (int(u32(optional+sizeOfHeaders)) - table) / sectionHeader; room < len(add) {
		return fmt.Errorf("the stub's header has room for %d more sections, not %d", room, len(add))
	}
	var next uint32 // virtual address
	for _, s := range f.Sections {
		next = max(next, up(s.VirtualAddress+s.VirtualSize, align))
	}
	out = pad(out, fileBlock)
	for i, s := range add {
		if f.Section(s.name) != nil {
			return fmt.Errorf("the stub has a section %s already", s.name)
		}
		if uint64(next)+uint64(len(s.data)) > 1<<31 {
			return fmt.Errorf("section %s makes the image larger than 2 GiB", s.name)
		}
		h := out[table+i*sectionHeader:][:sectionHeader]
		clear(h)
		copy(h, s.name)
		size := uint32(len(s.data))
		binary.LittleEndian.PutUint32(h[8:], size)
		binary.LittleEndian.PutUint32(h[12:], next)
		binary.LittleEndian.PutUint32(h[16:], up(size, fileBlock))
		binary.LittleEndian.PutUint32(h[20:], uint32(len(out)))
		binary.LittleEndian.PutUint32(h[36:], readable)
		out = pad(append(out, s.data...), fileBlock)
		next = up(next+size, align)
	}
	binary.LittleEndian.PutUint16(out[coff+2:], uint16(len(f.Sections)+len(add)))
	set(optional+sizeOfImage, next)
	set(optional+checkSum, 0) // firmware reads it of drivers only
	_, err = w.Write(out)
	return err
}

func up(n, to uint32) uint32 { return (n + to - 1) / to * to }

func pad(b []byte, to uint32) []byte {
	return append(b, make([]byte, up(uint32(len(b)), to)-uint32(len(b)))...)
}

// Read takes the parts out of a UKI.
func Read(r io.ReaderAt) (Parts, error) {
	var p Parts
	f, err := pe.NewFile(r)
	if err != nil {
		return p, fmt.Errorf("reading the UKI: %w", err)
	}
	defer f.Close()
	for name, to := range map[string]any{".osrel": &p.OSRelease, ".uname": &p.Uname, ".cmdline": &p.Cmdline, ".linux": &p.Kernel, ".initrd": &p.Initrd} {
		s := f.Section(name)
		if s == nil {
			return p, fmt.Errorf("this UKI has no section %s", name)
		}
		data, err := s.Data()
		if err != nil {
			return p, fmt.Errorf("reading section %s: %w", name, err)
		}
		data = data[:min(len(data), int(s.VirtualSize))]
		switch to := to.(type) {
		case *string:
			*to = string(data)
		case *[]byte:
			*to = data
		}
	}
	return p, nil
}
