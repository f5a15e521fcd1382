package task

import (
	"context"

	"gurtos/sandbox/layers"
)

// onDisk is Layers as package layers has them.
type onDisk struct{ *layers.Mounter }

// OnDisk makes Layers of the mounter that writes a person's files.
func OnDisk(m *layers.Mounter) Layers { return onDisk{m} }

var _ Layers = onDisk{}

func (onDisk) Create(dir string) error { return layers.Create(dir) }

func (onDisk) Seal(ctx context.Context, v layers.View) error { return layers.Seal(ctx, v) }

func (onDisk) Sealed(dir string) bool { return layers.Sealed(dir) }

func (onDisk) Drop(dir string) error { return layers.Drop(dir) }

// Recover finishes what a power cut left half done to a layer.
func (onDisk) Recover(dir string) error {
	_, err := layers.Recover(dir)
	return err
}

func (onDisk) Fold(ctx context.Context, base string, lowers []string) error {
	return layers.Fold(ctx, base, lowers)
}

func (onDisk) RecoverBase(base string, dirs []string) ([]string, error) {
	return layers.RecoverBase(base, dirs)
}
