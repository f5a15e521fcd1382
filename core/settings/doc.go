// Package settings owns what the owner chose for the box: every setting with its
// default, its limits and its sentence, and settings.json, which holds only what
// differs from the defaults:
//
//	{"version": 1, "settings": {"keepDays": 7}}
//
// A file of a newer version is refused and left as it is. The package never acts
// on a setting; who needs one asks for Values when it needs it.
package settings
