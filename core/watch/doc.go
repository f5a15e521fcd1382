// Package watch owns what the box watches for the triggers of apps: the clock, on
// which schedules run, and the files of workspaces. It tells an app by calling the
// function that the app's host gave it, and starts no task itself.
package watch
