// Package internet gives tests an internet of their own: a network namespace behind a veth, with a name server, an authority and hosts, which boxd and
// everything else that the test starts is connected to. Nothing leaves the machine.
package internet
