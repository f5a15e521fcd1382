// Package clock owns how the daemon tells the time and waits for it: the wall
// clock, which may be stepped; a clock that only goes forward, while the machine
// sleeps too; and a wait that a step ends. It decides nothing by them.
package clock
