// Package device owns the paired devices: codes that pair one, the tokens they
// got, and devices.json:
//
//	{"version": 1, "devices": [{"id": "k3f…", "name": "Ada's phone", "role": "owner",
//	  "pairedAt": "…", "lastSeen": "…", "token": "<hex SHA-256>"}]}
//
// A token leaves the box once, in the answer to its pairing; the box keeps its
// SHA-256 alone. Codes live in memory, by the machine's running time and not by
// its clock, so pairing works on a box whose clock is at 1970. The package never
// decides what a role may do.
package device
