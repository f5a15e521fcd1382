package mutate

func init() { Guards = append(Guards, gaps...) }

// gaps are the guards of what a box makes of a log that lines were cut out of, and of the door to that on its consoles.
var gaps = []Guard{
	{"gaps: a task that may have been stopped does not run", "core/task/queue.go", ` && q.fold.Tasks[id].Doubt == 0 {`, ` {`, "./core/broker", "TestStoppedTaskStaysStopped"},
	{"gaps: a cut-out line may have stopped a task", "core/task/doubt.go", `		e.Doubt = seq
`, `		e.Doubt = 0 * seq
`, "./core/broker", "TestStoppedTaskStaysStopped"},
	{"gaps: a lost end may have stopped a task", "core/task/notes.go", `			f.doubt(ev.Seq)
		}
`, `		}
`, "./core/task", "TestDoubt"},
	{"gaps: a call whose task is over is in doubt too", "core/task/doubt.go", `		if !e.State.Live() && len(e.Calls) == 0 {`, `		if !e.State.Live() {`, "./core/task", "TestDoubt"},
	{"gaps: a task that is not to be carried on ends", "core/task/asks.go", `t.submit(t.notResumed(f, f.Tasks[a.Task], id))`, `t.submit(nil)`, "./core/broker", "TestStoppedTaskStaysStopped"},
	{"gaps: the owner is told once", "core/task/notes.go", `f.Untold && !d.CutOut`, `f.Untold || d.CutOut`, "./core/broker", "TestStoppedTaskStaysStopped"},
	{"gaps: what goes on was not stopped", "core/task/doubt.go", `	e.Doubt = 0
	if e.State == Queued {`, `	if e.State == Queued {`, "./core/broker", "TestTaskGoesOnBehindAGap"},
	{"gaps: what works was started", "core/task/doubt.go", `		f.enter(e, Running)
		e.Layers = f.seen(e.Workspace)
`, ``, "./core/broker", "TestTaskGoesOnBehindAGap"},
	{"gaps: an undo is known by its note", "core/task/notes.go", `			e.Undo = f.Gap
`, `			e.Undo = f.Paused
`, "./core/broker", "TestUndoneTaskStaysUndone"},
	{"gaps: a no holds without its question", "core/task/fold.go", `	if !yes && f.Gap {`, `	if !yes && f.Seq < 0 {`, "./core/broker", "TestAnswerWithoutItsQuestion"},
	{"gaps: a yes to nobody knows what is none", "core/task/fold.go", `	if !yes && f.Gap {`, `	if f.Gap {`, "./core/broker", "TestAnswerWithoutItsQuestion"},
	{"gaps: a result holds for its key without the call", "core/task/calls.go", `k != nil && k.Tool == "" {`, `k != nil && k.Tool == "-" {`, "./core/broker", "TestCallWithoutALine"},
	{"gaps: a call without its result counts as paid", "core/task/end.go", `		if c.Doubt && c.Reserved.Sign() > 0 {`, `		if c.Doubt && c.Reserved.Sign() < 0 {`, "./core/broker", "TestCallWithoutALine"},
	{"gaps: whose payment it was, by the task's tools", "core/task/fold.go", `			app = e.onlyApp()
`, `			app = ""
`, "./core/task", "TestPaymentsOfACutOutCall"},
	{"gaps: whose payment it was, by the question", "core/task/orphans.go", `			calls[a.Key] = a.Tool
`, `			calls[a.Key] = ""
`, "./core/task", "TestPaymentsOfACutOutCall"},
	{"gaps: a payment of nobody's counts for each", "core/budget/ledger.go", `l.today[app].Add(l.today[""])`, `l.today[app]`, "./core/task", "TestPaymentsOfACutOutCall"},
	{"gaps: a task without its first line paid all the same", "core/task/orphans.go", `			f.Ledger.AddTool(budget.Day(ev.At), AppOf(calls[ev.Key]), c, f.Passed.Known)
`, `			_ = budget.Day(ev.At)
`, "./core/task", "TestFoldGoesOnWithoutALine|TestOrphans"},
	{"gaps: the kept state has the calls of such tasks", "core/task/load.go", `f.Marked, f.Untold, f.Orphans = c.Noted, c.Passed, c.Marked, c.Untold, c.Orphans`, `f.Marked, f.Untold = c.Noted, c.Passed, c.Marked, c.Untold`, "./core/task", "TestOrphans"},
	{"gaps: time across a gap is not proven", "core/task/passed.go", `	if cut {
		p.Known = false
		return false
	}
`, `	if cut {
		p.Known = false
	}
`, "./core/task", "TestACutOutMovesNoTime"},
	{"gaps: a note in the place of a line has no time", "core/task/fold.go", `	if f.Seq = ev.Seq; cutOut(ev) {`, `	if f.Seq = ev.Seq; cutOut(ev) && f.Paused {`, "./core/task", "TestACutOutMovesNoTime"},
	{"gaps: nor has the one at the end", "core/task/passed.go", ` || d.What == noteCutOut)`, `)`, "./core/task", "TestACutOutMovesNoTime"},
	{"gaps: a done task whose layer is gone is in no view", "core/task/mend.go", `		evs = append(evs, t.layerless(f)...)
`, ``, "./core/task", "TestLayerGoneWithItsLine"},
	{"gaps: folders that were there stay at every start", "core/task/orphans.go", `info.Mode().Perm() == keptMode || `, ``, "./cmd/box/cli", "TestFoldersAfterACutOut"},
	{"gaps: what a later crash leaves goes", "core/task/orphans.go", `	if t.fold.Marked {`, `	if t.fold.Marked && t.fold.Paused {`, "./cmd/box/cli", "TestFoldersAfterACutOut"},
	{"gaps: the next cut-out marks anew", "core/task/notes.go", `		f.Marked, f.Untold = false, true
`, `		f.Untold = true
`, "./cmd/box/cli", "TestFoldersAfterACutOut"},
	{"gaps: files outlive an end that is lost", "core/task/notes.go", `		if d.Cut.Lost > 0 {`, `		if d.Cut.Lost < 0 {`, "./cmd/box/cli", "TestFilesOutliveALostEnd"},
	{"gaps: a log that is gone is begun anew", "cmd/box/cli/verify.go", `	case gone: //`, `	case gone && s.json: //`, "./cmd/box/cli", "TestFilesOutliveALostEnd"},
	{"gaps: the lines of a task that is none are shown", "cmd/box/cli/log.go", `id != "" && s.on("f") {`, `id != "" {`, "./cmd/box/cli", "TestQuarantine"},
	{"gaps: an end that was written down is one", "cmd/box/cli/verify.go", `|| len(sum) != 32 {`, `|| len(sum) == 30 {`, "./cmd/box/cli", "TestVerifyAgainstAHead"},
	{"gaps: verify fails on a log that is not whole", "cmd/box/cli/verify.go", `	if !report.OK() {
		return errors.New("the action log is not as it was written")`, `	if !report.OK() && s.json {
		return errors.New("the action log is not as it was written")`, "./cmd/box/cli", "TestVerifyAgainstAHead"},
	{"gaps: the second vouches for the first", "core/actionlog/quarantine.go", `		if !slices.Contains(gaps, g) {`, `		if slices.Contains(gaps, g) {`, "./core/actionlog", "TestVouchedAgain"},
	{"gaps: a full disk gives its reserve", "core/actionlog/quarantine.go", `	if isFull(err) && l.reserve.release() {`, `	if isFull(err) && l.reserve == nil {`, "./core/actionlog", "TestQuarantineOnAFullDisk"},
	{"gaps: a line 1 that the next disowns is damaged", "core/actionlog/open.go", `disowned(log, size, hash(line)) {`, `disowned(log, 0, hash(line)) {`, "./core/actionlog", "TestDamage"},
	{"door: boxd ends with a code of its own", "cmd/boxd/main.go", `		return config.ExitDamaged
`, `		return config.ExitDamaged - 64
`, "./cmd/boxd", "TestCode"},
	{"door: a damaged log starts no boxd for ever", "boot/supervise/supervise.go", `proc.ExitCode(err) == s.Service.Hold`, `proc.ExitCode(err) == -s.Service.Hold`, "./boot/supervise", "TestHeldByItsCode"},
	{"door: what is held ends first", "boot/supervise/supervise.go", `	if s.end != nil {
		s.end()
	}
`, ``, "./boot/stage2", "TestDoorOfABoxThatRuns"},
	{"door: only the words cut anything out", "boot/stage2/door.go", `	case line != yes:`, `	case line == "":`, "./boot/stage2", "TestDoor"},
	{"door: damage that a running box finds is asked about", "boot/stage2/door.go", `	damaged := st.Held || b.damaged
`, `	damaged := st.Held
`, "./boot/stage2", "TestDoorOfABoxThatRuns"},
	{"door: no watchdog while a log is looked at", "boot/stage2/door.go", `		b.health.held = true // nobody`, `		b.health.held = false // nobody`, "./boot/stage2", "TestDoorWhileALogIsLookedAt"},
	{"door: a question stands though boxd is silent for a moment", "boot/stage2/watch.go", `		b.health.answered, b.damaged = now, h.LogDamaged`, `		b.health.answered = now
	}
	if b.damaged = h.LogDamaged; err != nil {`, "./boot/stage2", "TestDoorOfABoxThatRuns"},
	{"door: health tells of damage", "core/api/box.go", `h.LogDamaged = errors.As(err, new(*actionlog.DamageError))`, `h.LogDamaged = errors.Is(err, new(actionlog.DamageError))`, "./core/api", "TestBrokenLog"},
	{"door: no watchdog while a person is waited for", "boot/stage2/watch.go", `	case h.began.IsZero(), h.held:`, `	case h.began.IsZero():`, "./boot/stage2", "TestWell"},
	{"door: nothing that was typed before is an answer", "boot/screen/screen.go", `	case s.status.Ask == "":
`, `	case s.status.Ask == "-":
`, "./boot/screen", "TestAsk"},
}
