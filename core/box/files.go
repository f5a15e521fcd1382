package box

import (
	"fmt"
	"path/filepath"

	"gurtos/core/broker"
	"gurtos/core/config"
	"gurtos/core/device"
	"gurtos/core/durable"
	"gurtos/core/settings"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/netpolicy/authority"
)

// files are the parts of a box that are a file or folder of BOX_HOME and need
// nothing else.
type files struct {
	vault    *vault.Vault
	settings *settings.Settings
	devices  *device.Devices
	spaces   *workspace.Workspaces
	canary   *broker.Canary

	authority *authority.Authority // that tasks of workers with a model key trust
}

// openFiles opens them. The action log is open by then: its lock says that no
// other boxd uses BOX_HOME.
func openFiles(c config.Config, keys *vault.Vault) (f files, err error) {
	f.vault = keys
	if f.settings, err = settings.Open(durable.Disk, filepath.Join(c.Home, "settings.json")); err != nil {
		return f, err
	}
	if f.devices, err = device.Open(durable.Disk, filepath.Join(c.Home, "devices.json")); err != nil {
		return f, err
	}
	if f.spaces, err = openWorkspaces(filepath.Join(c.Home, "workspaces")); err != nil {
		return f, err
	}
	if f.canary, err = broker.OpenCanary(durable.Disk, filepath.Join(c.Home, "canary.key")); err != nil {
		return f, fmt.Errorf("reading what tasks' false keys are made from: %w", err)
	}
	if f.authority, err = authority.Open(filepath.Join(c.Home, "ca", "tasks")); err != nil {
		return f, err
	}
	return f, nil
}

// openVault opens the vault. A default one is made where there is none; one that
// was named must be there, since a slip in BOX_VAULT would leave a box without
// its keys.
func openVault(c config.Config) (*vault.Vault, error) {
	if !c.VaultNamed {
		if err := vault.Create(durable.Disk, c.Vault); err != nil {
			return nil, fmt.Errorf("making an empty vault: %w", err)
		}
	}
	return vault.Open(durable.Disk, c.Vault)
}

// openWorkspaces makes the workspace home on a new box.
func openWorkspaces(dir string) (*workspace.Workspaces, error) {
	w, err := workspace.Open(durable.Disk, dir)
	if err != nil {
		return nil, err
	}
	list, err := w.List()
	if err != nil || len(list) > 0 {
		return w, err
	}
	_, err = w.Make("home")
	return w, err
}
