// Package uevent listens to what the kernel tells about devices that come and go (NETLINK_KOBJECT_UEVENT).
//
// It believes the kernel only: a message from any process is dropped.
package uevent
