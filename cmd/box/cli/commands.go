package cli

import (
	"flag"
	"strings"
)

// Commands is the table of all verbs, in the order in which help shows them.
var Commands = []Command{
	{Name: "status", Short: "How the box fares", Run: status,
		Long: "Shows the box's name, version, disk, memory and clock, how many agents work and\nwhether any question waits for an answer."},
	{Name: "task new", Args: "[flags] TITLE", Short: "Start a task", Most: 1, Flags: taskNewFlags, Run: taskNew,
		Long: "Starts a task and prints its id. The prompt comes from --prompt, from a file with\n--file, or from standard input. For worker fake it is one command a line:\n\n  box task new --worker fake --prompt 'write hello.txt Hello' First\n\nCalls of tools and of models wait for an OK above --budget; what the worker books\nitself (cost) is spent already: it counts and never asks. The commands of fake\nare in docs/script.md.\n\nWith --wait it stays until the task ends and fails when the task did."},
	{Name: "task list", Args: "[flags]", Short: "List tasks, newest first", Flags: taskListFlags, Run: taskList,
		Long: "Lists tasks with state, age, cost, title and latest step. --before takes the last\nid of a page and gives the next one."},
	{Name: "task show", Args: "ID", Short: "Show one task", Least: 1, Most: 1, Run: taskShow,
		Long: "Shows everything that the box knows of a task, and the files that it changed. What it\nprinted is in its log: box task log ID."},
	{Name: "task log", Args: "[-f] ID", Short: "Show what a task did", Least: 1, Most: 1, Flags: followFlags, Run: taskLog,
		Long: "Shows the log's lines of one task, in their order, and below a step what it printed:\nlong output without its middle. -f goes on with new ones until the task ends."},
	{Name: "task diff", Args: "ID PATH", Short: "Show what a task changed in a file", Least: 2, Most: 2, Run: taskDiff,
		Long: "Shows the change of a file as a unified diff against what the task saw."},
	{Name: "task undo", Args: "[--preview] ID", Short: "Take a task's changes out again", Least: 1, Most: 1, Flags: undoFlags, Run: taskUndo,
		Long: "Takes a task's changes out of its workspace, and stops it if it still works. Files\nthat a later task changed too stay as that task left them. --preview only says\nwhat would happen to which file."},
	{Name: "task stop", Args: "ID", Short: "Stop a task", Least: 1, Most: 1, Run: taskStop,
		Long: "Stops a task without undoing anything; what it did is not taken over."},
	{Name: "approvals", Args: "[--all]", Short: "List questions that wait for an answer", Flags: approvalsFlags, Run: approvals,
		Long: "Lists the questions that tasks wait on, with what they cost. --all shows the\nanswered ones too."},
	{Name: "approve", Args: "[--reason TEXT] ID", Short: "Answer a question with yes", Least: 1, Most: 1, Flags: reasonFlags, Run: approve,
		Long: "Answers a question with yes. The first answer holds: a later one changes nothing,\nand is told who was first. Exit code 3 when the first was no."},
	{Name: "deny", Args: "[--reason TEXT] ID", Short: "Answer a question with no", Least: 1, Most: 1, Flags: reasonFlags, Run: deny,
		Long: "Answers a question with no; --reason goes to the task, too. Exit code 3\nwhen it was answered with yes before."},
	{Name: "log", Args: "[flags]", Short: "Show the action log", Flags: logFlags, Run: showLog,
		Long: "Shows what happened on the box, one line an event. -f goes on with new ones as they\nhappen; --after begins behind a line's number; --task keeps one task's."},
	{Name: "log verify", Args: "[--head LINE:HASH]", Short: "Prove that the log is whole", Flags: verifyFlags, Run: logVerify,
		Long: "Reads log.jsonl in BOX_HOME itself, whether the box runs or not, and says which\nline was changed, removed, moved or cut off. Exit code 1 when one was. --head takes\nan end of the log that was written down, as boxd prints it when it stops and\n`box status` shows it: with it nobody can cut lines off the end unnoticed, whatever\nelse they delete.\n\n  box log verify --head 205:d4f3296aa2b45367c18de33617adcb60c10782199a9815f402a7506a43507f2b"},
	{Name: "log quarantine", Short: "Cut damaged lines out of the log", Run: logQuarantine,
		Long: "boxd doesn't start on a log with a line that is not what was written. Where the log\ncan't be put back from a copy, this cuts such lines out, with boxd stopped: what is\ncut out goes into a file beside the log, a note with its hash takes the place of each\nlost line, and `box log verify` tells of a known gap from then on. What the lost lines\nsaid is not known to the box any more: a payment, an answer or an undo among them. A\ntask that one of them may have stopped goes on once you say so. A log that is gone\nas a whole is begun anew."},
	{Name: "workspace list", Short: "List the workspaces", Run: workspaceList,
		Long: "Lists the workspaces by name."},
	{Name: "workspace new", Args: "NAME", Short: "Make an empty workspace", Least: 1, Most: 1, Run: workspaceNew,
		Long: "Makes an empty workspace. Names have letters, digits, _, . and -."},
	{Name: "workspace put", Args: "[--to PATH] NAME FOLDER|FILE...", Short: "Put files into a workspace", Least: 2, Most: -1, Flags: putFlags, Run: workspacePut,
		Long: "Puts files into a workspace: what is in a folder, with all its folders, links and\nmodes, or single files. Two that would go to one place are refused. It is one finished task,\nso it can be undone:\n\n  git clone https://example.com/project && box workspace put home project"},
	{Name: "workspace ls", Args: "NAME [PATH]", Short: "List a folder of a workspace", Least: 1, Most: 2, Run: workspaceLs,
		Long: "Lists a folder as it is now: the workspace and every done task."},
	{Name: "workspace cat", Args: "NAME PATH", Short: "Print a file of a workspace", Least: 2, Most: 2, Run: workspaceCat,
		Long: "Prints a file as it is now, byte for byte. --json is refused: a file has no JSON form."},
	{Name: "workspace rm", Args: "NAME PATH", Short: "Delete a file or folder of a workspace", Least: 2, Most: 2, Run: workspaceRm,
		Long: "Deletes a file, or a folder with all in it. It is a finished task, so it can be\nundone."},
	{Name: "app list", Short: "List the apps", Run: appList,
		Long: "Lists every app of the box, whether it is on, what is wrong with it, and which keys\nit still needs."},
	{Name: "app on", Args: "NAME", Short: "Turn an app on", Least: 1, Most: 1, Run: appOn,
		Long: "Turns an app on. One that is on already is read anew when its files changed."},
	{Name: "app off", Args: "NAME", Short: "Turn an app off", Least: 1, Most: 1, Run: appOff,
		Long: "Turns an app off: its tools, pages and triggers are gone at once."},
	{Name: "app permissions", Args: "[NAME [WHAT=on|off]...]", Short: "Show or change what an app may do", Most: 50, Run: appPermissions,
		Long: "Shows what each app declares or used, whether it may, and when it last did. With\nchanges it makes them; they hold at once, for what runs too:\n\n  box app permissions weather shell=off host:example.com=off key:WEATHER_KEY=on\n  box app permissions weather dailyLimitCents=500 diskCapBytes=2000000000\n  box app permissions weather dailyLimitCents=none declaredHostsOnly=on"},
	{Name: "app new", Args: "[--in FOLDER] NAME", Short: "Make the folder of a new app", Least: 1, Most: 1, Flags: appNewFlags, Run: appNew,
		Long: "Makes an app to begin with: a tool, a schedule, a page, a test and a demo step, all\nin order. It goes to the tracks/ where you are, else to that of the source tree, and\nneeds no box:\n\n  box app new weather\n  box app check tracks/weather\n  box app dev tracks/weather"},
	{Name: "app check", Args: "[FOLDER]", Short: "Say what is wrong with an app", Most: 1, Run: appCheck,
		Long: "Reads an app's folder, the one it is run in when none is named, and says all that\nthe box would refuse: names, syntax that is more than types, imports, what is declared\nwrong. It also tells of keys and hosts that are used and not declared, of packages\nthat are not pinned, and of types that don't fit. It needs no box. Exit code 1 when\nanything is wrong."},
	{Name: "app dev", Args: "[--running] [--home FOLDER] [FOLDER]", Short: "Run an app while it is written", Most: 1, Flags: appDevFlags, Run: appDev,
		Long: "Starts a box of its own with the app on, says where its pages are, reads the app\nanew whenever a file of it is saved, and follows the log and what the app prints.\nCtrl-C ends it, and the box with it. With --running it uses the box that runs already,\nwhose folder of apps holds the app."},
	{Name: "net test", Args: "[--task ID] HOST[:PORT]", Short: "Say whether a task may reach a host, and why", Least: 1, Most: 1, Flags: netTestFlags, Run: netTest,
		Long: "Says which of a task's hosts lets HOST:PORT through and where its name leads now,\nor why not, as the task's network decides: with the hosts of its worker's model, and\nwithout those that you turned off for its app. Without --task it says what a task would\nget that has HOST:PORT itself among its hosts. Without a port 443 is meant. Exit code 1\nwhen it is refused.\n\n  box net test packages.example.org --task fix-the-build"},
	{Name: "pair", Args: "[--role owner|device]", Short: "Make a code that pairs a phone or computer", Flags: pairFlags, Run: pair,
		Long: "Shows a code of 8 digits and a QR code. The code pairs one device, lasts 5 minutes\nand ends after 5 wrong tries. On the new computer:\n\n  box pair --with CODE --name \"My laptop\"\n\nwith BOX_URL set to the box; it prints the token for BOX_TOKEN."},
	{Name: "devices", Short: "List the paired devices", Run: devices,
		Long: "Lists the paired devices with their roles and when each called last."},
	{Name: "devices remove", Args: "ID", Short: "Remove a paired device", Least: 1, Most: 1, Run: deviceRemove,
		Long: "Removes a device: its token ends at once and for good."},
	{Name: "vault list", Short: "List the keys in the vault", Run: vaultList,
		Long: "Lists the names of the keys and when each was set; never a value."},
	{Name: "vault set", Args: "NAME", Short: "Set a key, read from standard input", Least: 1, Most: 1, Run: vaultSet,
		Long: "Sets a key. The value comes from standard input, so that it stands in no history\nand no list of processes; on a terminal it is asked for and not shown:\n\n  box vault set FACTORY_API_KEY < key.txt"},
	{Name: "vault delete", Args: "NAME", Short: "Remove a key", Least: 1, Most: 1, Run: vaultDelete,
		Long: "Removes a key from the vault at once."},
	{Name: "settings", Args: "[NAME=VALUE...]", Short: "Show settings, or change some", Most: -1, Run: showSettings,
		Long: "Shows every setting, or changes those that are named, all of them or none:\n\n  box settings defaultBudgetCents=200 theme=dark"},
	{Name: "pause", Short: "Pause all agents", Run: func(s *session) error { return setPause(s, true) },
		Long: "Pauses all agents: those that work stand still, new tasks wait."},
	{Name: "resume", Short: "Let agents go on", Run: func(s *session) error { return setPause(s, false) },
		Long: "Lets all agents go on after a pause."},
	{Name: "spend", Args: "[--from DAY] [--to DAY]", Short: "Show what was spent", Flags: spendFlags, Run: spend,
		Long: "Shows US cents by UTC day, app and model."},
}

// words is a flag that may be given several times.
type words []string

func (w *words) String() string     { return strings.Join(*w, ", ") }
func (w *words) Set(s string) error { *w = append(*w, s); return nil }

// value is what a flag of the command was set to.
func (s *session) value(name string) string { return s.set.Lookup(name).Value.String() }

// on says whether a flag of the command was set.
func (s *session) on(name string) bool { return s.value(name) == "true" }

// given says whether a flag stood on the command line.
func (s *session) given(name string) bool {
	found := false
	s.set.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}
