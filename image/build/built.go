package build

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// builtFile, in the cache, tells tests and benchmarks which image was built last; a debug build has its own.
const builtFile, builtDebugFile = "image.json", "image-debug.json"

// ErrNotBuilt is told to those who want to boot an image that nobody built.
var ErrNotBuilt = errors.New("there is no built image: run `make image` first")

// record says that img is the newest image.
func (b *Build) record(img Image) error {
	text, err := json.MarshalIndent(img, "", "\t")
	if err != nil {
		return err
	}
	name := filepath.Join(b.cache, builtFile)
	if b.Debug {
		name = filepath.Join(b.cache, builtDebugFile)
	}
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Built is the image that was built last in the tree at root, without building anything. It is never a debug build.
func Built(root string) (Image, error) { return built(root, builtFile) }

// BuiltDebug is the debug image that was built last.
func BuiltDebug(root string) (Image, error) { return built(root, builtDebugFile) }

func built(root, name string) (img Image, err error) {
	cache := os.Getenv("BOX_CACHE")
	if cache == "" {
		cache = filepath.Join(root, ".cache")
	}
	text, err := os.ReadFile(filepath.Join(cache, name))
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
