package mutate

func init() { Guards = append(Guards, develop...) }

// develop are the guards of what people who write apps rely on.
var develop = []Guard{
	{"check: what is looked at may write nothing", "cmd/box/check/check.go", `"--permission", "--allow-fs-read="`, `"--no-warnings", "--allow-fs-read="`, "./cmd/box/check", "TestProblems"},
	{"check: a key that a tool reads is listed", "cmd/box/check/source.go", `m[1] == "ctx" && !inCalls[key]`, `m[1] == "ctx" && !inCalls[key] && key == ""`, "./cmd/box/check", "TestProblems"},
	{"check: a key that a route reads is listed", "cmd/box/check/source.go", `m[1] == "box" && !slices.Contains(app.Secrets, key)`, `m[1] == "box" && !slices.Contains(app.Secrets, key) && key == ""`, "./cmd/box/check", "TestProblems"},
	{"check: a host in an address is listed", "cmd/box/check/source.go", `hosts.Match(name, port); !ok {`, `hosts.Match(name, port); !ok && name == "" {`, "./cmd/box/check", "TestProblems"},
	{"check: a package is pinned", "cmd/box/check/check.go", `if !pinned.MatchString(versions[name]) {`, `if versions[name] == "" {`, "./cmd/box/check", "TestPinned"},
	{"check: an app says what it is", "cmd/box/check/source.go", `if r.Declared.Description == "" {`, `if r.Declared.Name == "" {`, "./cmd/box/check", "TestProblems"},
	{"check: a task whose worker is not there is told of", "cmd/box/check/tasks.go", `prompt == "string" || title == ""`, `prompt != "string" || title == ""`, "./cmd/box/check", "TestTasks"},
	{"check: a task's worker may stand in a variable", "cmd/box/check/tasks.go", `		worker = "worker" //`, `		worker = "" //`, "./cmd/box/check", "TestTasks"},
	{"check: who takes a task apart has none", "cmd/box/check/tasks.go", `|| title == "" && prompt == "" && worker == "" {`, `|| title == "-" {`, "./cmd/box/check", "TestTasks"},
	{"check: a task that another build can start is in order", "cmd/box/check/check.go", `	r.Notes = append(r.Notes, Problem`, `	r.Problems = append(r.Problems, Problem`, "./cmd/box/check", "TestTaskWithoutAWorkerThatIsThere"},
	{"box: an answer that does not stand is no success", "cmd/box/cli/owner.go", `	if err == nil && (a.State == "approved") != yes {`, `	if err != nil && (a.State == "approved") != yes {`, "./cmd/box/cli", "TestCommandsOnABox"},
	{"box: a sequence for the terminal goes as a whole", "cmd/box/cli/cli.go", `steering.ReplaceAllString(s, "")`, `s`, "./cmd/box/cli", "TestTextOfTasksSteersNoTerminal"},
	{"box: what a step printed steers no terminal", "cmd/box/cli/printed.go", `clip(lines(strings.TrimSuffix(l, "\r")), mostWide)`, `clip(strings.TrimSuffix(l, "\r"), mostWide)`, "./cmd/box/cli", "TestPrinted"},
	{"box: a failed try is told", "cmd/box/cli/printed.go", `	if d.Exit != nil && *d.Exit != 0 {`, `	if d.Exit != nil && *d.Exit < 0 {`, "./cmd/box/cli", "TestPrinted"},
	{"box: an empty log is not said to be whole", "core/actionlog/verify.go", `	if r.OK() && r.Lines == 0 {`, `	if r.OK() && r.Lines < 0 {`, "./core/actionlog", "TestVerifyOfAnEmptyLog"},
	{"box: a flag is given once", "cmd/box/cli/flags.go", `	if o.given {`, `	if o.given && o.name == "" {`, "./cmd/box/cli", "TestWrongFlags"},
	{"box: a flag of all commands is given once", "cmd/box/cli/cli.go", `		if asJSON {
			return twice`, `		if asJSON && len(args) == 0 {
			return twice`, "./cmd/box/cli", "TestWrongFlags"},
	{"screen: that the disk is nearly full is told once", "boot/data/data.go", `less than %s of %s are free.", disk.Bytes(bound)`, `less than %s of %s are free.", disk.Bytes(free)`, "./boot/data", "TestLowSpace"},
	{"apps: what an app prints holds no key", "core/app/output.go", `r.opt.Vault.Redact(strings.ToValidUTF8(string(rest[:end]), "\uFFFD"))`, `strings.ToValidUTF8(string(rest[:end]), "\uFFFD")`, "./core/app", "TestPrinted"},
	{"apps: a key that is printed in two pieces is found", "core/app/output.go", `if !follow || len(rest)-end > maxLine {`, `if !follow || len(rest) > end {`, "./core/app", "TestPrintedAsItComes"},
	{"apps: what an app may declare is one table", "core/app/declare/app.go", `c.fail(at+".name", "there is another one of the name %s", n)`, `_ = n`, "./test/tracks", "TestDeclared"},
	{"tracks: the model app's prices are the box's", "core/budget/prices.json", `"claude-opus-5": {"input": 500,`, `"claude-opus-5": {"input": 501,`, "./test/tracks", "TestPricesAreCurrent"},
}
