package sandbox

// SetWritable changes what Landlock lets a task write, until restore.
func SetWritable(paths ...string) (restore func()) {
	old := writable
	writable = paths
	return func() { writable = old }
}
