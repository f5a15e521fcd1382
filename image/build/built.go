package build

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// builtFile, in the cache, tells tests and benchmarks which image was built last.
const builtFile = "image.json"

// ErrNotBuilt is told to those who want to boot an image that nobody built.
var ErrNotBuilt = errors.New("there is no built image: run `make image` first")

// record says that img is the newest image.
func (b *Build) record(img Image) error {
	text, err := json.MarshalIndent(img, "", "\t")
	if err != nil {
		return err
	}
	temp := filepath.Join(b.cache, builtFile+".new")
	if err := os.WriteFile(temp, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(b.cache, builtFile))
}

// Built is the image that was built last in the tree at root, without building anything.
func Built(root string) (img Image, err error) {
	cache := os.Getenv("BOX_CACHE")
	if cache == "" {
		cache = filepath.Join(root, ".cache")
	}
	text, err := os.ReadFile(filepath.Join(cache, builtFile))
	if errors.Is(err, fs.ErrNotExist) {
		return img, ErrNotBuilt
	}
	if err != nil {
		return img, err
	}
	if err := json.Unmarshal(text, &img); err != nil {
		return img, ErrNotBuilt
	}
	for _, file := range []string{img.Disk, img.UKI, img.Kernel, img.Initrd, img.Modules} {
		if _, err := os.Stat(file); err != nil {
			return img, ErrNotBuilt // the cache was pruned
		}
	}
	return img, nil
}
