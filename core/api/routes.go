package api

import (
	"net/http"

	"gurtos/core/approval"
	"gurtos/core/device"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/vault"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
)

// People who may do most things.
const (
	owners = screen | owner
	paired = screen | owner | member
)

var pathParam = Param{"path", "string", "A path inside the workspace, with / between folders; the workspace itself when it is missing."}

// Routes is the table. Its order is that of the documents made from it.
var Routes = []Route{
	{Method: "GET", Path: "/", Who: all, Page: true, Out: Media{"text/html", "A page that says what the box is and how to pair."}, Do: (*Server).page,
		Doc: "The box's own page."},
	{Method: "GET", Path: "/api/health", Who: all, Out: Health{}, Do: (*Server).health,
		Doc: "Says that the box answers."},
	{Method: "GET", Path: "/api/openapi.json", Who: all, Out: Media{"application/json", "An OpenAPI 3.1 document."}, Do: (*Server).openAPI,
		Doc: "This API as an OpenAPI 3.1 document."},
	{Method: "GET", Path: "/api/box", Who: paired, Out: Box{}, Do: (*Server).box,
		Doc: "What the box is and how it fares."},

	{Method: "GET", Path: "/api/tasks", Who: paired | window, Out: []task.Task{}, Do: (*Server).tasks,
		Doc: "Tasks, newest first.",
		Query: []Param{
			{"state", "string", "Only tasks in this state: queued, running, waiting, done, failed or undone."},
			{"workspace", "string", "Only tasks of this workspace."},
			{"before", "string", "Only tasks older than the one of this id: the last id of a page gives the next one."},
			{"limit", "integer", "How many at most, 1 to 1000, 100 when missing."},
		}},
	{Method: "POST", Path: "/api/tasks", Who: paired, Body: taskBody, In: NewTask{}, Out: task.Task{}, Status: http.StatusCreated, Do: (*Server).newTask,
		Doc: "Starts a task."},
	{Method: "GET", Path: "/api/tasks/{id}", Who: paired | window, Out: task.Task{}, Do: (*Server).task,
		Doc: "One task."},
	{Method: "GET", Path: "/api/tasks/{id}/undo", Who: paired, Out: UndoPreview{}, Do: (*Server).undoPreview,
		Doc: "What an undo of the task would do to which file."},
	{Method: "GET", Path: "/api/tasks/{id}/reach", Who: paired, Out: netpolicy.Explanation{}, Do: (*Server).reach,
		Doc:   "Whether the task may reach a host, and why, as its network decides now: with the hosts of its worker's model, and without those that the owner turned off.",
		Query: []Param{{"host", "string", "HOST[:PORT]; 443 without a port. Needed."}}},
	{Method: "POST", Path: "/api/tasks/{id}/undo", Who: paired, Out: task.Task{}, Do: (*Server).undo,
		Doc: "Takes the task's changes out of its workspace; where a later task changed the same file, that task's file stays."},
	{Method: "POST", Path: "/api/tasks/{id}/stop", Who: paired, Out: task.Task{}, Do: (*Server).stop,
		Doc: "Stops the task without an undo; it is failed then."},
	{Method: "GET", Path: "/api/tasks/{id}/changes", Who: paired, Out: []Change{}, Do: (*Server).changes,
		Doc: "The files that the task changed; 410 once its layer is deleted."},
	{Method: "GET", Path: "/api/tasks/{id}/diff", Who: paired, Out: Media{"text/plain", "A unified diff."}, Do: (*Server).diff,
		Doc:   "A file's unified diff against what the task saw; 410 once its layer is deleted.",
		Query: []Param{{"path", "string", "The file inside the workspace. Needed."}}},

	{Method: "GET", Path: "/api/approvals", Who: paired | window, Out: []approval.Approval{}, Do: (*Server).approvals,
		Doc:   "Questions to the owner, oldest first.",
		Query: []Param{{"state", "string", "Only those that are pending, approved or denied."}}},
	{Method: "POST", Path: "/api/approvals/{id}", Who: paired | window, In: Answer{}, Out: approval.Approval{}, Do: (*Server).answer,
		Doc: "Answers a question. The first answer holds; a later one gets the first back."},

	{Method: "GET", Path: "/api/log", Who: owners, Out: []LogEvent{}, Do: (*Server).log,
		Doc: "Lines of the action log, streamed in their order.",
		Query: []Param{
			{"after", "integer", "Only lines with a greater seq; 0 when missing, the whole log."},
			{"task", "string", "Only lines of this task."},
			{"limit", "integer", "How many at most; all when missing."},
		}},
	{Method: "GET", Path: "/api/events", Who: paired, Out: Media{"text/event-stream", "One server-sent event a line of the log: its id is the seq, its data the line."}, Do: (*Server).events,
		Doc:   "The log live, as server-sent events; Last-Event-ID goes on where a stream broke off. A device that is no owner gets tasks and approvals only.",
		Query: []Param{{"after", "integer", "Only lines with a greater seq; 0 when missing."}}},

	{Method: "GET", Path: "/api/vault", Who: owners, Out: []vault.Key{}, Do: (*Server).vaultList,
		Doc: "Names of the keys and when each was set; never a value."},
	{Method: "PUT", Path: "/api/vault/{name}", Who: owners, In: Value{}, Out: vault.Key{}, Do: (*Server).vaultSet,
		Doc: "Sets a key; it takes effect at once. The body is the value as it is, or {value}."},
	{Method: "DELETE", Path: "/api/vault/{name}", Who: owners, Out: OK{}, Do: (*Server).vaultDelete,
		Doc: "Removes a key at once."},

	{Method: "GET", Path: "/api/apps", Who: paired, Out: []App{}, Do: (*Server).apps,
		Doc:   "Apps that are on; with all=1, for the owner, every app of the box.",
		Query: []Param{{"all", "string", "1 for every app, on or off."}}},
	{Method: "PUT", Path: "/api/apps/{app}", Who: owners, In: Switch{}, Out: App{}, Do: (*Server).switchApp,
		Doc: "Turns an app on or off."},
	{Method: "GET", Path: "/api/apps/{app}/output", Who: owners, Out: Media{"text/plain", "The last 64 KB that the app printed."}, Do: (*Server).appOutput,
		Doc:   "What an app printed, for who writes it; with follow=1 it goes on as it comes.",
		Query: []Param{{"follow", "string", "1 to go on with what comes."}}},
	{Method: "POST", Path: "/api/apps/{app}/window", Who: paired, Out: WindowToken{}, Do: (*Server).openWindow,
		Doc: "Opens a window on an app's page; 404 when the app is off."},
	{Method: "GET", Path: "/api/permissions", Who: owners, Out: []Permissions{}, Do: (*Server).permissions,
		Doc: "What each app may do."},
	{Method: "PUT", Path: "/api/permissions/{app}", Who: owners, In: PermissionsChange{}, Out: Permissions{}, Do: (*Server).setPermissions,
		Doc: "Changes what an app may do."},

	{Method: "GET", Path: "/api/settings", Who: owners, Out: settings.Values{}, Do: (*Server).settings,
		Doc: "Every setting."},
	{Method: "PUT", Path: "/api/settings", Who: owners, In: SettingsChange{}, Out: settings.Values{}, Do: (*Server).setSettings,
		Doc: "Changes the settings that are named, all of them or none."},
	{Method: "POST", Path: "/api/pause", Who: paired, In: Pause{}, Out: Pause{}, Do: (*Server).pause,
		Doc: "Pauses all agents, or lets them go on."},

	{Method: "GET", Path: "/api/workspaces", Who: paired, Out: []workspace.Workspace{}, Do: (*Server).workspaces,
		Doc: "The workspaces."},
	{Method: "POST", Path: "/api/workspaces", Who: paired, In: NewWorkspace{}, Out: workspace.Workspace{}, Status: http.StatusCreated, Do: (*Server).newWorkspace,
		Doc: "Makes an empty workspace."},
	{Method: "GET", Path: "/api/workspaces/{name}/files", Who: paired, Out: Media{"*/*", "A file's bytes, or a folder's entries as JSON: [{name, kind, size, mtime}]."}, Do: (*Server).readFile,
		Doc: "A file or folder as it is now: the workspace and every done task.", Query: []Param{pathParam}},
	{Method: "PUT", Path: "/api/workspaces/{name}/files", Who: owners, Body: fileBody, In: Media{"*/*", "The file's bytes, or a tar."}, Out: task.Task{}, Status: http.StatusCreated, Do: (*Server).putFiles,
		Doc:   "Puts a file in, or with unpack=tar a whole tree below path; it is a finished task, so it can be undone.",
		Query: []Param{pathParam, {"unpack", "string", "tar when the body is a tar archive to unpack at path."}}},
	{Method: "DELETE", Path: "/api/workspaces/{name}/files", Who: owners, Out: task.Task{}, Do: (*Server).deleteFile,
		Doc: "Deletes a file or a folder; it is a finished task, so it can be undone.", Query: []Param{pathParam}},

	{Method: "POST", Path: "/api/pair/code", Who: owners, In: PairCodeFor{}, Out: PairCode{}, Status: http.StatusCreated, Do: (*Server).pairCode,
		Doc: "Makes a code of 8 digits that pairs one device within 5 minutes; 5 wrong tries end it."},
	{Method: "POST", Path: "/api/pair", Who: all, In: PairWith{}, Out: Paired{}, Status: http.StatusCreated, Do: (*Server).pair,
		Doc: "Pairs a device with a code and gives it its token, once. Tries are limited per address and in all."},
	{Method: "GET", Path: "/api/devices", Who: owners, Out: []device.Device{}, Do: (*Server).devices,
		Doc: "The paired devices."},
	{Method: "DELETE", Path: "/api/devices/{id}", Who: paired, Out: OK{}, Do: (*Server).removeDevice,
		Doc: "Removes a device and ends its token. A device that is no owner may remove itself alone."},

	{Method: "GET", Path: "/api/spend", Who: owners, Out: []Spend{}, Do: (*Server).spending,
		Doc: "US cents by UTC day, app and model, newest day first.",
		Query: []Param{
			{"from", "string", "First UTC day, such as 2026-12-01; the first of all when missing."},
			{"to", "string", "Last UTC day; the last of all when missing."},
		}},
	{Method: "GET", Path: "/api/update", Who: owners, Out: Update{}, Later: "updates", Do: (*Server).notYet,
		Doc: "System slots, their versions and the reason of the last fallback."},
	{Method: "POST", Path: "/api/update", Who: owners, Body: fileBody, In: Media{"application/octet-stream", "An update bundle."}, Out: Update{}, Later: "updates", Do: (*Server).notYet,
		Doc: "Installs an update bundle."},

	{Method: "POST", Path: "/hook/{app}/{name}", Who: paired, Body: appBody, In: Media{"application/json", "Whatever the app's webhook takes."}, Out: Media{"application/json", "What the app's webhook says."}, Gate: (*Server).hookGate, Do: (*Server).hook,
		Doc: "Calls an app's webhook."},
	appRow("GET", "An app's page or route."),
	appRow("POST", "An app's route."),
	appRow("PUT", "An app's route."),
	appRow("PATCH", "An app's route."),
	appRow("DELETE", "An app's route."),
	{Method: "GET", Path: "/kit/{file}", Who: all, Page: true, Out: Media{"*/*", "A script or style."}, Do: (*Server).kitRoute,
		Doc: "What pages of apps may use: gurtos.js, gurtos.css and the script that the box puts into them."},
	{Method: "GET", Path: "/metrics", Who: owners, Out: Media{"text/plain", "Prometheus text."}, Do: (*Server).metrics,
		Doc: "Counters and gauges of the box, as Prometheus reads them."},
}

// appRow is the row of a method of apps' routes. Nobody may call the open ones, with a
// smaller body; for the others appGate asks for a token.
func appRow(method, doc string) Route {
	r := Route{Method: method, Path: "/t/{app}/{path...}", Who: all, Body: appBody, Strangers: strangerBody, Out: Media{"*/*", "What the app's route says."},
		Gate: (*Server).appGate, Do: (*Server).appPage, Doc: doc}
	if method != http.MethodGet && method != http.MethodDelete {
		r.In = Media{"*/*", "Whatever the app's route takes."}
	}
	return r
}
