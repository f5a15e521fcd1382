// Package api owns the box's HTTP: who is calling, what each caller may do, and
// the shape of every request and answer. Routes (in routes.go) is the one table
// from which the server, the OpenAPI document, docs/api.md and the tests are
// made. The package never decides what a task, key or setting may be; it asks
// those who own them and turns their errors into statuses and sentences.
//
// A request goes through, in this order: the Host and Origin rules, who calls,
// the route, whether that caller may use it, the body's limit, the handler. A
// handler returns an error; one wrapper encodes it as {"error": "<a sentence>"}.
package api

//go:generate go test -run TestDocsAreCurrent -update .
