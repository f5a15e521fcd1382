// Package vault owns the box's keys: the vault file, who may have written it, and
// the taking out of its values from whatever leaves for a task or the log. A
// value is given to nobody but the code of the core that asks for it by name;
// deciding who may ask is core/permission's and the tool's declaration.
//
// The file holds one NAME=value a line, the value as it stands up to the line's
// end; empty lines are allowed, and nothing else is. It belongs to root, mode
// 0600, in a folder that only root may write. Beside it lies <file>.times, a
// cache of when the box set which name:
//
//	{"version": 1, "setAt": {"FACTORY_API_KEY": "2026-12-01T05:00:00.000Z"}}
//
// A name without an entry there was set when the vault file was last changed.
package vault
