package mutate

func init() { Guards = append(Guards, log...) }

// log are the guards of the action log and the file layer under it: each sync, the chain of hashes, what a start repairs and what it refuses.
var log = []Guard{
	{"log: an append is synced", "core/actionlog/journal.go", `			return err
		}
		return j.file.Datasync()
	}
	if err := log`, `			return err
		}
		return nil
	}
	if err := log`, "./core/actionlog", "TestPowerCut"},
	{"log: a full journal syncs the log", "core/actionlog/journal.go", `	if err := log.Datasync(); err != nil {
		return err
	}
	return j.turn(m)`, `	return j.turn(m)`, "./core/actionlog", "TestPowerCut"},
	{"log: a round begins on the disk", "core/actionlog/journal.go", `	if err := j.write(nil, m); err != nil {
		return err
	}
	return j.file.Datasync()`, `	return j.write(nil, m)`, "./core/actionlog", "TestPowerCut|TestEverySyncIsNeeded"},
	{"log: a record that was torn is none", "core/actionlog/journal.go", `n > len(b)-journalHead || crc32.Checksum(b[12:journalHead+n], castagnoli) != binary.LittleEndian.Uint32(b[8:])`, `n > len(b)-journalHead`, "./core/actionlog", "TestPowerCut|Fuzz|TestTornInTheMiddle"},
	{"log: what the power took is put back", "core/actionlog/open.go", `	if _, err := l.file.WriteAt(o.lines, o.off); err != nil {
		return err
	}
`, ``, "./core/actionlog", "TestPowerCut"},
	{"log: nobody is told before the sync", "core/actionlog/write.go", `	if err := l.journal.commit(l.file, b.buf, b.last); err != nil {
		return err
	}
`, `	go l.journal.commit(l.file, b.buf, b.last)
`, "./core/actionlog", "TestPowerCut|TestBroken"},
	{"log: a line is chained to the one before", "core/actionlog/examine.go", `	return s.prev == x.good.Hash || x.quarantined(s.prev)`, `	return s.prev != "" || x.quarantined(s.prev)`, "./core/actionlog", "TestDamage"},
	{"log: numbers have no gap", "core/actionlog/examine.go", `	if !s.ok || s.seq != x.good.Seq+1 {`, `	if !s.ok || s.seq <= x.good.Seq {`, "./core/actionlog", "TestDamage"},
	{"log: damage in the middle is refused", "core/actionlog/open.go", `		} else if !l.opt.Quarantine {
			return d.err()
		}`, `		}`, "./core/actionlog", "TestDamage"},
	{"log: a log that is gone is missed", "core/actionlog/open.go", `	if s.good.Seq == 0 && s.head.Seq > 0 && !l.opt.Quarantine {`, `	if s.good.Seq == 0 && s.head.Seq > 1<<60 && !l.opt.Quarantine {`, "./core/actionlog", "."},
	{"log: an end that was cut off is missed", "core/actionlog/verify.go", `			cut = max(cut, k.Seq)
`, `			cut = 0
`, "./core/actionlog", "TestKnownHead|TestCutOff"},
	{"log: what is cut off is kept aside", "core/actionlog/open.go", `	return f.Sync()
}

// check looks`, `	return nil
}

// check looks`, "./core/actionlog", "TestPowerCut|TestEverySyncIsNeeded"},
	{"log: a newer format is refused", "core/actionlog/open.go", `	case n.Format > format:`, `	case n.Format > format+9:`, "./core/actionlog", "TestNewerFormat"},
	{"log: one process writes", "core/actionlog/open.go", `	if err := l.file.Lock(); err != nil {
		return nil, err
	}
`, ``, "./core/actionlog", "TestLockedOnce"},
	{"log: a checkpoint belongs to its log", "core/actionlog/checkpoint.go", `	if m.Hash != h.Hash {`, `	if m.Hash == "" {`, "./core/actionlog", "TestCheckpoint"},
	{"log: a damaged checkpoint is left alone", "core/actionlog/checkpoint.go", `|| h.SHA256 != hash(state) {`, `{`, "./core/actionlog", "TestCheckpoint"},
	{"log: an index entry is held against the log", "core/actionlog/index.go", `e.off < end && e.holds(log, end) {`, `e.off < end {`, "./core/actionlog", "TestIndex"},
	{"log: the disk is full before an append fails", "core/actionlog/room.go", `	} else if free < need {`, `	} else if free < 0 {`, "./core/actionlog", "TestRoom"},
	{"log: the reserve is given up for a line", "core/actionlog/write.go", `	if errors.Is(err, syscall.ENOSPC) && l.reserve.release() {`, `	if errors.Is(err, syscall.ENOSPC) && l.reserve == nil {`, "./core/actionlog", "TestRoom"},
	{"log: a step of the clock is told", "core/actionlog/clock.go", `	if off.Abs() < 2*time.Second+ran/1000 {`, `	if off.Abs() < 2e6*time.Second+ran/1000 {`, "./core/actionlog", "TestClockSteps"},
	{"log: a line that is too long is no line", "core/actionlog/log.go", `n > maxLine {`, `n > 2*maxLine {`, "./core/actionlog", "TestSubmitRefuses"},
	{"files: the file is synced before it has its name", "core/durable/replace.go", `	return f.Sync()
}`, `	return nil
}`, "./core/durable", "TestReplaceSurvivesAnyCut"},
	{"files: the folder is synced behind the rename", "core/durable/replace.go", `		fsys.Remove(next)
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))`, `		fsys.Remove(next)
		return err
	}
	return nil`, "./core/durable", "TestReplaceSurvivesAnyCut"},
	{"files: the mode is what was asked for", "core/durable/replace.go", `	if err := f.Chmod(perm); err != nil { // whatever the umask took away
		return err
	}
`, ``, "./core/durable", "."},
	{"files: a leftover is no way in", "core/durable/replace.go", `	if err := fsys.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := fsys.Open(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)`, `	f, err := fsys.Open(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)`, "./core/durable", "TestLeftoverIsNoWayIn"},
	{"gaps: the kept state goes with the lines that it was made of", "core/actionlog/quarantine.go", `durable.Remove(l.fs, filepath.Join(l.dir, checkpointName))`, `durable.Remove(l.fs, filepath.Join(l.dir, checkpointName+".old"))`, "./core/actionlog", "TestPowerCut"},
	{"gaps: a line of a task that never was", "core/task/fold.go", `		case !f.Gap:`, `		case !f.Gap && f == nil:`, "./core/task", "TestFoldGoesOnWithoutALine"},
	{"gaps: a task whose first line is gone stops no box", "core/task/notes.go", `		f.Gap = true`, `		f.Gap = f.Paused`, "./core/task", "TestFoldGoesOnWithoutALine"},
	{"gaps: files of a task whose first line is gone stay", "core/task/load.go", `		if t.fold.Gap {`, `		if t.fold.Gap && t.fold.Paused {`, "./cmd/box/cli", "TestQuarantine"},
	{"gaps: an end that was written down", "cmd/box/cli/verify.go", `s.verify(known...)`, `s.verify(known[:0]...)`, "./cmd/box/cli", "TestVerifyAgainstAHead"},
}
