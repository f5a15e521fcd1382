// Command init is the box's first process: /init in the initramfs, where it looks for the system (stage 1), and PID 1 of that system, where it keeps
// the box running (stage 2). Which of the two is told by the root: the initramfs is a rootfs in RAM, the system is not.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/console"
	"gurtos/boot/guard"
	"gurtos/boot/ring"
	"gurtos/boot/screen"
	"gurtos/boot/stage2"
	"gurtos/initramfs/stage1"
)

const lines = 4000 // kept of the log

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init is the first process of a box: it is started by the kernel and by nobody else")
		os.Exit(1)
	}
	start := kernelStart()
	r := ring.New(lines, start)
	// A panic in a library's goroutine ends in the kernel's own, which prints
	// what Go printed and starts the box anew after kernel.panic seconds.
	debug.SetTraceback("all")
	_ = os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")

	what := "starting"
	defer func() {
		if p := recover(); p != nil {
			stage2.Panic(r, what, p, debug.Stack())
		}
	}()
	guard.On(func(what string, p any, stack []byte) { stage2.Panic(r, what, p, stack) })
	if inRAM() {
		what = "looking for the system"
		runStage1(r, start)
		return
	}
	what = "running the box"
	err := stage2.New(r, start).Run()
	stage2.Panic(r, "ending the box", err, nil)
}

// kernelStart is when the kernel started, on this process's clock.
func kernelStart() time.Time {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Now()
	}
	return time.Now().Add(-time.Duration(now.Nano()))
}

// inRAM says whether the root is the initramfs.
func inRAM() bool {
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		return false
	}
	return st.Type == unix.RAMFS_MAGIC || st.Type == unix.TMPFS_MAGIC
}

// runStage1 ends only when it failed: else this process is stage 2 by then.
func runStage1(r *ring.Ring, start time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// /dev/console is all there is before /dev is mounted.
	guard.Go("printing the log", func() { r.Follow(ctx, func(line string, _ uint64) { fmt.Println(line) }) })
	logger := log.New(r.Writer("init"), "", 0)
	logger.Printf("stage 1")
	s := &stage1.Stage1{
		Log:   logger,
		Start: start,
		Lines: func() []string { return r.Last(lines) },
		Say: func(text string) {
			logger.Print(text)
			screen.Last(console.List("/proc", "/dev"), "\nGurtOS: "+text+"\n")
		},
	}
	stage2.Panic(r, "looking for the system", s.Run(ctx), nil)
}
