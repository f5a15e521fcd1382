// Package firstboot turns a blank disk into the box's data disk, once, and finds that disk again on every later boot.
//
// It writes to a disk only if the disk is blank, which is more than "nothing known on it": the first and the last MiB and 1,024 samples in between are all
// zero. Everything else that is not ours is described to the person and left as it is, down to the byte.
//
// The first thing written is the claim, one block just below the first MiB:
//
//	GURTOS CLAIM 1\n{"disk":"<GUID>","part":"<GUID>","size":<bytes of the disk>,"state":"claimed"|"formatted"}\n<crc32 of all before, hex>\n
//
// A block is written whole or not at all, so a disk is blank or claimed and nothing between. All that follows can be made again from the claim
// alone: a boot that finds a claim goes on where the last one was cut. Up to "formatted" the partition is made anew; from "formatted" on it is never
// formatted again, whatever it looks like.
//
// The steps are a list, each one safe to repeat:
//
//	claim · table · format                                   on the raw disk
//	home · etc · vault · id · name · workspace · done        in the mounted file system
package firstboot
