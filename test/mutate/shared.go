package mutate

func init() { Guards = append(Guards, shared...) }

// shared are the guards of what many tasks have together, and of what a layer remembers.
var shared = []Guard{
	{"sandbox: each task has a limit of waiting signals", "sandbox/park.go", `			{Type: rlimitSigpending, Soft: mostSignals, Hard: mostSignals},
`, ``, "./sandbox", "TestShared/signals"},
	{"layers: a folder that others speak for is hidden", "sandbox/layers/changes.go", `f.Hidden = f.Change.Change != Modified`, `f.Hidden = false`, "./sandbox/layers", "TestFoldersThatOthersSpeakFor"},
	{"layers: a folder with nothing in it is told", "sandbox/layers/changes.go", `if differs && len(c.pending) == depth {`, `if differs && len(c.pending) == depth && !r.Hidden && r.Change.Change == Modified {`, "./sandbox/layers", "TestFoldersThatOthersSpeakFor"},
	{"layers: the newest layer's name counts", "sandbox/layers/stack.go", `slices.SortStableFunc(all, func(a, b named)`, `slices.Reverse(all); slices.SortStableFunc(all, func(a, b named)`, "./sandbox/layers", "TestUndoTellsTheTruth|TestUndoProperty/temporary"},
}
