package quota

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's interface to XFS quotas (include/uapi/linux/dqblk_xfs.h), through
// quotactl_fd, which takes any file of the file system for its device.
const (
	xSetLimits = 'X'<<8 + 4 // Q_XSETQLIM
	xGetQuota  = 'X'<<8 + 3 // Q_XGETQUOTA
	xGetState  = 'X'<<8 + 5 // Q_XGETQSTAT
	xGetNext   = 'X'<<8 + 9 // Q_XGETNEXTQUOTA
	project    = 2          // PRJQUOTA

	projectEnforced = 1 << 5 // FS_QUOTA_PDQ_ENFD
	projectQuota    = 1 << 1 // FS_PROJ_QUOTA

	// fs_disk_quota.d_fieldmask
	maskInodeSoft = 1 << 0
	maskInodeHard = 1 << 1
	maskBlockSoft = 1 << 2
	maskBlockHard = 1 << 3

	blockSize = 512 // "basic blocks", whatever the file system's

	getXattr       = 0x801c581f // FS_IOC_FSGETXATTR
	setXattr       = 0x401c5820 // FS_IOC_FSSETXATTR
	projectInherit = 0x200      // FS_XFLAG_PROJINHERIT
)

// diskQuota is struct fs_disk_quota.
type diskQuota struct {
	version                                    int8
	flags                                      int8
	fieldMask                                  uint16
	id                                         uint32
	blockHard, blockSoft, inodeHard, inodeSoft uint64
	blocks, inodes                             uint64
	inodeTimer, blockTimer                     int32
	inodeWarns, blockWarns                     uint16
	timersHigh                                 [4]int8
	rtHard, rtSoft, rtBlocks                   uint64
	rtTimer                                    int32
	rtWarns                                    uint16
	_                                          int16
	_                                          [8]byte
}

// stateV1 is struct fs_quota_stat with room to spare.
type stateV1 struct {
	version int8
	_       int8
	flags   uint16
	_       [124]byte
}

// fileAttr is struct fsxattr.
type fileAttr struct {
	flags, extSize, extents, project, cowExtSize uint32
	_                                            [8]byte
}

type limits struct{ bytesSoft, bytesHard, inodesSoft, inodesHard int64 }

type count struct{ bytes, inodes int64 }

func quotactl(file *os.File, cmd, id uint32, arg unsafe.Pointer) error {
	_, _, e := unix.Syscall6(unix.SYS_QUOTACTL_FD, file.Fd(), uintptr(cmd<<8|project), uintptr(id), uintptr(arg), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// enforcing tells whether the file system holds project quotas.
func enforcing(root *os.File) (bool, error) {
	var s stateV1
	err := quotactl(root, xGetState, 0, unsafe.Pointer(&s))
	if err == unix.ENOSYS { // of a file system made or mounted without quotas
		return false, nil
	}
	return s.flags&projectEnforced != 0, err
}

func usage(root *os.File, id uint32) (count, error) {
	var d diskQuota
	err := quotactl(root, xGetQuota, id, unsafe.Pointer(&d))
	if err == unix.ENOENT { // no file ever had it
		return count{}, nil
	}
	if err != nil {
		return count{}, fmt.Errorf("reading project %d: %w", id, err)
	}
	return count{int64(d.blocks) * blockSize, int64(d.inodes)}, nil
}

// setLimits sets all four; zeros are no limit.
func setLimits(root *os.File, id uint32, l limits) error {
	d := diskQuota{
		version: 1, flags: projectQuota, id: id,
		fieldMask: maskInodeSoft | maskInodeHard | maskBlockSoft | maskBlockHard,
		blockSoft: uint64(l.bytesSoft / blockSize), blockHard: uint64(l.bytesHard / blockSize),
		inodeSoft: uint64(l.inodesSoft), inodeHard: uint64(l.inodesHard),
	}
	if err := quotactl(root, xSetLimits, id, unsafe.Pointer(&d)); err != nil {
		return fmt.Errorf("setting the limits of project %d: %w", id, err)
	}
	return nil
}

func fileIoctl(f *os.File, request uintptr, a *fileAttr) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(a)))
	if e != 0 {
		return e
	}
	return nil
}

func projectOf(dir string) (uint32, error) {
	f, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", dir, err)
	}
	defer f.Close()
	var a fileAttr
	if err := fileIoctl(f, getXattr, &a); err != nil {
		return 0, fmt.Errorf("%s: reading the project: %w", dir, err)
	}
	return a.project, nil
}

// assign puts a folder and all that is in it into a project; what is made in it
// later inherits it.
func assign(dir string, id uint32) error {
	f, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	defer f.Close()
	if err := assignAll(f, id); err != nil {
		return fmt.Errorf("%s: setting the project: %w", dir, err)
	}
	return nil
}

func assignAll(dir *os.File, id uint32) error {
	var a fileAttr
	if err := fileIoctl(dir, getXattr, &a); err != nil {
		return err
	}
	if a.project == id && a.flags&projectInherit != 0 {
		return nil // and so has all that was made in it since
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	fd := int(dir.Fd())
	for _, n := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			sub, err := openFolder(fd, n)
			if err != nil {
				return err
			}
			err = assignAll(sub, id)
			sub.Close()
			if err != nil {
				return err
			}
		case unix.S_IFREG:
			if err := assignFile(fd, n, id); err != nil {
				return err
			}
		}
	}
	// The folder last: a cut before it is found again by the check above.
	a.project, a.flags = id, a.flags|projectInherit
	return fileIoctl(dir, setXattr, &a)
}

func assignFile(dir int, name string, id uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var a fileAttr
	if err := fileIoctl(f, getXattr, &a); err != nil {
		return err
	}
	a.project = id
	return fileIoctl(f, setXattr, &a)
}

func openFolder(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
