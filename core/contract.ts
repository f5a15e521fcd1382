// What an app and the box promise each other. An app imports its types from this file, the ready-made triggers from triggers.ts, and nothing else of
// the box. Types alone stand here, so importing it costs an app nothing when it runs.
//
// Units: money is in US cents and may have fractions, except where a whole number is asked for; times are ISO 8601 in UTC; sizes are in bytes.
// Fields of an edition that a box is not are marked so: using one is refused in one sentence that names the edition, never accepted and ignored.

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// Values

/** Anything that JSON can say: what goes over a socket and into the log. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json | undefined };

/** A JSON Schema, draft 2020-12 where it names no other. */
export type JSONSchema = boolean | { [keyword: string]: unknown };

/** What a function may give at once or later. */
export type Awaitable<T> = T | Promise<T>;

/** Ends what its function began. */
export type Stop = () => void;

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// Tasks

/** Who works on a task: `droid` is a model with tools of its own, `fake` follows a script and costs nothing. */
export type Worker = 'droid' | 'fake';

/** How much Droid may do by itself. The box holds it to this: at low without network and with a budget of 0, at medium with at most 100 cents. */
export type Autonomy = 'low' | 'medium' | 'high';

/** An order for a task. Only `title` and `prompt` have to be there; a name that is not listed here is refused with the name. */
export interface TaskSpec {
  /** What people call it; 1 to 200 characters. */
  title: string;
  /** The work itself, 1 to 100,000 characters; the fake worker reads it as one command a line. */
  prompt: string;
  /** Which workspace's files it sees and changes, as a copy of its own until it is done; letters, digits, `_`, `.` and `-`. Default `home`. */
  workspace?: string;
  /** Who does the work. Default `droid`. */
  worker?: Worker;
  /** Which model Droid uses: haiku, sonnet, opus or a full id that starts with `claude-`. Default what BOX_MODEL says, else claude-sonnet-5-5. */
  model?: string;
  /** Which tools the task can call, by full name; each must belong to an app that is on. Default none. */
  tools?: string[];
  /** Where its network leads: `example.com`, `*.example.com` or `example.com:8080`, at most 50. Without the field, what Settings say; `[]` is nowhere. */
  hosts?: string[];
  /** From which sum on it needs the owner's OK, in whole US cents from 0 to 100000. Default Settings `defaultBudgetCents`, 100 on a new box. */
  budgetCents?: number;
  /** Whose idea the task was, as people read it, such as `schedule` or `jira:BOX-12`. Default the app's name. */
  source?: string;
  /** GurtOS Personal: a folder of the owner's own that the task gets a copy of. */
  folder?: string;
  /** GurtOS Personal: several such folders at once; `folder` is the first of them. */
  folders?: string[];
  /** The agent's role in it, for people, such as Credit analyst; at most 60 characters, shown beside the task. */
  seat?: string;
  /** How Droid goes about it; has no effect on the fake worker. */
  droid?: {
    /** Write a plan first and wait with everything else until the owner has approved it. Default false. */
    plan?: boolean;
    /** What it may do by itself. Default what the spec's own hosts and budget allow. */
    autonomy?: Autonomy;
  };
}

/**
 * Where a task stands. queued → running, failed, undone; running ⇄ waiting; both → done, failed, undone; done and failed → undone.
 *
 * - `queued`: made, and its turn has not come (or all agents are paused)
 * - `running`: its worker is at it
 * - `waiting`: at least one of its questions has no answer yet
 * - `done`: its changes are part of the workspace
 * - `failed`: ended with an error, and its changes are in nobody's view
 * - `undone`: taken back, while the changes of other tasks stay
 */
export type TaskState = 'queued' | 'running' | 'waiting' | 'done' | 'failed' | 'undone';

/** GurtOS Personal: what became of a finished task's changes to real folders. */
export type Review = 'pending' | 'kept' | 'conflict' | 'undone';

/** A task as the box knows it: its order with every default filled in, and what became of it. */
export interface Task extends TaskSpec {
  /** The workspace whose files it sees and changes. */
  workspace: string;
  /** Who does the work. */
  worker: Worker;
  /** The tools it can call. */
  tools: string[];
  /** The hosts its network leads to, in their normal spelling. */
  hosts: string[];
  /** The sum above which it asks, in whole US cents. */
  budgetCents: number;
  /** Whose idea it was. */
  source: string;
  /** Its name for the box: `t` and then letters and digits. */
  id: string;
  /** Where it stands now. */
  state: TaskState;
  /** The Linux user of its own that it runs as, `box-<id>`. */
  user: string;
  /** The done tasks whose changes were in its view when it started, the newest first. */
  layers: string[];
  /** What it has cost so far, tools and model together, in US cents and unrounded. */
  costCents: number;
  /** The last thing it said it did, cut to 200 characters; the log has it whole. */
  step?: string;
  /** When it was made. */
  createdAt: string;
  /** When the log last said something about it. */
  updatedAt: string;
  /** Why it failed, in a sentence for people. */
  error?: string;
  /** What it did in short, when its worker wrote that down. */
  summary?: string;
  /** GurtOS Personal: how far its changes have got into the real folders. */
  review?: Review;
  /** GurtOS Business: the person who asked for it; only the box sets this. */
  requestedBy?: string;
  /** The app that started it; only the box sets this, whatever `source` says. */
  app?: string;
}

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// Approvals

/** Whether a question has its answer. The first answer holds for ever. */
export type ApprovalState = 'pending' | 'approved' | 'denied';

/** One question to the owner, and its answer once there is one. */
export interface Approval {
  /**
   * Names the question for ever: `<task>.task.<key>` when the task asked, `<task>.tool.<call's key>.ask.<hash>` when a tool did, `<task>.budget.<action>`,
   * `<task>.upload.<host>` and `<task>.resume.<line>` when the box did.
   */
  id: string;
  /** The task it is about. */
  task: string;
  /** The words that people see. */
  question: string;
  /** How much money a yes would spend, in US cents; 0 for questions about anything else. */
  costCents: number;
  /** Who would get the money, or which host is to be reached. */
  payee?: string;
  /** What the money or the action is for. */
  purpose?: string;
  /** Whether it was answered, and how. */
  state: ApprovalState;
  /** Whose answer it was: a phone's name, `box screen`, an app's name, or `undo` and `task ended` for questions that fell away. */
  by?: string;
  /** What the one who answered wrote with it, at most 1,000 characters. */
  reason?: string;
  /** Of a budget question: the key of the call that runs on a yes. */
  key?: string;
  /** Of a budget question: the tool that runs on a yes. */
  tool?: string;
  /** Of a budget question: the input it runs with, to the byte. */
  input?: Json;
  /** GurtOS Business: who answered, by the person's id. */
  person?: string;
  /** GurtOS Business: the phone or screen on which that was. */
  via?: string;
  /** GurtOS Business: the person whose task it is, who may not answer it. */
  askedBy?: string;
  /** GurtOS Business: whom the rules sent it to, and by which rule. */
  route?: string;
  /** GurtOS Business: the seat in shadow mode whose suggestion it is. */
  shadow?: string;
}

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// The action log

/** What each line of the log has. Order is `seq`; `at` follows the clock and may step. A reader passes over fields that it does not know. */
export interface LogLine {
  /** The line's number, from 1. */
  seq: number;
  /** When it was written, to the millisecond. */
  at: string;
  /** By how many milliseconds the clock was stepped just before; absent when it was not. */
  clock?: number;
  /** True on the first line after boxd started: nobody knows how long the box was off before it. */
  start?: boolean;
  /** SHA-256, in hex, of the line before; empty on line 1. */
  prev: string;
}

/** How many tokens a model call took, by kind. */
export interface Tokens {
  /** Tokens read that no cache had. */
  input: number;
  /** Tokens written by the model. */
  output: number;
  /** Tokens read and put into the cache. */
  cacheWrite: number;
  /** Tokens read out of the cache. */
  cacheRead: number;
}

/** One changed path of a task. */
export interface Change {
  /** Beneath the workspace, with `/` between folders. */
  path: string;
  /** What happened to it. */
  change: 'added' | 'modified' | 'deleted';
}

/** A task was made. */
export interface TaskCreated extends LogLine {
  /** Tells it from the other ten. */
  type: 'task.created';
  /** The task's id. */
  task: string;
  /** The order with every default filled in. */
  spec: TaskSpec & Pick<Task, 'workspace' | 'worker' | 'tools' | 'hosts' | 'budgetCents' | 'source'>;
  /** The Linux user that it gets. */
  user: string;
  /** The app that made it. */
  app?: string;
}

/** A task came to a new state. */
export interface TaskStateChanged extends LogLine {
  /** Tells it from the other ten. */
  type: 'task.state';
  /** The task's id. */
  task: string;
  /** The state it is in from this line on. */
  state: TaskState;
  /** On the first `running`: the done tasks whose changes it sees, newest first. */
  layers?: string[];
  /** On `failed`: why. */
  error?: string;
  /** On `done`: what it did, when it said so. */
  summary?: string;
}

/** A worker told what it did. The files of everything before it are on the disk. */
export interface TaskStep extends LogLine {
  /** Tells it from the other ten. */
  type: 'task.step';
  /** The task's id. */
  task: string;
  /** What it did, in words. */
  text: string;
  /** Whatever the worker needs to go on from here after a restart. */
  data?: Json;
}

/** A tool is about to run. */
export interface ToolCalled extends LogLine {
  /** Tells it from the other ten. */
  type: 'tool.call';
  /** The task's id. */
  task: string;
  /** The worker's key for this call, the same after a restart. */
  key: string;
  /** The tool's full name. */
  tool: string;
  /** What it is called with. */
  input: Json;
}

/** A call has its result, which every later call with its key gets too. */
export interface ToolResult extends LogLine {
  /** Tells it from the other ten. */
  type: 'tool.result';
  /** The task's id. */
  task: string;
  /** The call's key. */
  key: string;
  /** Whether the tool gave a result. */
  ok: boolean;
  /** What it gave. */
  output?: Json;
  /** Why it gave none. */
  error?: string;
  /** What the call spent, in US cents. */
  cents?: number;
}

/** The owner is asked. */
export interface ApprovalAsked extends LogLine {
  /** Tells it from the other ten. */
  type: 'approval.asked';
  /** The task's id. */
  task: string;
  /** The question as it was asked. */
  approval: Approval;
}

/** The first answer to a question. */
export interface ApprovalAnswered extends LogLine {
  /** Tells it from the other ten. */
  type: 'approval.answered';
  /** The task's id. */
  task: string;
  /** The approval's. */
  id: string;
  /** Yes or no. */
  approved: boolean;
  /** Who gave it. */
  by: string;
  /** What was written with the answer. */
  reason?: string;
}

/** Something cost money that is not on a tool's result. */
export interface Cost extends LogLine {
  /** Tells it from the other ten. */
  type: 'cost';
  /** Absent when the box spent it for itself. */
  task?: string;
  /** US cents, unrounded. */
  cents: number;
  /** What was bought, in words. */
  what: string;
  /** The model's exact id, when a model was paid. */
  model?: string;
  /** What the model was paid for. */
  tokens?: Tokens;
}

/** A task reached for a host it may not reach. */
export interface NetBlocked extends LogLine {
  /** Tells it from the other ten. */
  type: 'net.blocked';
  /** The task's id. */
  task: string;
  /** host:port. */
  host: string;
  /** How many tries within a minute the line stands for; absent for one. */
  count?: number;
}

/** GurtOS Personal: changes went into real folders, or came out of them again. */
export interface Kept extends LogLine {
  /** Tells it from the other ten. */
  type: 'keep';
  /** The task's id. */
  task: string;
  /** What became of them. */
  result: 'pending' | 'kept' | 'conflict' | 'reverted';
  /** The paths it is about. */
  changes?: Change[];
  /** Paths that the owner changed meanwhile. */
  conflicts?: string[];
}

/** An app wrote something down, or the box itself did: then `track` is `box` and `data.what` says what, as docs/api.md lists it. */
export interface Note extends LogLine {
  /** Tells it from the other ten. */
  type: 'note';
  /** The task it is about; absent when it is about none. */
  task?: string;
  /** The app's name, or `box`. */
  track: string;
  /** What it has to say. */
  data: Json;
}

/** One line of the action log; `type` tells which. There are these eleven and no others. */
export type LogEvent =
  | TaskCreated
  | TaskStateChanged
  | TaskStep
  | ToolCalled
  | ToolResult
  | ApprovalAsked
  | ApprovalAnswered
  | Cost
  | NetBlocked
  | Kept
  | Note;

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// The box, as an app has it

/** A day of the week for schedules. */
export type Weekday = 'mon' | 'tue' | 'wed' | 'thu' | 'fri' | 'sat' | 'sun';

/** Something that the box watches for a trigger: the clock, or a workspace's files. Made by core/triggers.ts. */
export type Watch =
  | {
      /** At one time of the day. */
      kind: 'daily';
      /** The trigger's name: what the box remembers the last run by. */
      name: string;
      /** HH:MM from 00:00 to 23:59, on the clock of the box's time zone. */
      at: string;
      /** On which days; without it, on all. */
      weekdays?: Weekday[];
    }
  | {
      /** Again and again. */
      kind: 'every';
      /** The trigger's name. */
      name: string;
      /** From one run's beginning to the next one's, in whole milliseconds, 1000 to 31 days. One of less than a minute begins anew when the box starts. */
      ms: number;
      /** On which days; without it, on all. */
      weekdays?: Weekday[];
    }
  | {
      /**
       * When the content of files becomes different, whoever's doing it is. What becomes different while the app is down is told once it is back; only of what
       * was undone while it was away for more than ten minutes it may hear nothing.
       */
      kind: 'files';
      /** The trigger's name. */
      name: string;
      /** The workspace, as it is with every done task. It may be made later. */
      workspace: string;
      /** Which paths in it, as at most 100 globs: `*` and `?` stand for what a name has, `**` for any number of folders. Without it, all. */
      paths?: string[];
    };

/** Why a watch fires. */
export interface Fired {
  /** When it was due, or when the last of the changes was seen. */
  at: string;
  /** Of a schedule: whether the box was off or busy when it was due. */
  late: boolean;
  /** Of files: what is different now, once nothing has changed for half a second. More than 10,000 of them come in several calls. */
  changes: Change[];
}

/** The headers of a request to a webhook, their names in lower case. */
export type HookHeaders = Record<string, string>;

/** What an app can do with the box. Each app has one of its own, which knows its name. */
export interface Box {
  /**
   * Starts a task and gives it back as it was made. It is refused with a sentence when a field is wrong, a workspace or tool is unknown, or the owner took the
   * app a right that it needs. While all agents are paused it stays queued.
   */
  createTask(spec: TaskSpec): Promise<Task>;
  /** Makes a workspace: empty, or with the files of a folder of the app's own. One that is there already stays as it is. */
  workspace(name: string, fromDir?: string): Promise<void>;
  /** GurtOS Personal: makes a workspace stand for a real folder, whose changes wait for Keep. */
  linkWorkspace(name: string, realPath: string): Promise<void>;
  /** A task as it is now, undefined when there is none of that id. */
  task(id: string): Task | undefined;
  /** All tasks, newest first. */
  tasks(): Task[];
  /** Ends a task if it is still going and takes its changes back. A file that a later task changed too stays as that one left it. */
  undo(id: string): Promise<void>;
  /** All questions, the oldest first. */
  approvals(): Approval[];
  /**
   * Answers a question, for `by`: the app's name, or that with a colon and more behind it. A question that has its answer keeps it. On GurtOS Business only a
   * route may do this, and for the signed-in person who called it alone.
   */
  answer(id: string, approved: boolean, by: string): Promise<Approval>;
  /** Calls the listener with each line as it is written, from now on. A line that comes while the app is down is never heard: a LogReader misses none. */
  on(listener: (event: LogEvent) => void): Stop;
  /** Runs a model job of any app that is on; what it costs is the task's, when one is named. */
  job(name: string, input: unknown, task?: string): Promise<unknown>;
  /** Writes a note into the log, under the app's name. */
  note(data: Json, task?: string): void;
  /**
   * Answers POST /hook/<app>/<name>; the name has letters, digits, `_` and `-`. What the handler gives is sent as JSON. From off the box a paired device's token
   * is needed. The function that comes back ends it.
   */
  onWebhook(name: string, handler: (body: Json, headers: HookHeaders) => Awaitable<Json | void>): Stop;
  /** A key out of the vault. Throws for one that the app does not list, that is not set, or that the owner took away. */
  secret(name: string): string;
  /** GurtOS Business: the rules of who approves what, one a line. */
  policy(): string;
  /** GurtOS Business: puts other rules in their place, on an owner's or admin's yes to exactly this text. */
  setPolicy(text: string, approvalId: string): Promise<void>;
  /**
   * For core/triggers.ts: the box calls `fire` whenever the clock or the files say so, one call after the other, and remembers by the watch's name what it has
   * called for. A schedule's day is called for once, over changes of the clock and of daylight saving; one that was missed by less than 12 hours is made up for
   * once. A call that throws is not made again, and the log tells of it. The function that comes back ends the watch. An app has at most 100 watches.
   */
  watch(watch: Watch, fire: (fired: Fired) => Awaitable<void>): Stop;
}

/** What a tool's or a model job's run gets besides its input. */
export interface Ctx {
  /** The app's Box. */
  box: Box;
  /** The task that called; undefined when no task did. */
  task?: Task;
  /** Names this call in the world outside, for an idempotency key: the same when a call that was cut off runs again. Of a model job it is new each time. */
  key: string;
  /** Ends when nobody waits for the result any more: the time limit passed, the app goes off, or the box stops. */
  signal: AbortSignal;
  /** A key out of the vault, of those that the tool or job lists. */
  secret(name: string): string;
  /** Books spending besides the call's own cost, in US cents. */
  cost(cents: number, what: string): void;
  /** Says in the calling task's log what is going on; without a task, nothing. */
  log(text: string, data?: Json): void;
  /**
   * Asks the owner and waits however long it takes. The same question within one call has one answer, after a restart too. False as well when no task called or
   * when the task has ended.
   */
  ask(question: string, opts?: { /** What it is for, on the card. */ purpose?: string }): Promise<boolean>;
}

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// The parts of an app

/** What a call is for, on the card that asks for it. */
export interface Card {
  /** Who gets the money. */
  payee?: string;
  /** What it buys. */
  purpose?: string;
}

/** Something that tasks can call. It runs outside every task, with the vault keys it lists. */
export interface Tool {
  /** `<app>.<verb>`, unique among the apps that are on. */
  name: string;
  /** What it does, for the model that is to choose it. */
  description: string;
  /** What its input must look like, checked before anyone is asked or anything runs. Default any object. */
  input?: JSONSchema;
  /** The vault keys its run may read. Default none. */
  secrets?: string[];
  /** The hosts its run talks to, for people to read; held to only where the owner says so. */
  hosts?: string[];
  /** The most that a call with this input spends, in US cents. A tool without it spends nothing; an output with `spentCents` is charged that instead. */
  cost?(input: any): number;
  /** What stands on the card when the owner is asked. */
  approval?(input: any): Card;
  /** GurtOS Business: what the seat would be deciding, in words; read and without effect elsewhere. */
  decides?(input: any): string;
  /** Does it. What it gives is read by the task and stays in the log, so no secret may be in it; a throw fails the call. */
  run(input: any, ctx: Ctx): Promise<unknown>;
}

/** Something that starts tasks by itself. */
export interface Trigger {
  /** Tells it from the app's other triggers. */
  name: string;
  /**
   * Begins it, when the app goes on or the box starts. What it gives back is called when the app goes off; without that the trigger stays until the box starts
   * anew, and App Center says so.
   */
  start(box: Box): Awaitable<void | Stop>;
}

/** Something that sees every line of the log, in order, from the first; after a restart it goes on behind the last one it was done with. */
export interface LogReader {
  /** Names its place in the log, `<app>.<name>`: another name begins at line 1. */
  name: string;
  /** Takes one line. After a throw it gets the same one again, 5 seconds later. */
  read(event: LogEvent, box: Box): Awaitable<void>;
}

/** Work that the box has a model do for itself. */
export interface ModelJob {
  /** What box.job() calls it by. */
  name: string;
  /** The vault keys its run may read. Default none. */
  secrets?: string[];
  /** Does it. */
  run(input: any, ctx: Ctx): Promise<unknown>;
}

/** An icon in the portal. */
export interface App {
  /** Tells it from the app's other icons. */
  name: string;
  /** What stands under it. */
  title: string;
  /** Where it leads, beneath /t/<app>. */
  href: string;
}

/**
 * Answers HTTP requests for one method and path. The header `x-box-caller` says who calls: screen, owner, device:<id>, service or none; on GurtOS Business
 * `x-box-person` says which person. A throw is answered with 500 and its message.
 */
export type Route = (req: Request, box: Box) => Awaitable<Response>;

/** An app: what tracks/<name>/track.ts exports as its default, best with `satisfies Track`. */
export interface Track {
  /** The name of the app's folder. Not box, api, schedule or kit. */
  name: string;
  /** Its name for people. Default the title of the first of `apps`, else `name`. */
  title?: string;
  /** One or two sentences about it. Default the first paragraph of its README.md, of which 240 characters are shown. */
  description?: string;
  /** The vault keys that box.secret() gives out to its routes, triggers and readers. Default none. */
  secrets?: string[];
  /** Those of all the keys it lists that it can do without. Default none. */
  optionalSecrets?: string[];
  /** Text to lay beside a Droid task's prompt before it starts. It has 2 seconds; all apps together have 8,000 characters. */
  taskContext?(spec: TaskSpec, box: Box): Awaitable<string | undefined>;
  /** @deprecated Without effect: on a new box only the model app is on. */
  offByDefault?: boolean;
  /** What starts tasks by itself while the app is on. Default none. */
  triggers?: Trigger[];
  /** What tasks that list it can call. Default none. */
  tools?: Tool[];
  /** What sees every line of the log. Default none. */
  logReaders?: LogReader[];
  /** What any app can have done by box.job(). Default none. */
  modelJobs?: ModelJob[];
  /** Its icons in the portal. */
  apps?: App[];
  /** By `METHOD /path`; the whole path has to fit, without wildcards. Served beneath /t/<name>. */
  routes?: Record<string, Route>;
  /** Keys of `routes` that answer without a token, and so say nothing private unless they check the caller themselves. */
  openRoutes?: string[];
  /** Keys of `routes` whose page is not sandboxed, for what no page without an origin can do. It can do all that the portal can: review it like the core. */
  ownOrigin?: string[];
}

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// Demo

/** What a demo step has: the function that tracks/<name>/demo.ts or test/demo/<name>.ts exports as its default gets one. A step takes at most 10 seconds. */
export interface DemoKit {
  /** Calls the box's API from its own screen. Throws with the box's sentence when that refuses. */
  api<T = any>(method: string, path: string, body?: unknown): Promise<T>;
  /** Prints that something holds, or throws, which ends the run, because it does not. */
  check(ok: unknown, what: string): void;
  /** Makes a workspace with these files, by path. */
  workspace(name: string, files: Record<string, string>): void;
  /** A file as it is now, with the changes of every done task; undefined when there is none. */
  view(workspace: string, file: string): string | undefined;
  /** Waits until the tasks are done or undone and gives them back. Throws at one that failed, with its error. */
  settled(ids: string[]): Promise<Task[]>;
  /** Calls fn until it gives something, at most for `ms` milliseconds (10,000 when it is not said), and then throws with `what`. */
  waitFor<T>(what: string, fn: () => Awaitable<T | undefined | null | false>, ms?: number): Promise<T>;
  /** BOX_HOME of the run. */
  home: string;
  /** Where its API listens on 127.0.0.1. */
  port: number;
  /** http://127.0.0.1:<port>. */
  url: string;
}

/** A demo step. */
export type Demo = (d: DemoKit) => Promise<void>;
