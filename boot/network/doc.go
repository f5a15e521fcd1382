// Package network brings up every wired port by itself: IPv4 by DHCP (RFC 2131), IPv6 by the kernel's own router discovery.
//
// A port's client starts when the port has a carrier and stops when it loses it; ports that come later count too. Ports are known by their index,
// since a name may change while a client runs. Nothing waits for the network, and no client ever gives up.
//
// On a carrier that comes back the last lease is asked for again (INIT-REBOOT), else it is discover, offer, request. A lease is renewed with its
// server from T1 on, with any server from T2 on, and its address goes when it ends or a server says so.
//
// The name servers of all leases and router advertisements are written to one resolv.conf. What the network says of time servers (option 42) is
// there to be asked for.
package network
