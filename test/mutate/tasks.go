package mutate

func init() { Guards = append(Guards, tasks...) }

// tasks are the guards of tasks, their broker, approvals and money.
var tasks = []Guard{
	{"tasks: nothing follows undone", "core/task/state.go", `	Undone:  {},`, `	Undone:  {Running},`, "./core/task", "TestStateTable"},
	{"tasks: done can't fail", "core/task/state.go", `	Done:    {Undone},`, `	Done:    {Undone, Failed},`, "./core/task", "TestStateTable"},
	{"tasks: a stop asks the table", "core/task/end.go", `		if !e.State.Can(to) {`, `		if !e.State.Known() {`, "./core/broker", "TestStopAndUndoAnywhere"},
	{"tasks: nobody is told before the disk has it", "core/task/tasks.go", `	if werr := t.opt.Log.Wait(ctx, seq); werr != nil {
		return werr
	}
	return err`, `	_ = seq
	return err`, "./core/broker", "TestFaults/call-unlogged"},
	{"tasks: nothing is deleted on the word of a line that is not on disk", "core/task/sweep.go", `	if err := t.opt.Log.Wait(context.Background(), seq); err != nil {
		return
	}
`, `	_ = seq
`, "./core/broker", "TestFaults/undo-read"},
	{"tasks: a layer that somebody reads stays", "core/task/sweep.go", `		for _, lower := range t.fold.Tasks[id].Layers {
			read[lower] = true
		}
	}
	// What was`, `		_ = id
	}
	// What was`, "./core/broker", "TestLayersAreThoseOfDoneTasks|TestFaults/undo-read"},
	{"tasks: a title has an end", "core/task/limits.go", `	MaxTitle  = 200`, `	MaxTitle  = 201`, "./core/task", "TestSpecRefusals"},
	{"tasks: lengths are in characters", "core/task/limits.go", `	if n := utf8.RuneCountInString(s); n > most {`, `	if n := len(s); n > most && utf8.ValidString(s) {`, "./core/task", "TestSpecLimitsAreTaken"},
	{"tasks: a budget has an end", "core/task/limits.go", `c.Cmp(budget.Whole(MaxBudget)) > 0 {`, `c.Cmp(budget.Whole(MaxBudget+1)) > 0 {`, "./core/task", "TestSpecRefusals"},
	{"tasks: a workspace is no link", "core/task/limits.go", `	info, err := os.Lstat(t.workspaceDir(name))`, `	info, err := os.Stat(t.workspaceDir(name))`, "./core/task", "TestSpecRefusals"},
	{"tasks: no workspace above", "core/task/limits.go", ` || name == "." || name == ".." {`, ` {`, "./core/task", "TestSpecRefusals"},
	{"tasks: autonomy low has no network", "core/task/limits.go", `		s.Hosts, s.BudgetCents = []string{}, budget.Cents{}`, `		s.BudgetCents = budget.Cents{}`, "./core/task", "TestDroidLevels"},
	{"tasks: hosts: [] stays none", "core/task/limits.go", `	if want == nil && v.NetworkDefault`, `	if len(want) == 0 && v.NetworkDefault`, "./core/task", "TestSpecLimitsAreTaken"},
	{"tasks: null is no value", "core/task/decode.go", `		case bytes.Equal(bytes.TrimSpace(v), []byte("null")):`, `		case bytes.Equal(bytes.TrimSpace(v), []byte("nil")):`, "./core/task", "TestSpecRefusals"},
	{"tasks: no more than maxRunning", "core/task/queue.go", `	if int64(q.fold.count[Running]) >= q.opt.Settings.Values().MaxRunning {`, `	if int64(q.fold.count[Running]) > q.opt.Settings.Values().MaxRunning {`, "./core/broker", "TestQueueTakesTurns"},
	{"tasks: apps take turns", "core/task/queue.go", `	q.turn[e.App] = q.turns`, `	q.turn[""] = q.turns`, "./core/broker", "TestQueueTakesTurns"},
	{"tasks: that the disk is full is told once", "core/task/disk.go", `	if t.fold.Full != t.full && t.broken == nil {`, `	if (t.full || t.fold.Full) && t.broken == nil {`, "./core/broker", "TestFullDiskStopsNewWork"},
	{"tasks: nothing starts while paused", "core/task/queue.go", "	if q.halted() {\n		return nil, nil", "	if q.full {\n		return nil, nil", "./core/broker", "TestPauseHoldsAgents|TestStopAndUndoAnywhere"},
	{"tasks: none that stands still is woken to end with the box", "core/task/queue.go", "	if q.halted() {\n		sb.Kill()", "	if false {\n		sb.Kill()", "./core/broker", "TestStandingStillEnds"},
	{"tasks: a pause freezes", "core/task/pause.go", `					act = sb.Freeze`, `					act = sb.Thaw`, "./core/broker", "TestPauseHoldsAgents"},
	{"tasks: a slow freeze holds nobody up", "core/task/pause.go", `		each.Wait()
	}
}`, `		t.mu.Lock()
		each.Wait()
		t.mu.Unlock()
	}
}`, "./core/broker", "TestASlowFreezeHoldsNobodyUp"},
	{"tasks: a freeze that failed is done again", "core/task/pause.go", `(r.frozen != frozen || r.unsure)`, `r.frozen != frozen`, "./core/broker", "TestAFreezeThatFailsIsDoneAgain"},
	{"tasks: a pause waits until all stand still", "core/task/pause.go", `	t.hold() // before`, `	go t.hold() // before`, "./core/broker", "TestASlowFreezeHoldsNobodyUp"},
	{"tasks: memory keeps no text of an ended task", "core/task/fold.go", `	e.Spec = Spec{Workspace: e.Workspace}
`, ``, "./core/task", "TestWhatIsKeptOfOldTasksIsSmall"},
	{"tasks: memory keeps no long step", "core/task/fold.go", `	e.Step = strings.Clone(cut(ev.Text, stepLength))`, `	e.Step = cut(ev.Text, 10*stepLength)`, "./core/task", "TestWhatIsKeptOfOldTasksIsSmall"},
	{"tasks: a snapshot is left as it was", "core/task/fold.go", `	if e == nil || e.State.Live() {
		return e
	}`, `	if e == nil || e.State != "" {
		return e
	}`, "./core/task", "TestSnapshotStays"},
	{"approvals: memory keeps no text of an answered question", "core/approval/book.go", `	done := &item{Line: it.Line, place: it.place, Approval: Approval{ID: it.ID, Task: it.Task, CostCents: it.CostCents, State: Denied, By: by, Reason: reason}}`, `	done := &item{Line: it.Line, place: it.place, Approval: it.Approval}
	done.State, done.By, done.Reason = Denied, by, reason`, "./core/approval", "TestAnsweredQuestionsAreSmall"},
	{"tasks: one can always be ended, whatever it asked", "core/task/asks.go", `		if f.Approvals.Open(e.ID) >= MaxOpen {`, `		if f.Approvals.Open(e.ID) >= 1000*MaxOpen {`, "./core/broker", "TestATaskCanAlwaysBeEnded"},
	{"tasks: one can always be ended, whatever it wants to spend", "core/task/calls.go", `			if f.Approvals.Open(e.ID) >= MaxOpen {`, `			if f.Approvals.Open(e.ID) >= 1000*MaxOpen {`, "./core/broker", "TestATaskCanAlwaysBeEnded"},
	{"tasks: one can always be ended, whatever it called", "core/task/calls.go", `		if len(t.flights[id]) >= MaxOpen {`, `		if len(t.flights[id]) >= 1000*MaxOpen {`, "./core/broker", "TestATaskCanAlwaysBeEnded"},
	{"broker: few long results at once", "core/broker/call.go", `	case d.large <- struct{}{}:
	case`, `	default:
		go func() { d.large <- struct{}{} }()
	case`, "./core/broker", "TestFewLongResultsAtOnce"},
	{"tasks: a torn question is mended", "core/task/mend.go", `			case e.State == Running && open:`, `			case e.State == Done && open:`, "./core/broker", "TestFaults/ask-torn"},
	{"tasks: a torn answer is mended", "core/task/mend.go", `			case e.State == Waiting && !open:`, `			case e.State == Done && !open:`, "./core/broker", "TestFaults/ask-answer-torn"},
	{"tasks: a call nobody makes again is closed", "core/task/end.go", `	evs = append(evs, t.lost(e)...)`, ``, "./core/broker", "TestFaults/call-never-again"},
	{"approvals: the first answer holds", "core/task/asks.go", `		if a.State == approval.Pending {
			if err`, `		if a.State != "" {
			if err`, "./core/broker", "TestRandomInterleavings"},
	{"approvals: the fold keeps the first answer", "core/approval/book.go", `	if !ok || it.State != Pending {`, `	if !ok {`, "./core/approval", "TestFirstAnswerHolds"},
	{"approvals: an end closes what is open", "core/task/end.go", `		evs = append(evs, actionlog.Event{Type: actionlog.TypeApprovalAnswered, Task: e.ID, ID: a.ID, Approved: &no, By: by})`, `		_, _ = a, no`, "./core/broker", "TestStopAndUndoAnywhere"},
	{"money: the budget", "core/task/money.go", `	if spent.Add(c.Cost).Cmp(e.BudgetCents) > 0 {`, `	if spent.Cmp(e.BudgetCents) > 0 {`, "./core/broker", "TestWhenMoneyAsks"},
	{"money: calls in flight count", "core/task/money.go", `	spent := e.CostCents.Add(reserved)`, `	spent := e.CostCents`, "./core/broker", "TestFiftyAtOnceNeverOvershoot/budget"},
	{"money: the threshold", "core/task/money.go", `c.Cost.Cmp(most) > 0 {`, `c.Cost.Cmp(most) > 1 {`, "./core/broker", "TestThreshold"},
	{"money: the daily limit counts calls in flight", "core/task/money.go", `		today := t.today(f, app).Add(inApp)`, `		today := t.today(f, app)`, "./core/broker", "TestFiftyAtOnceNeverOvershoot/daily"},
	{"money: a step of the clock begins no day", "core/task/passed.go", `	went := max(0, at-millis(from)-ev.Clock)`, `	went := max(0, at-millis(from))`, "./core/broker", "TestClockStepsResetNoLimit"},
	{"money: no time off begins a day by itself", "core/task/passed.go", `	if ev.Start {
		p.Known = false
		return false
	}
`, ``, "./core/broker", "TestClockStepsResetNoLimit"},
	{"money: a step of the clock begins no day before its line", "core/task/passed.go", `	return t.opt.Mono() - t.seen.ran`, `	return t.opt.Now().Sub(t.seen.wall)`, "./core/broker", "TestClockStepsResetNoLimit"},
	{"money: a night off begins a day", "core/budget/ledger.go", `	if days > 0 {`, `	if days > 99 {`, "./core/broker", "TestClockStepsResetNoLimit"},
	{"money: what was spent in doubt counts", "core/budget/ledger.go", `		l.today = l.doubt`, `		l.today = nil`, "./core/broker", "TestClockStepsResetNoLimit"},
	{"tasks: an end in order proves the time", "core/task/queue.go", `	if err := q.Note(context.Background(), noteEnd, nil, ""); err != nil {`, `	if err := error(nil); err != nil {`, "./core/broker", "TestClockStepsResetNoLimit"},
	{"tasks: no clock deletes early", "core/task/passed.go", `	return t.fold.Passed.Age+t.since().Milliseconds()-e.EndAge >= keep`, `	return t.opt.Now().UnixMilli()-t.fold.Passed.Day+t.fold.Passed.Age-e.EndAge >= keep`, "./core/broker", "TestNoClockDeletesEarly"},
	{"tasks: time off counts once it is proven", "core/task/passed.go", `		p.Age = max(p.Age, p.Sure.Age+at-p.Sure.At)`, `		p.Age = max(p.Age, p.Sure.Age)`, "./core/broker", "TestNoClockDeletesEarly"},
	{"money: a result gives back what was reserved", "core/task/fold.go", `	f.release(e, c)
	r := &CallResult`, `	r := &CallResult`, "./core/broker", "TestReservationsAreGivenBack"},
	{"money: turned off is off", "core/task/calls.go", `	if c.Spends && !f.Rights[app].Allowed(permission.Money) {`, `	if c.Spends && f.Paused {`, "./core/broker", "TestMoneyTurnedOff"},
	{"money: no more than was approved", "core/broker/call.go", `spent.Sign() >= 0 && spent.Cmp(fl.Call.Cost) <= 0 {`, `spent.Sign() >= 0 {`, "./core/broker", "TestSpentCents"},
	{"money: no cost below 0", "core/broker/money.go", `	if err != nil || c.Sign() < 0 {`, `	if err != nil {`, "./core/broker", "TestBrokerRefusals"},
	{"calls: a denied one never runs", "core/task/calls.go", `	case asked && a.State == approval.Denied:`, `	case asked && a.State == approval.Denied && t.full:`, "./core/broker", "TestDeniedCallNeverRuns"},
	{"calls: only a task's own tools", "core/task/calls.go", `		if !slices.Contains(e.Tools, c.Tool) {`, `		if c.Tool == "" {`, "./core/broker", "TestBrokerRefusals|TestTwentyMegabytes"},
	{"calls: a key stands for one call", "core/task/calls.go", `		if !same {`, `		if same && t.full {`, "./core/broker", "TestKeyForAnotherCallIsRefused"},
	{"calls: the same call is shared", "core/task/calls.go", `open && same {`, `open && same && t.full {`, "./core/broker", "TestSameCallIsShared"},
	{"calls: a result is the key's for ever", "core/task/calls.go", `			if result = known.Result; result != nil {`, `			if r := known.Result; r != nil && t.full {`, "./core/broker", "TestCallRunsOnceForAKey"},
	{"calls: paused starts none", "core/task/calls.go", `	case t.halted():
		return Turn{Halted: true}, nil, nil
`, ``, "./core/broker", "TestNoTurnToRunWhilePaused"},
	{"calls: the box's own question is no call's key", "core/broker/call.go", `	if boxKey.MatchString(key) {`, `	if key == "model" {`, "./core/broker", "TestBrokerRefusals"},
	{"calls: the input fits the schema", "core/broker/call.go", `	if err := d.schemas.check(tl.Input, c.Input); err != nil {
		return tl, err.Error()
	}
`, ``, "./core/broker", "TestBrokerRefusals"},
	{"calls: the vault stays out of outputs", "core/broker/call.go", `	if r.Output = d.opt.Vault.RedactJSON(oneLine(r.Output)); len`, `	if r.Output = oneLine(r.Output); len`, "./core/broker", "TestVaultStaysOutOfResults"},
	{"calls: the vault stays out of errors", "core/broker/call.go", `	return short(d.opt.Vault.Redact(strings.ToValidUTF8(s, "\uFFFD")))`, `	return short(strings.ToValidUTF8(s, "\uFFFD"))`, "./core/broker", "TestVaultStaysOutOfResults"},
	{"calls: work whose output is lost counts as spent", "core/broker/call.go", `		if errors.Is(err, tool.ErrUntaken) {`, `		if false {`, "./core/broker", "TestToolFailures"},
	{"calls: the owner hears what cut a call off", "core/task/end.go", `			cut = "in its app, since " + why`, ``, "./core/broker", "TestLostCallSaysWhy"},
	{"canary: one in a call is found", "core/broker/call.go", `	if d.trapped(ctx, body) {`, `	if false && d.trapped(ctx, body) {`, "./core/broker", "TestCanaryUndoesTheTask"},
	{"canary: one split over two fields is found", "core/broker/canary.go", `		for _, part := range []string{k[:h], k[len(k)-h:]} {`, `		for _, part := range []string{k, k[:h] + k[h:]} {`, "./core/broker", "TestCanaryUndoesTheTask"},
	{"canary: one split over many fields is found", "core/broker/canary.go", `			joined.WriteString(s)
`, ``, "./core/broker", "TestCanaryUndoesTheTask"},
	{"broker: other users are not answered", "core/broker/peers.go", `	return ok && (uid == uint32(p.socket.uid) || p.root && uid == 0)`, `	return ok || uid == uint32(p.socket.uid)`, "./core/broker", "TestOtherUsersAreNotAnswered"},
	{"broker: the socket's mode", "core/broker/broker.go", `os.Chmod(path, 0o600)`, `os.Chmod(path, 0o660)`, "./core/broker", "TestSocketIsTheTasksAlone"},
	{"broker: 64 KB", "core/broker/desk.go", `	maxSmall   = 64 << 10`, `	maxSmall   = 128 << 10`, "./core/broker", "TestBrokerRefusals"},
	{"broker: 10 MB", "core/broker/desk.go", `	maxBody    = 10 << 20`, `	maxBody    = 12 << 20`, "./core/broker", "TestBrokerRefusals"},
	{"broker: 20 MB", "core/broker/desk.go", `	maxWritten = 20 << 20`, `	maxWritten = 40 << 20`, "./core/broker", "TestTwentyMegabytes"},
	{"broker: a step syncs the layer first", "core/task/progress.go", `		if err = t.syncLayer(id); err == nil {`, `		if err == nil {`, "./core/broker", "TestStepsSurviveARestart"},
	{"broker: steps and questions wait while paused", "core/task/progress.go", `		if err := t.Going(ctx); err != nil {
			return err
		}
		if err := act(); !errors.Is(err, errHalted) {
			return err
		}`, `		if err := act(); err == nil || !errors.Is(err, errHalted) || t.halted() {
			return nil
		}`, "./core/broker", "TestPauseHoldsAgents|TestPauseEnds"},
	{"broker: a step that a pause overtakes waits", "core/task/progress.go", `	if t.halted() {
		return errHalted
	}
`, ``, "./core/broker", "TestAPauseOvertakesAStep"},
	{"broker: waiting is no answer", "core/broker/ask.go", `	case got.State == approval.Pending:
		return pendingAnswer{true}, nil
`, ``, "./core/broker", "TestPendingIsNoError"},
}
