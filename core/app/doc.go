// Package app owns the apps of the box: which there are, which are on, what each of
// them declares, and the sandboxed Node process in which its code runs. It knows
// nothing of how a page is framed or what an app's tools do, it never runs an app's
// code in this process, and it imports no app.
//
// An app is a folder of TypeScript. Reading it takes two throw-away steps, both in
// sandboxes: its types are stripped, which gives a tree of .mjs files that is kept in
// BOX_HOME/apps/<app>/code, and the tree is loaded once and tells what it declares,
// which is held against the rules and kept beside it. Both are done anew only when a
// file of the app, the SDK or Node changes. A host then serves the app: one process,
// its tree read-only at /opt/app, its store at /work, its two sockets on descriptors 3
// and 4. Both speak JSON-RPC 2.0, one message a line: over the first either side calls
// the other, over the second the app alone calls and waits, so that what the SDK types
// as synchronous is.
package app
