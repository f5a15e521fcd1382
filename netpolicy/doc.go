// Package netpolicy owns the network of a sandbox: a namespace with a loopback on
// which every address ends in the box, a name server that knows only allowed names,
// and a listener that dials what the rules let through. It knows rules and sockets;
// it knows nothing of tasks, and nothing in it forwards a packet.
//
// How a connection goes. A program asks for example.com; the name server checks the
// rules and answers with a synthetic address that stands for that name in this
// namespace for ever. The program connects to it, nftables redirects the connection
// to the listener, whose SO_ORIGINAL_DST says which name and port was meant. The
// name is resolved here, the address is checked in the dialler, and the bytes are
// passed on once the first ones (TLS hello, HTTP heads) name no other host.
package netpolicy
