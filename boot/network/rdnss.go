package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"gurtos/boot/guard"
)

const (
	groupUserOptions = 20 // RTNLGRP_ND_USEROPT
	newUserOption    = 68 // RTM_NEWNDUSEROPT
	userOptionHeader = 16 // struct nduseroptmsg
	optionRDNSS      = 25 // RFC 8106
)

// listenRDNSS reads the name servers in router advertisements: the kernel sets
// addresses and routes from them, and passes these on.
func (n *Network) listenRDNSS(ctx context.Context) error {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE, groupUserOptions)
	if err != nil {
		return fmt.Errorf("listen for IPv6 name servers: %w", err)
	}
	stop := context.AfterFunc(ctx, s.Close) // which ends Receive
	guard.Go("reading IPv6 name servers", func() {
		defer stop()
		for {
			msgs, _, err := s.Receive()
			if ctx.Err() != nil {
				return
			}
			if err != nil && !errors.Is(err, unix.ENOBUFS) { // lost ones come again
				n.Log.Printf("read IPv6 name servers: %v", err)
				return
			}
			for _, m := range msgs {
				if m.Header.Type != newUserOption {
					continue
				}
				if index, servers, ok := parseRDNSS(m.Data); ok {
					n.learn(index, func(k *learned) { k.dns6 = servers })
				}
			}
		}
	})
	return nil
}

// parseRDNSS reads one message: struct nduseroptmsg and the options of one
// router advertisement. A lifetime of 0 takes the servers back.
func parseRDNSS(b []byte) (index int, servers []netip.Addr, ok bool) {
	if len(b) < userOptionHeader {
		return 0, nil, false
	}
	length := int(binary.NativeEndian.Uint16(b[2:]))
	index = int(int32(binary.NativeEndian.Uint32(b[4:])))
	opts := b[userOptionHeader:]
	if length > len(opts) {
		return 0, nil, false
	}
	opts = opts[:length]
	for len(opts) >= 8 {
		size := int(opts[1]) * 8
		if size == 0 || size > len(opts) {
			return 0, nil, false
		}
		if opts[0] == optionRDNSS {
			ok = true
			if lifetime := time.Duration(binary.BigEndian.Uint32(opts[4:])) * time.Second; lifetime > 0 {
				for a := opts[8:size]; len(a) >= 16; a = a[16:] {
					if addr, fits := netip.AddrFromSlice(a[:16]); fits && (addr.IsGlobalUnicast()) {
						servers = append(servers, addr)
					}
				}
			}
		}
		opts = opts[size:]
	}
	return index, servers, ok
}
