package sandbox

// SetWritable changes what Landlock lets a task write, until restore.
func SetWritable(paths ...string) (restore func()) {
	old := writable
	writable = paths
	return func() { writable = old }
}

// ParkedProcesses are those that wait in the pool.
func (h *Host) ParkedProcesses() (pids []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.parked {
		if pid, err := b.proc.Pid(); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
