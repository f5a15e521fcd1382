// Package stage2 is PID 1 of the running box: it joins the parts below boot/ into one list of phases, keeps the box running and ends it in order.
//
// A phase that fails is a reason on the screen, not the end: the box goes on with what is left. Without a data disk it waits for one to be plugged in.
// It owns no state but what the screen and boot.json show; everything that matters is boxd's.
//
// In a debug build, and only there, the kernel command line may say gurtos.debug (a shell on the first serial port), gurtos.hold=STEP (stand still after a
// step of the first boot, for the power to be cut) and gurtos.panic=PHASE.
package stage2
