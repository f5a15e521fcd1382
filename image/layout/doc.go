// Package layout says how GurtOS's disks look: the GPT types by which a partition is found, the names it carries, and the sizes it gets.
// It holds names and figures only; image writes the system disk by them, the init looks for its partitions by them and firstboot makes the
// data disk by them. It opens no disk.
//
// The system disk, in this order:
//
//	esp        FAT32, the UKI at EFI/BOOT/BOOTX64.EFI
//	system-a   EROFS, the box's own root
//	tasks-a    EROFS, the root that tasks see
//	system-b, tasks-b   the same sizes, empty until the first update
//
// The data disk (or, on a box with one disk, the rest of it): data, XFS with project quotas.
//
// A slot's partition has the file system's own UUID as its unique partition GUID. That UUID is made from what went into the file system, and
// the kernel command line in the UKI names it (CmdSystem, CmdTasks): so a UKI finds its own slot on whichever disk and in whichever of the
// two places it lies, and never another's, and one UKI serves both slots.
package layout
