// Package ring keeps the last lines that the init and its services wrote, in memory and never on a disk.
//
// A Ring has a fixed number of places. Writers never wait: each takes the next place, the oldest line goes. A reader that follows at its own
// pace and falls behind by more than the ring holds loses lines, by design (a serial port at 115200 baud must not hold up the box); it is told
// how many.
package ring
