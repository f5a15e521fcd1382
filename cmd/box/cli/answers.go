package cli

import "encoding/json"

// What this command reads of the box's answers. The core's own types would bring
// the sandbox along, which needs C; tests hold these to what the box sends.

type taskAnswer struct {
	ID, Title, Prompt, Workspace, Worker, Model, Source, Seat, State, User string
	Tools, Hosts, Layers                                                   []string
	BudgetCents, CostCents                                                 json.Number
	Step, Summary, Error, App, CreatedAt, UpdatedAt                        string
}

// ended says whether a task's state is one that it keeps unless it is undone.
func ended(state string) bool { return state == "done" || state == "failed" || state == "undone" }

type changeAnswer struct {
	Path, Change  string
	Size          int64
	AlsoChangedBy []string
}

type undoAnswer struct {
	Paths []struct {
		Path, Outcome string
		Later         []string
	}
}

type approvalAnswer struct {
	ID, Task, Question, State, By string
	CostCents                     json.Number
}

type boxAnswer struct {
	Name, URL, Version, Slot string
	Uptime                   int64
	Disk                     struct{ Used, Free int64 }
	Memory                   struct{ Total, Available int64 }
	TimeSynced               bool
	LogHead                  struct {
		Seq  int64
		Hash string
	}
	Weaker []string
}

type healthAnswer struct{ State, Error string }

type codeAnswer struct{ Code, URL, ExpiresAt string }

type pairedAnswer struct {
	Token  string
	Device struct{ Name string }
}

type spendAnswer struct {
	Day, App, Model string
	Cents           json.Number
}
