package uki

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
)

// stub builds a PE32+ file with sections as an EFI stub has them, and room in its header for spare more.
func stub(spare int, names ...string) []byte {
	const lfanew, optional = 0x40, 240
	headers := up(uint32(lfanew+24+optional+(len(names)+spare)*sectionHeader), 0x200)
	for (int(headers)-lfanew-24-optional)/sectionHeader > len(names)+spare { // exactly the room asked for
		headers--
	}
	b := make([]byte, headers)
	put16 := func(at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }
	put32 := func(at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }
	copy(b, "MZ")
	put32(0x3c, lfanew)
	copy(b[lfanew:], "PE\x00\x00")
	put16(lfanew+4, 0x8664)
	put16(lfanew+6, uint16(len(names)))
	put16(lfanew+20, optional)
	o := lfanew + 24
	put16(o, 0x20b)
	put32(o+sectionAlign, 0x1000)
	put32(o+fileAlign, 0x200)
	put32(o+sizeOfHeaders, headers)
	put32(o+checkSum, 0xdeadbeef)
	put32(o+108, 16) // data directories
	b = pad(b, 0x200)
	for i, n := range names {
		h := o + optional + i*sectionHeader
		copy(b[h:h+8], n)
		put32(h+8, 0x123)
		put32(h+12, uint32(0x1000*(i+1)))
		put32(h+16, 0x200)
		put32(h+20, uint32(len(b)))
		b = append(b, bytes.Repeat([]byte{byte(i + 1)}, 0x200)...)
		put32 = func(at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	return b
}

var parts = Parts{
	OSRelease: "ID=gurtos\n", Uname: "6.12.1", Cmdline: "console=ttyS0 quiet",
	Kernel: bytes.Repeat([]byte("kernel"), 5000), Initrd: bytes.Repeat([]byte{7}, 70001),
}

func TestReadBack(t *testing.T) {
	var first, second bytes.Buffer
	in := stub(5, ".text", ".sbat")
	if err := Write(&first, in, parts); err != nil {
		t.Fatal(err)
	}
	if err := Write(&second, in, parts); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same parts gave other bytes")
	}
	got, err := Read(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, parts) {
		t.Errorf("read back: %.80q…", got)
	}
}

// TestLoads holds what firmware's loader goes by: sections in order, aligned, not overlapping, within the image's size; the stub's own untouched.
func TestLoads(t *testing.T) {
	var out bytes.Buffer
	in := stub(5, ".text", ".sbat")
	if err := Write(&out, in, parts); err != nil {
		t.Fatal(err)
	}
	f, err := pe.NewFile(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	o := f.OptionalHeader.(*pe.OptionalHeader64)
	if o.CheckSum != 0 {
		t.Errorf("checksum %x of the stub stayed", o.CheckSum)
	}
	var end, fileEnd uint32
	for _, s := range f.Sections {
		if s.VirtualAddress%o.SectionAlignment != 0 || s.Offset%o.FileAlignment != 0 || s.Size%o.FileAlignment != 0 {
			t.Errorf("%s at %x, in the file at %x with %x bytes, is not aligned", s.Name, s.VirtualAddress, s.Offset, s.Size)
		}
		if s.VirtualAddress < end || s.Offset < fileEnd {
			t.Errorf("%s overlaps the one before", s.Name)
		}
		end, fileEnd = s.VirtualAddress+s.VirtualSize, s.Offset+s.Size
	}
	if o.SizeOfImage != up(end, o.SectionAlignment) {
		t.Errorf("image size %x, want %x", o.SizeOfImage, up(end, o.SectionAlignment))
	}
	if int(fileEnd) != out.Len() {
		t.Errorf("the file has %d bytes, its sections end at %d", out.Len(), fileEnd)
	}
	text, err := f.Section(".text").Data()
	if err != nil || !bytes.Equal(text, bytes.Repeat([]byte{1}, 0x200)) {
		t.Errorf("the stub's own code changed (%v)", err)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		holds string
		stub  []byte
		want  string
	}{
		{"no PE file", []byte("hello"), "reading the stub"},
		{"a header without room", stub(4, ".text"), "room for 4 more sections, not 5"},
		{"a UKI as stub", stub(5, ".text", ".linux"), ".linux already"},
	} {
		if err := Write(&bytes.Buffer{}, c.stub, parts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.holds, err)
		}
	}
	if _, err := Read(bytes.NewReader(stub(0, ".text"))); err == nil || !strings.Contains(err.Error(), "has no section") {
		t.Errorf("a plain program read as UKI: %v", err)
	}
}
