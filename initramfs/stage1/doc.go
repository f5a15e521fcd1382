// Package stage1 is the init in the initramfs: from the kernel's start to the box's own root.
//
// It loads the drivers that this machine's disks need, finds the system and the tasks partition that belong to this kernel on whichever disk they
// are, mounts both read-only and becomes the init of the system. The kernel command line names the two by UUID (layout.CmdSystem, layout.CmdTasks);
// which of the places a or b they lie in makes no difference. It writes to no disk and looks for no data: that is stage 2's, where mkfs and xfs_repair are.
//
// Left for stage 2 in /run/gurtos: slot with the letter of the place, stage1 with the milliseconds at which it began, and stage1.log.
package stage1
