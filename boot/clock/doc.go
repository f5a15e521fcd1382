// Package clock gives the box the right time and never has anybody wait for it.
//
// When the box starts, a clock that shows less than the build's own time or the last time that a time server confirmed is wrong, and is set to the
// newest time there is any evidence of. Then SNTP (RFC 4330) asks several servers, those of DHCP first, until they agree; a time below the floors, or
// beyond the life of a box, is believed from nobody. The servers are asked again every half hour.
//
// What is kept over a restart is one file, {"synced": …, "seen": …}: the last time that was confirmed, and the last that the clock showed. Only the
// first is a floor for what servers say: a clock that ran wild must not make the truth unbelievable.
package clock
