package mutate

func init() { Guards = append(Guards, apps...) }

// apps are the guards around apps' processes: what they see, what they may ask, and what the box keeps when they end.
var apps = []Guard{
	{"sandbox: a program gets its own files alone", "sandbox/boxinit/box-init.c", `		if (dup2(files[i], 3 + (int)i) < 0)`, `		if (dup2(files[0], 3 + (int)i) < 0)`, "./sandbox", "TestFiles"},
	{"sandbox: a program's files end with it", "sandbox/boxinit/box-init.c", `	for (uint32_t i = 0; i < head.files; i++)
		close(files[i]);
	int err = 0;`, `	int err = 0;`, "./sandbox", "TestFiles"},
	{"sandbox: a tree can't be written", "sandbox/spec.go", `!plain(t.Name) || t.View.Layer != ""`, `t.View.Layer != ""`, "./sandbox", "TestTrees"},
	{"app: only the model app is on at first", "core/app/registry.go", `on[name] = !first || name == ModelApp`, `on[name] = true`, "./core/app", "TestSwitch"},
	{"app: what is new on a box that ran apps is on", "core/app/registry.go", `on[name] = !first || name == ModelApp`, `on[name] = name == ModelApp`, "./core/app", "TestSwitch"},
	{"app: two jobs of one name are never on", "core/app/registry.go", `if j.Name == k.Name {`, `if j.Name == k.Name+"?" {`, "./core/app", "TestClash"},
	{"app: a change that can't be used leaves what ran", "core/app/registry.go", `	same := a.up && a.build.hash == b.hash`, `	same := a.up`, "./core/app", "TestReload"},
	{"app: a key that is not listed stays in the vault", "core/app/box.go", `	if !slices.Contains(allowed, p.Name) {`, `	if !slices.Contains(allowed, p.Name) && p.Call == nil {`, "./core/app", "TestCtx"},
	{"app: a tool's keys are not its app's", "core/app/box.go", `		allowed, who = c.secrets, c.what`, `		who = c.what`, "./core/app", "TestCtx"},
	{"app: none answers as somebody else", "core/app/box.go", `!strings.HasPrefix(p.By, h.a.name+":")`, `!strings.HasPrefix(p.By, h.a.name)`, "./core/app", "TestBox"},
	{"app: an answer's name can't turn the line", "core/app/box.go", `strings.ContainsFunc(p.By, unprintable)`, `strings.Contains(p.By, "\x00")`, "./core/app", "TestBox"},
	{"app: keys are taken out of notes", "core/app/box.go", `h.a.name, h.r.opt.Vault.RedactJSON(p.Data), p.Task)`, `h.a.name, p.Data, p.Task)`, "./core/app", "TestBox"},
	{"app: keys are taken out of tasks that it starts", "core/app/box.go", `	spec := h.r.opt.Vault.RedactJSON(p.Spec)`, `	spec := p.Spec`, "./core/app", "TestSecretsStayIn"},
	{"app: keys are taken out of its error", "core/app/one.go", `	text := a.r.opt.Vault.Redact(strings.ToValidUTF8(a.name+": "+fmt.Sprintf(format, args...), "\uFFFD"))`, `	text := strings.ToValidUTF8(a.name+": "+fmt.Sprintf(format, args...), "\uFFFD")`, "./core/app", "TestSecretsStayIn"},
	{"app: keys are taken out of what it prints", "core/app/registry.go", `	return r.opt.Vault.Redact(a.printed.String())`, `	return a.printed.String()`, "./core/app", "TestSecretsStayIn"},
	{"app: it doesn't fill the log", "core/app/one.go", `	if float64(n) > b.left {`, `	if n < 0 {`, "./core/app", "TestFlood"},
	{"app: a workspace is made of its own files alone", "core/app/copy.go", `	from = path.Clean(from)
`, ``, "./core/app", "TestBox"},
	{"app: a message has an end", "core/app/wire.go", `		if len(whole)+len(part) > maxMessage {`, `		if len(whole) > 2*maxMessage {`, "./core/app", "TestReadLine"},
	{"app: an answer to nothing ends it", "core/app/wire.go", `	case !ok:
		return errors.New("it answered`, `	case !ok && c != nil:
		return errors.New("it answered`, "./core/app", "TestHostile/unknown"},
	{"app: what is cut off runs again", "core/app/calls.go", `const tries = 3`, `const tries = 1`, "./core/app", "TestCutOffPayment"},
	{"app: what is cut off for good leaves the call open", "core/broker/call.go", `	if errors.Is(err, tool.ErrCutOff) {`, `	if errors.Is(err, tool.ErrCutOff) && tl.Run == nil {`, "./core/app", "TestCutOffPayment"},
	{"app: one that spins is ended", "core/app/calls.go", `		h.alongside(h.look)
`, ``, "./core/app", "TestNeverAnswers"},
	{"app: a task's context has an end", "core/app/calls.go", `		runes = runes[:min(len(runes), left)]
`, ``, "./core/app", "TestTaskContext"},
	{"app: a task's context is asked for once", "core/task/context.go", `q.opt.Context == nil || err == nil {`, `q.opt.Context == nil || err == nil && name == "" {`, "./core/app", "TestContextOfTask"},
	{"app: a reader goes on where it was", "core/app/reader.go", `	_, err := c.file.WriteAt(fmt.Appendf(nil, cursorForm, seq), 0)
	return err`, `	return nil`, "./core/app", "TestReader"},
	{"app: a reader gets the line again at which it threw", "core/app/reader.go", `		if err := sleep(l.ctx, retryTime); err != nil {
			return err
		}`, `		return nil`, "./core/app", "TestReaderRetries"},
	{"app: a trigger that can't be stopped is told", "core/app/one.go", `	a.lingers = h
	r.mu.Unlock()
	return nil`, `	r.mu.Unlock()
	return nil`, "./core/app", "TestTriggerWithoutStop"},
	{"app: triggers are stopped", "core/app/one.go", `	if stays := h.stopTriggers(); !stays || anew {`, `	if stays := true; !stays || anew {`, "./core/app", "TestTriggerWithoutStop"},
	{"app: one that is off serves no webhook", "core/app/host.go", `	clear(h.hooks)
`, ``, "./core/app", "TestTriggerWithoutStop"},
	{"app: a body has an end", "core/app/serve.go", `		case taken > most:`, `		case taken > 1<<40:`, "./core/app", "TestRoutes"},
	{"app: a stranger's body is smaller", "core/app/serve.go", `		stranger, most = true, maxStranger`, `		stranger = true`, "./core/app", "TestRoutes"},
	{"app: what breaks off in the middle doesn't look whole", "core/app/serve.go", `			panic(http.ErrAbortHandler)`, `			return`, "./core/app", "TestRoutes"},
	{"app: a stream that nobody reads ends", "core/app/serve.go", `			h.abort(c, errors.New("the caller went away"))
			// The head`, `			// The head`, "./core/app", "TestCallerGone"},
	{"app: it imports nothing of the core", "core/app/node/imports.mjs", `!url.href.startsWith(own) && !sdk.includes`, `!url.href.startsWith(root) && !sdk.includes`, "./core/app", "TestBroken"},
	{"app: its memory has an end", "core/app/process.go", `var limits = sandbox.Limits{MemoryBytes: memory, `, `var limits = sandbox.Limits{`, "./core/app", "TestBroken"},
	{"schema: no number ends boxd", "core/schema/schema.go", `n > maxExponent || n < -maxExponent`, `n > 1<<40`, "./core/schema", "TestInput"},
	{"app: what it copies has a depth", "core/app/copy.go", `depth > maxCopiedDeep`, `depth > 1<<20`, "./core/app", "TestCopyTreeEnds"},
	{"app: its workspaces have an end", "core/app/copy.go", `m.spaces >= maxWorkspaces || `, ``, "./core/app", "TestAllThatAnAppCopies"},
	{"app: few large answers are held at once", "core/app/wire.go", `slices.Contains(largeMethods, m.Method)`, `m.Method == ""`, "./core/app", "TestLargeAnswers"},
	{"app: a paid call that can't begin fails", "core/app/calls.go", `	begun := d.Cost && !tc.Fresh()`, `	begun := d.Cost`, "./core/app", "TestPaidCallThatCannotBegin"},
	{"app: a paid call that may have begun stays open", "core/app/calls.go", `	begun := d.Cost && !tc.Fresh()`, `	begun := false`, "./core/app", "TestPaidCallThatCannotBegin"},
	{"app: a call that ran before is not fresh", "core/task/calls.go", `Fresh: known == nil || !known.Started}`, `Fresh: known == nil || true}`, "./core/broker", "TestFreshCalls"},
	{"app: a call that was only asked about is fresh", "core/task/calls.go", `Fresh: known == nil || !known.Started}`, `Fresh: known == nil}`, "./core/broker", "TestFreshCalls"},
	{"app: a job's name is that of the first app", "core/app/registry.go", `i < len(before) && len(b.made.Jobs) > 0; i++`, `i < len(before) && len(b.made.Jobs) > 1<<20; i++`, "./core/app", "TestClashAtStart"},
	{"app: one that loops where it is loaded is ended", "core/app/process.go", `			if p.sb.CPU() > most {`, `			if p.sb.CPU() < 0 {`, "./core/app", "TestLoopsAtLoad"},
	{"app: a job's question for a task that has ended is answered no", "core/app/box.go", `		if errors.As(err, &over) && over.State.Ended() {
			return false, nil // as`, `		if errors.As(err, &over) && j.key == "" {
			return false, nil // as`, "./core/app", "TestJob"},
	{"app: a job's question for a task that has not begun is answered by nobody", "core/app/box.go", `&over) && over.State.Ended() {`, `&over) {`, "./core/app", "TestJob"},
	{"app: each run of a job has a key of its own", "core/app/calls.go", `	key := "job." + strings.ToLower(rand.Text()[:16])`, `	key := "job." + strings.ToLower(rand.Text()[:16])[:0]`, "./core/app", "TestJob"},
	{"app: what is left out is no app", "core/app/registry.go", `name == "node_modules" || slices.Contains(r.opt.Skip, name) {`, `name == "node_modules" {`, "./core/app", "TestLeftOut"},
	{"app: what is left out can't be turned on", "core/app/registry.go", `declare.CheckName(name) != nil || slices.Contains(r.opt.Skip, name) || r.hostDir == ""`, `declare.CheckName(name) != nil || r.hostDir == ""`, "./core/app", "TestLeftOut"},
	{"app: a route's refusal is a page where a browser opened one", "core/app/serve.go", `	if r, ok := w.(Refuser); ok {`, `	if r, ok := w.(Refuser); ok && status < 0 {`, "./core/app", "TestRefusals"},
	{"app: what nothing caught as it was read is told", "core/app/build.go", `method != "broke" || `, `method == "broke" || `, "./core/app", "TestBroken"},
	{"app: what it waits for in vain as it is read is found", "core/app/node/host.mjs", `  wire.keep(false);`, `  wire.keep(true);`, "./core/app", "TestBroken"},
	{"app: work was done though its answer can't be sent", "core/app/node/wire.mjs", `      done = true;`, ``, "./core/app", "TestPaidCallWithoutAnAnswer"},
	{"app: what JSON can't hold is no result", "core/app/node/wire.mjs", `if (text === undefined) throw`, `if (text === null) throw`, "./core/app", "TestThrown"},
	{"app: declared hosts only, at once", "core/app/box.go", `h.space.SetRules(h.made.DeclaredHosts(), !now.DeclaredHostsOnly)`, `h.space.SetRules(h.made.DeclaredHosts(), now.Off != nil || true)`, "./test/reach", "TestDeclaredHostsOnly"},
	{"app: declared hosts only, as it starts", "core/app/one.go", `	if err == nil && r.opt.Network != nil {`, `	if err != nil && r.opt.Network != nil {`, "./core/app", "TestHeededAsItStarts"},
	{"app: what the socket doesn't hold comes in order", "core/app/node/wire.mjs", `if (this.#socket.writableLength === 0) {`, `if (true) {`, "./core/app", "TestAnswersAtOnce"},
	{"app: what comes in parts stays as it came", "core/app/node/wire.mjs", `this.#parts.push(Buffer.from(chunk)); //`, `this.#parts.push(chunk); //`, "./core/app", "TestRoutes"},
	{"app: one that spins by itself is ended", "core/app/host.go", `	h.alongside(h.watchOver)
`, ``, "./core/app", "TestSpinsByItself"},
	{"app: an answer that goes on holds no room", "core/app/serve.go", `	free()
	if out.Status`, `	if out.Status`, "./core/app", "TestRoomOfBodies"},
	{"app: strangers have a smaller room", "core/app/serve.go", `r.none+n > strangeRoom`, `r.none+n > 1<<40`, "./core/app", "TestRoomOfBodies"},
	{"app: nothing in its folder leads out of it", "core/app/declare/source.go", `		case d.Type()&fs.ModeSymlink != 0:`, `		case d.Type()&fs.ModeSymlink != 0 && rel == "?":`, "./core/app/declare", "TestReadSource"},
	{"app: a full disk can be tidied up", "core/app/process.go", `	limits.DiskBytes += j.more`, `	limits.DiskBytes += 0`, "./core/app", "TestFullStore"},
	{"app: a refusal is told once a minute", "core/task/rights.go", `task == "" && !t.refused.due(`, `task == "?" && !t.refused.due(`, "./core/task", "TestRefusalsAreToldOnceAMinute"},
}
