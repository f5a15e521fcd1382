package actionlog

import "errors"

// Report is what Verify found.
type Report struct {
	Lines int64
	Head  Mark
}

// Verify reads the whole log of the box in dir and checks every line.
func Verify(dir string) (Report, error) { return Report{}, errors.ErrUnsupported }
