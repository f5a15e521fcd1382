package image

import "slices"

// Suite is the Debian release that both file systems are made of.
const Suite = "trixie"

// Root is what a file system is made of.
type Root struct {
	Packages []string          // of Debian's; what they depend on comes with them
	Skip     []string          // what isn't even unpacked: path patterns, where * also stands for /
	Drop     []string          // what doesn't stay, though installing needs it
	Keep     []string          // what stays although these two say otherwise
	Dirs     []string          // empty folders
	Links    map[string]string // path → where it leads
	Files    map[string]string // path → content, replacing what a package brought
}

// unread is what nobody reads on a box or in a sandbox. Licences stay.
var unread = []string{
	"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*", "/usr/share/bug/*",
	"/usr/share/doc-base/*", "/usr/share/gdb/*", "/usr/share/bash-completion/*", "/usr/share/zsh/*", "/usr/share/menu/*", "/usr/share/applications/*",
	"/usr/share/pixmaps/*", "/usr/share/icons/*", "/usr/share/reportbug/*", "/usr/share/initramfs-tools/*",
}

// Tasks is the root that tasks see.
var Tasks = Root{
	Packages: []string{
		"git", "gcc", "g++", "make", "patch", "pkg-config", // building
		"python3", "python3-venv", "python3-pip", "tzdata", // Python, and its zoneinfo
		"ripgrep", "less", "file", "jq", "sqlite3", "procps", "tree", // looking at things
		"curl", "wget", "openssh-client", "ca-certificates", // fetching
		"xz-utils", "unzip", "zip", "bzip2", "zstd", // unpacking
	},
	Skip: append([]string{"/usr/bin/x86_64-linux-gnu-lto-dump*", "/usr/bin/lto-dump*"}, unread...), // 33 MB that only compiler authors run
	Drop: []string{
		"/etc/init.d/*", "/etc/cron*", "/etc/rc?.d/*", "/etc/systemd/*", "/usr/lib/systemd/*", "/usr/lib/init/*", "/etc/default/*", // services
		"/etc/apt/*", "/etc/shadow*", "/etc/gshadow*", "/etc/passwd-", "/etc/group-", "/etc/subuid*", "/etc/subgid*", "/etc/.pwd.lock",
		"/etc/machine-id", "/etc/hostname", "/etc/fstab", "/etc/mtab", "/etc/motd", "/etc/issue*", "/etc/update-motd.d/*",
		"/usr/lib/python3*/EXTERNALLY-MANAGED", // pip installs into the task's home, nothing of Debian's can be harmed
		"/var/cache/*", "/var/log/*", "/var/lib/apt/*", "/var/lib/systemd/*", "/var/lib/dpkg/*-old", "/var/backups/*", "/boot/*", "/media/*", "/srv/*", "/dev/*", "/run/*", "/tmp/*",
		"/usr/share/perl/*/pod/*", "/usr/share/perl/*.pod", "/usr/lib/x86_64-linux-gnu/perl/*.pod",
	},
	Keep:  []string{"/usr/share/doc/*/copyright", "/usr/share/common-licenses/*"},
	Links: map[string]string{"/usr/bin/python": "python3"},
	Dirs:  []string{"/work", "/home/box", "/run/box", "/tmp", "/proc", "/dev", "/sys", "/usr/lib/gurtos"},
	Files: map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\nbox:x:1000:1000:task:/home/box:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":  "root:x:0:\nbox:x:1000:\nnogroup:x:65534:\n",
		"/etc/hosts":  "127.0.0.1 localhost\n::1 localhost ip6-localhost\n",
		// Whatever the address, port 53 ends in the task's own name server.
		"/etc/resolv.conf":   "nameserver 127.0.0.53\noptions timeout:2 attempts:1\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
		"/etc/gitconfig":     "[init]\n\tdefaultBranch = main\n[advice]\n\tdefaultBranchName = false\n",
		"/etc/npmrc":         "prefix=${HOME}/.local\nfund=false\naudit=false\nupdate-notifier=false\nnodedir=/usr\n",
	},
}

// tried are the programs that agents use and that Tasks doesn't bring: test/programs tries them in tasks.
var tried = []string{
	"golang-go", "chromium-headless-shell", "postgresql-17", "gnupg", "default-jdk-headless",
	"python3-requests", "python3-grpcio", "python3-websockets", // clients of the network
}

// TestTasks is Tasks and those; no image ever holds it.
var TestTasks = func() Root {
	r := Tasks
	r.Packages = slices.Concat(r.Packages, tried)
	r.Skip = slices.Concat(r.Skip, []string{
		"/usr/lib/jvm/*/man/*", "/usr/lib/jvm/*/jmods/*", // installing fails over manuals that have no folder
		"/usr/lib/x86_64-linux-gnu/libLLVM*", "/usr/lib/x86_64-linux-gnu/libgallium*", "/usr/lib/postgresql/*/bitcode/*", "/usr/lib/postgresql/*/llvmjit*",
		"/usr/share/go-*/test/*", "/usr/share/go-*/api/*",
	})
	r.Drop = append(slices.Clone(r.Drop), "/var/lib/postgresql/*", "/etc/postgresql/*") // a database that installing made
	return r
}()

// System is the root that the box runs on. Its packages are unpacked and not installed: nothing of theirs runs while building.
var System = Root{
	Packages: []string{"linux-image-amd64", "systemd-boot-efi", "kmod", "xfsprogs", "e2fsprogs", "dosfstools", "ca-certificates", "tzdata", "busybox-static"},
	Skip:     unread,
	Keep:     Tasks.Keep,
	Dirs:     []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/data", "/etc", "/root", "/var", "/usr/lib/gurtos/bin", "/usr/lib/gurtos/tasks", "/usr/lib/modules"},
	Links: map[string]string{
		"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64",
		"/etc/box":         "/data/etc", // a folder of the data disk, so that the vault can be replaced by a rename
		"/etc/resolv.conf": "/run/gurtos/resolv.conf", "/etc/hostname": "/run/gurtos/hostname", "/etc/localtime": "/run/gurtos/localtime",
		"/var/run": "/run", "/var/tmp": "/tmp", "/etc/mtab": "/proc/self/mounts", "/usr/lib/ssl/certs": "/etc/ssl/certs",
	},
	Files: map[string]string{
		"/etc/passwd":        "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":         "root:x:0:\nnogroup:x:65534:\n",
		"/etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	},
}

// Programs are what System takes from its packages; the libraries that they need come with them.
var Programs = []string{
	"/usr/sbin/modprobe",                                                 // the kernel itself calls it, for what a mount or a firewall rule needs
	"/usr/sbin/mkfs.xfs", "/usr/sbin/xfs_repair", "/usr/sbin/xfs_growfs", // the data partition
	"/usr/sbin/mke2fs", "/usr/sbin/e2fsck", "/usr/sbin/mkfs.fat", "/usr/sbin/fsck.fat", // sticks and the ESP
}

// Shell is taken beside them in a debug build alone.
const Shell = "/usr/bin/busybox"

// Data are the files, as patterns, that it takes as they are.
var Data = []string{"/usr/share/zoneinfo/*", "/etc/mke2fs.conf", "/usr/share/common-licenses/*"}

// Drivers are the folders and files under the kernel's module tree that the box carries, as patterns where * also stands for /. What wants
// firmware stays out: the box has none, and a graphics driver without its firmware takes a working screen away.
var Drivers = []string{
	"arch/*", "block/*", "crypto/*", "lib/*", "virt/*",
	"fs/erofs/*", "fs/xfs/*", "fs/ext4/*", "fs/jbd2/*", "fs/mbcache*", "fs/fat/*", "fs/exfat/*", "fs/nls/*", "fs/overlayfs/*", "fs/fuse/*", "fs/quota/*", "fs/isofs/*", "fs/udf/*", "fs/squashfs/*", "fs/efivarfs/*", "fs/btrfs/*", "fs/ntfs3/*",
	"net/netfilter/*", "net/ipv4/*", "net/ipv6/*", "net/packet/*", "net/core/*", "net/802*", "net/bridge/*", "net/llc/*", "net/tls/*", "net/unix/*", "net/sched/*",
	"drivers/acpi/*", "drivers/ata/*", "drivers/block/*", "drivers/cdrom/*", "drivers/char/*", "drivers/clk/*", "drivers/cpufreq/*", "drivers/dax/*", "drivers/dca/*", "drivers/dma*", "drivers/edac/*", "drivers/firmware/*", "drivers/gpio/*",
	"drivers/gpu/drm/*.ko", "drivers/hid/*", "drivers/hv/*", "drivers/hwmon/*", "drivers/i2c/*", "drivers/idle/*", "drivers/input/*", "drivers/iommu/*", "drivers/leds/*", "drivers/md/*", "drivers/message/*", "drivers/mfd/*", "drivers/misc/*",
	"drivers/mmc/*", "drivers/net/ethernet/*", "drivers/net/phy/*", "drivers/net/mdio/*", "drivers/net/pcs/*", "drivers/net/usb/*", "drivers/net/virtio_net*", "drivers/net/vmxnet3/*", "drivers/net/hyperv/*", "drivers/net/*.ko",
	"drivers/nvme/*", "drivers/nvmem/*", "drivers/pci/*", "drivers/phy/*", "drivers/pinctrl/*", "drivers/platform/x86/*", "drivers/power/*", "drivers/powercap/*", "drivers/pps/*", "drivers/ptp/*", "drivers/regulator/*", "drivers/reset/*", "drivers/rtc/*",
	"drivers/scsi/*", "drivers/spi/*", "drivers/thermal/*", "drivers/thunderbolt/*", "drivers/tty/*", "drivers/ufs/*", "drivers/usb/*", "drivers/video/*", "drivers/virt/*", "drivers/virtio/*", "drivers/watchdog/*",
}

// NoDrivers are taken out of Drivers again.
var NoDrivers = []string{
	"*/test_*", "*/tests/*", "*kunit*",
	"drivers/gpu/drm/amd/*", "drivers/gpu/drm/radeon/*", "drivers/gpu/drm/nouveau/*", "drivers/gpu/drm/i915/*", "drivers/gpu/drm/xe/*", "drivers/net/wireless/*", "drivers/misc/habanalabs/*", "drivers/usb/gadget/*", "drivers/net/ethernet/mellanox/*",
	"drivers/net/ethernet/chelsio/*", "drivers/net/ethernet/qlogic/*", "drivers/net/ethernet/broadcom/bnx2x/*", "drivers/net/ethernet/netronome/*", "drivers/scsi/qla2xxx/*", "drivers/scsi/lpfc/*", "drivers/scsi/bfa/*", "drivers/scsi/be2iscsi/*", "drivers/scsi/qedf/*", "drivers/scsi/qedi/*", "drivers/char/ipmi/*",
}

// EarlyDrivers are those that stage 1 carries: whatever may lie between the firmware and the box's disks, and the file systems. Names of
// modules, or patterns of paths as in Drivers; what they depend on comes with them.
var EarlyDrivers = []string{
	"erofs", "xfs", "overlay", "loop", "dm_verity", "dm_mod", "nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8", "vfat", "crc32c*", "libcrc32c",
	"virtio_pci", "virtio_blk", "virtio_scsi", "virtio_mmio", "nbd",
	"drivers/ata/*", "drivers/nvme/host/*", "sd_mod", "sr_mod", "drivers/scsi/megaraid/*", "mpt3sas", "mpi3mr", "hpsa", "smartpqi", "aacraid", "vmw_pvscsi", "hv_storvsc",
	"usb_storage", "uas", "xhci_pci", "ehci_pci", "ohci_pci", "uhci_hcd", "drivers/mmc/host/sdhci*", "drivers/mmc/core/*", "drivers/ufs/*", "vmd",
	"hid_generic", "usbhid", "i8042", "atkbd",
}
