// Package boot holds the tests that start GurtOS in QEMU. They need a built
// image (`make image`) and fail without one.
//
// In the short form, that of `make test`, they start few machines; BOX_LONG=1,
// that of `make test-all`, makes more power cuts and disturbs more.
package boot
