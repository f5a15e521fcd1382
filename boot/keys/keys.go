package keys

import (
	"context"
	"encoding/binary"
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"gurtos/boot/guard"
)

// A Key is one that is listened for, by its code in linux/input-event-codes.h.
type Key uint16

// The keys.
const (
	Enter   Key = 28
	KPEnter Key = 96
	Power   Key = 116
)

const (
	evKey     = 1
	pressed   = 1
	eventSize = 24 // struct input_event on 64 bits: two longs, type, code, value
)

// A Keyboard reads all input devices that have one of the keys.
type Keyboard struct {
	Log   *log.Logger
	Press func(Key)

	mu   sync.Mutex
	open map[string]bool
}

// Look opens the devices in dir (/dev/input) that are not open yet, and reads
// them until ctx ends or they go.
func (k *Keyboard) Look(ctx context.Context, dir string) {
	nodes, _ := filepath.Glob(filepath.Join(dir, "event*"))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open == nil {
		k.open = map[string]bool{}
	}
	for _, node := range nodes {
		if k.open[node] {
			continue
		}
		f, err := os.OpenFile(node, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // gone again
		}
		if !hasKeys(f) {
			f.Close()
			continue
		}
		k.open[node] = true
		guard.Go("reading keys", func() { k.read(ctx, f) })
	}
}

// hasKeys asks a device for the keys it has (EVIOCGBIT of EV_KEY).
func hasKeys(f *os.File) bool {
	var bits [96]byte
	request := uintptr(2)<<30 | uintptr(len(bits))<<16 | 'E'<<8 | (0x20 + evKey)
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	_ = raw.Control(func(fd uintptr) {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(&bits)))
		ok = errno == 0
	})
	if !ok {
		return false
	}
	for _, key := range []Key{Enter, KPEnter, Power} {
		if bits[key/8]&(1<<(key%8)) != 0 {
			return true
		}
	}
	return false
}

func (k *Keyboard) read(ctx context.Context, f *os.File) {
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	defer f.Close()
	buf := make([]byte, 64*eventSize)
	for {
		n, err := f.Read(buf)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, unix.ENODEV) && !strings.Contains(err.Error(), "no such device") {
				k.Log.Printf("%s: %v", f.Name(), err)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.open, f.Name())
			return
		}
		for _, key := range presses(buf[:n]) {
			k.Press(key)
		}
	}
}

// presses picks the presses of our keys out of a read; releases and repeats
// are none.
func presses(b []byte) []Key {
	var keys []Key
	for ; len(b) >= eventSize; b = b[eventSize:] {
		typ, code := binary.NativeEndian.Uint16(b[16:]), Key(binary.NativeEndian.Uint16(b[18:]))
		value := int32(binary.NativeEndian.Uint32(b[20:]))
		if typ == evKey && value == pressed && (code == Enter || code == KPEnter || code == Power) {
			keys = append(keys, code)
		}
	}
	return keys
}
