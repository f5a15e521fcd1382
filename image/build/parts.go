package build

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"gurtos/image/debian"
	"gurtos/image/sbom"
)

func debianParts(packages []debian.Package) (parts []sbom.Part) {
	for _, p := range packages {
		parts = append(parts, sbom.Debian(p.Name, p.Version, p.Arch))
	}
	return parts
}

// writeParts writes the SBOM of a root, and its Debian packages for packages.lock.
func writeParts(dir, root string, packages []debian.Package, parts []sbom.Part) error {
	f, err := os.Create(filepath.Join(dir, root+".cdx.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := sbom.Write(f, "gurtos-"+root, parts); err != nil {
		return err
	}
	versions := map[string]string{}
	for _, p := range packages {
		name := p.Name
		if strings.HasPrefix(name, "linux-image-") {
			name = "linux-image-amd64" // the package's own name has the kernel's version in it
		}
		versions[name] = p.Version
	}
	j, err := json.MarshalIndent(versions, "", "\t")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, root+".versions.json"), append(j, '\n'), 0o644), f.Close())
}
