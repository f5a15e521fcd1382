package uevent

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		msg  string
		want Event
		ok   bool
	}{
		{"add@/devices/pci0000:00/virtio0\x00ACTION=add\x00SUBSYSTEM=virtio\x00MODALIAS=virtio:d00000002v00001AF4\x00",
			Event{Action: "add", Path: "/devices/pci0000:00/virtio0", Subsystem: "virtio", Alias: "virtio:d00000002v00001AF4"}, true},
		{"add@/devices/x/block/vda/vda1\x00SUBSYSTEM=block\x00DEVNAME=vda1\x00DEVTYPE=partition\x00",
			Event{Action: "add", Path: "/devices/x/block/vda/vda1", Subsystem: "block", Device: "vda1"}, true},
		{"libudev\x00\xfe\xed", Event{}, false},
		{"", Event{}, false},
	} {
		if got, ok := parse([]byte(c.msg)); got != c.want || ok != c.ok {
			t.Errorf("parse(%q) = %+v, %v", c.msg, got, ok)
		}
	}
}

// The kernel sends the event of a device when one writes to its uevent file.
func TestListen(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to ask the kernel for an event")
	}
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := os.WriteFile("/sys/class/mem/null/uevent", []byte("change"), 0); err != nil {
		t.Fatal(err)
	}
	heard := false
	if err := l.Run(ctx, func(e Event) {
		if e.Action == "change" && e.Device == "null" && e.Subsystem == "mem" {
			heard = true
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !heard {
		t.Error("the event of /dev/null was not heard")
	}
}
