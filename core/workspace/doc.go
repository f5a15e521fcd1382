// Package workspace owns the folders in BOX_HOME/workspaces: their names, their
// making, and that none is reached through a link. What a task sees of one is a
// view that core/task puts together out of this folder and the layers of tasks.
package workspace
