// Package schema holds JSON against the JSON Schemas that apps write for their tools.
// Both come from who isn't trusted: no schema and no input makes it panic or work
// without end.
package schema
