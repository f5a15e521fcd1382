// Package fake is the worker that has no model: it runs the commands in a task's
// prompt, one a line, and posts a step after each, so that a resumed task goes
// on with the line after the last one that was logged. A line that a power cut
// broke off runs again, so deleting what is gone and moving what has moved are
// no errors. Files are reached beneath the workspace only, links or not. The
// table in language.go has every word.
package fake
