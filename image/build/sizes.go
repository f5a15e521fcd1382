package build

import (
	"fmt"
	"os"
)

// Sizes tells how large the parts of an image are, in MB of a million bytes.
func (i Image) Sizes() (sizes [][2]string) {
	for _, p := range [][2]string{
		{"tasks file system", i.Tasks}, {"system file system", i.System}, {"initramfs", i.Initrd}, {"kernel", i.Kernel}, {"boot file (UKI)", i.UKI},
	} {
		if st, err := os.Stat(p[1]); err == nil {
			sizes = append(sizes, [2]string{"size of the " + p[0], fmt.Sprintf("%.1f MB", float64(st.Size())/1e6)})
		}
	}
	return sizes
}
