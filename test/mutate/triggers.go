package mutate

func init() { Guards = append(Guards, triggers...) }

// triggers are the guards of what the box watches for apps, and of what the owner lets them do.
var triggers = []Guard{
	{"schedules: once for a date", "core/watch/schedule.go", ` && !memo.Ran.has(d) {`, ` && !memo.Off {`, "./core/watch", "TestClockIsSet"},
	{"schedules: a run is written before it is handed out", "core/watch/schedule.go", `w.opt.Tasks.Note(w.ctx, NoteRan, data, "")`, `w.opt.Tasks.Note(w.ctx, NoteFailed, data, "")`, "./core/watch", "TestBoxEndsDuringACall"},
	{"schedules: half a day late is too late", "core/watch/watching.go", `	tooLate  = 12 * time.Hour`, `	tooLate  = 13 * time.Hour`, "./core/watch", "TestBoxWasOff"},
	{"schedules: what is left out is said once", "core/watch/schedule.go", `		case !memo.Told.has(d):`, `		case !memo.Off:`, "./core/watch", "TestBoxWasOff"},
	{"schedules: nothing from before they were armed", "core/watch/schedule.go", `due.UnixMilli() > since && `, ``, "./core/watch", "TestScheduleThatBeginsAfterItsTime"},
	{"schedules: a clock that is set back makes them older", "core/watch/schedule.go", `	w.low = min(w.low, now.UnixMilli())`, `	w.low = min(w.low, memo.Since)`, "./core/watch", "TestClockIsSet"},
	{"schedules: and over a start of the box", "core/watch/memory.go", `				memo.Since = min(memo.Since, t)`, `				memo.Since = max(memo.Since, t)`, "./core/watch", "TestClockIsSet"},
	{"schedules: an app that was off makes up for nothing", "core/watch/memory.go", `			memo.Off, memo.Sight = true, Sight{}`, `			memo.Sight = Sight{}`, "./core/watch", "TestAppWasOff"},
	{"schedules: what was not taken is kept", "core/watch/memory.go", `			memo.Ran = memo.Ran.without(d)`, `			memo.Ran = memo.Ran.add(d, d)`, "./core/watch", "TestRunIsKept"},
	{"schedules: a time that a day leaves out", "core/watch/calendar.go", `		if !start.IsZero() && u.Before(start) {`, `		if start.IsZero() && u.Before(start) {`, "./core/watch", "TestTimesOfTheDay"},
	{"schedules: a date that a zone leaves out", "core/watch/calendar.go", `	return t, dayOf(c.first(d, 0)) == d`, `	return t, true`, "./core/watch", "TestTimesOfTheDay"},
	{"schedules: weekdays", "core/watch/calendar.go", `		if !c.permits(d) || done.has(d) {`, `		if done.has(d) {`, "./core/watch", "TestEachDateHasItsTurn"},
	{"schedules: a new time zone takes effect", "core/watch/watches.go", `		case noteSettings:`, `		case noteSettings + "?":`, "./core/watch", "TestTimeZoneChanges"},
	{"schedules: a span takes no part in steps", "core/watch/schedule.go", `c.steps(now.Add(w.base-mono), now, w.span())`, `c.steps(time.UnixMilli(int64(w.base/time.Millisecond)), now, w.span())`, "./core/watch", "TestEverySpan"},
	{"schedules: an app has so many", "core/watch/watches.go", `	if n >= maxWatches {`, `	if n > maxWatches {`, "./core/watch", "TestWatchesThatAreRefused"},
	{"schedules: a call that was cut off is not made again", "core/app/box.go", `	case errors.As(err, &never):`, `	case errors.As(err, &never), err != nil:`, "./test/triggers", "TestProcessEndsDuringATrigger"},
	{"schedules: a process that was started anew has its watch again", "core/watch/watches.go", `	if was := ws.all[key]; was != nil && was.caller.Err() != nil {`, `	if was := ws.all[key]; was != nil && was.ctx == nil {`, "./core/watch", "TestAppComesBackAtOnce"},
	{"schedules: what is remembered has an end", "core/watch/memory.go", `	for len(memos) > maxMemos {`, `	for len(memos) > 9*maxMemos {`, "./core/watch", "TestMemoryHasAnEnd"},
	{"schedules: a copy of what is remembered shares nothing", "core/watch/memory.go", `	out.Ran, out.Told = slices.Clone(out.Ran), slices.Clone(out.Told)
`, ``, "./core/watch", "TestMemoryOfACheckpoint"},
	{"schedules: a key that is thrown stays out of the log", "core/app/box.go", `	return errors.New(h.r.opt.Vault.Redact(err.Error())) // for the log`, `	return errors.New(err.Error())`, "./test/triggers", "TestScheduleThatFails"},
	{"files: triggers end before their apps", "core/box/box.go", `{{"watches", closer(b.watches)}, {"apps", closer(b.apps)}, `, `{{"apps", closer(b.apps)}, {"watches", closer(b.watches)}, `, "./test/triggers", "TestBoxEndsDuringATrigger"},
	{"files: very many come in several calls", "core/watch/files.go", `n < mostChanges && size`, `size`, "./core/watch", "TestManyChanges"},
	{"clock: a step ends the wait", "core/clock/clock.go", `unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET`, `unix.TFD_TIMER_ABSTIME`, "./core/clock", "TestStepEndsTheWait"},

	{"files: told once there is rest", "core/watch/files.go", `min(w.last+settle, w.first+restive)`, `min(w.first+settle, w.last+restive)`, "./core/watch", "TestChangesAreToldTogether"},
	{"files: told where there is none", "core/watch/files.go", `	restive = 30 * time.Second `, `	restive = 90 * time.Second `, "./core/watch", "TestChangesWithoutRest"},
	{"files: nothing is missed over a start", "core/watch/watching.go", `		w.touch() // something may have changed meanwhile`, `		_ = since // something may have changed meanwhile`, "./core/watch", "TestNothingIsMissedOverAStart"},
	{"files: nothing is told twice", "core/watch/memory.go", `			memo.Sight.Layers = done(memo.Of.Workspace)
		}
	}
}

// left`, `			memo.Sight.Layers = nil
		}
	}
}

// left`, "./core/watch", "TestNothingIsMissedOverAStart"},
	{"files: the paths that were asked for", "sandbox/layers/between.go", `(oldFile || newFile) && b.keep(full) {`, `(oldFile || newFile) {`, "./core/watch", "TestPathsThatAreWatched"},
	{"files: a copy is no change", "sandbox/layers/between.go", `			if same {
				c.Change = ""
			}`, `			if same && o == n {
				c.Change = ""
			}`, "./core/watch", "TestFilesChange"},
	{"files: folders of the same layers alone are passed over", "sandbox/layers/between.go", `		if x.Dev != y.Dev || x.Ino != y.Ino {`, `		if x.Dev != y.Dev {`, "./core/watch", "TestFolderOfAnotherLayer"},
	{"files: an undone layer stays for who has not seen that", "core/task/sweep.go", `	for _, h := range t.sights {
		for _, s := range h.sights {
			for _, lower := range s.Layers {
				read[lower] = true
			}
		}
	}
`, ``, "./core/watch", "TestUndoneLayerStaysForAWatch"},
	{"files: and no longer than that", "core/task/sight.go", `		if !keep(k[0], k[1]) {`, `		if keep == nil {`, "./core/watch", "TestUndoneLayerStaysForAWatch"},
	{"files: one that comes back soon goes on where it was", "core/watch/watches.go", `			return left || ws.all[`, `			return left && app == "" || ws.all[`, "./core/watch", "TestWatchThatDoesNotComeBack"},
	{"files: one that is away for long holds nothing", "core/watch/watches.go", `return at <= late })`, `return at < -late })`, "./core/watch", "TestWatchThatDoesNotComeBack"},
	{"files: a stale watch keeps no full workspace from folding", "core/task/compact.go", `		if n < was && len(t.fold.done[workspace]) > mostLayers {`, `		if n < was && len(t.fold.done[workspace]) < 0 {`, "./core/watch", "TestFullWorkspaceFoldsUnderAWatch"},
	{"files: looks that fail hold what the last one needs", "core/task/sight.go", `h.sights[:min(len(h.sights), 1)]`, `h.sights[:len(h.sights)]`, "./core/watch", "TestLooksThatFail"},
	{"files: a watch's name holds no key in the log", "core/app/box.go", `watch.Read(h.r.opt.Vault.RedactJSON(p.Watch))`, `watch.Read(p.Watch)`, "./test/triggers", "TestNamesOfWatches"},
	{"files: watches fill no log", "core/app/box.go", `h.a.spend.take(len(p.Watch) + 200)`, `h.a.spend.take(0)`, "./test/triggers", "TestNamesOfWatches"},
	{"schedules: a field that a watch hasn't is refused", "core/watch/read.go", `			if !slices.Contains(of, name) {`, `			if name == "" {`, "./core/watch", "TestRead"},
	{"schedules: an empty list is not all", "core/watch/read.go", `	if w.Weekdays != nil && len(w.Weekdays) == 0 {`, `	if w.Weekdays == nil && len(w.Weekdays) > 0 {`, "./core/watch", "TestRead"},
	{"files: a cut call is made again", "core/watch/watching.go", `errors.Is(said, ErrNotTaken) || cut {`, `errors.Is(said, ErrNotTaken) || cut && w.fail < 0 {`, "./core/watch", "TestBoxEndsDuringACall"},
	{"globs: a * stays in its name", "core/watch/glob.go", `	names := strings.Split(path, "/")
	i, k`, `	names := strings.SplitN(path, "/", 2)
	i, k`, "./core/watch", "TestGlobs"},

	{"permissions: a host that is off covers what leads to it", "core/permission/rights.go", `err == nil && o.Overlaps(rule) {`, `err == nil && o == rule {`, "./core/task", "TestHostsOfRunningTasks"},
	{"permissions: a host that is turned off is off for tasks that run", "core/task/rights.go", `		t.rewire(app)
`, ``, "./core/task", "TestHostsOfRunningTasks"},
	{"permissions: shell is every worker but fake", "core/task/memory.go", `	if worker != "fake" {`, `	if worker == "droid" {`, "./core/task", "TestNeeds"},
	{"permissions: a refusal is in the log", "core/task/rights.go", `		return one(note(NoteRefused, data, task))`, `		return nil, nil`, "./core/task", "TestAllowed"},
	{"permissions: a use is told once an hour", "core/task/rights.go", `since < usedEvery {`, `since < 0 {`, "./core/task", "TestUses"},
	{"permissions: a key asks each time", "core/app/box.go", `	if err := h.r.opt.Tasks.Allowed(ctx, h.a.name, item, "", ""); err != nil {`, `	if err := h.r.opt.Tasks.Allowed(ctx, "", item, "", ""); err != nil {`, "./test/triggers", "TestPermissionsOfARunningApp"},
	{"permissions: unknown apps are refused", "core/api/permissions.go", `	} else if uses[name] == nil && was.Off == nil {`, `	} else if uses[name] == nil && was.Off != nil {`, "./core/api", "TestEveryRoute"},
	{"permissions: keys that nobody declares are refused", "core/api/permissions.go", `		if !d.Knows(item, was) {`, `		if false {`, "./core/api", "TestEveryRoute"},
	{"permissions: a host that was never off or used is not turned on", "core/api/permissions.go", `&& !was.Off[item] && used[item] == "" {`, `&& false {`, "./core/api", "TestEveryRoute"},
	{"rules: a port is part of what two rules share", "netpolicy/rules/overlap.go", `	if r.port != 0 && o.port != 0 && r.port != o.port {`, `	if r.port != o.port {`, "./netpolicy/rules", "TestOverlaps"},
}
