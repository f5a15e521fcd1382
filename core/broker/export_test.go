package broker

import (
	"encoding/json"
	"path/filepath"

	"gurtos/core/durable"
)

// Trapped says whether the trap for these keys closes on a JSON value.
func Trapped(id, secret, doc string) bool { return newTrap(id, secret).in(json.RawMessage(doc)) }

// NewCanary makes a canary in a folder.
func NewCanary(dir string) (*Canary, error) {
	return OpenCanary(durable.Disk, filepath.Join(dir, "canary.key"))
}
