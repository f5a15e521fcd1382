package quota

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Projects lists the projects of the file system that hold a file or have a limit.
// Where there are no project quotas, there are none.
func Projects(dir string) ([]uint32, error) {
	root, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("disk projects: %w", err)
	}
	defer root.Close()
	if on, err := enforcing(root); err != nil || !on {
		return nil, nil
	}
	var out []uint32
	for id := uint32(1); ; id++ { // 0 has all that is in no project
		var q diskQuota
		err := quotactl(root, xGetNext, id, unsafe.Pointer(&q))
		if errors.Is(err, unix.ENOENT) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("disk projects of %s: %w", dir, err)
		}
		id = q.id
		if q.blocks != 0 || q.inodes != 0 || q.blockHard != 0 || q.inodeHard != 0 {
			out = append(out, id)
		}
	}
}
