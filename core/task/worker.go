package task

import (
	"maps"

	"gurtos/sandbox"
)

// Worker says how a kind of worker is started, and how it reaches its model.
type Worker struct {
	Args   []string  // program and arguments, as paths inside the sandbox
	Env    []string  // added to what every task has
	Key    *ModelKey // nil for a worker that has no model
	Absent bool      // its program is not in this build
}

// ModelKey is the one key that a worker uses and never has. Its environment holds a
// placeholder; the box's proxy puts the key in on the way to the model's hosts. A task
// has no say in any of this.
type ModelKey struct {
	Name        string   // of the key in the vault, and of the variable that holds the placeholder
	Title       string   // what people call the service
	Placeholder string   // long, and nothing that anybody would write by chance
	Header      string   // the one header that carries it
	Hosts       []string // TLS on port 443; every task of the worker reaches them
	Quiet       []string // hosts that the box answers itself, with an empty JSON object to everything

	// What is asked of Hosts, each "METHOD /path", or "METHOD /path/" for all below:
	// Requests are all that is passed on, and Empty gets an empty JSON object from the
	// box. Models are those of Requests that the Anthropic Messages API answers: they wait
	// for the budget, and what they used is booked.
	Requests, Empty, Models []string
}

// Workers are the kinds of workers. A copy is given.
func Workers() map[string]Worker { return maps.Clone(workers) }

var workers = map[string]Worker{
	"fake":  {Args: []string{"/usr/lib/gurtos/worker", "fake"}},
	"droid": {Key: droidKey, Absent: true},
}

// droidKey is how Droid reaches its model, as version 0.225.2 does. Its service also
// fetches pages and searches the web for who has the key, keeps transcripts of sessions
// and opens connectors: ways out of a task that no rule of its hosts would see. So the
// model is all that is passed on, with what Droid asks about the account beforehand.
var droidKey = &ModelKey{
	Name: "FACTORY_API_KEY", Title: "Factory", Placeholder: "fk-gurtos-placeholder-the-box-puts-the-key-in",
	Header: "Authorization",
	Hosts:  []string{"api.factory.ai", "api.eu.factory.ai"},
	Quiet:  []string{"telemetry.factory.ai"},
	Requests: []string{
		"POST /api/llm/a/v1/messages", "GET /api/cli/whoami", "GET /api/feature-flags", "GET /api/billing/limits", "GET /api/organization/managed-settings",
	},
	Empty: []string{
		"GET /api/connectors/", "POST /api/connectors/", "POST /api/sessions/", "POST /api/otlp/", "POST /api/llm/custom/usage",
	},
	Models: []string{"POST /api/llm/a/v1/messages"},
}

// env is what a worker with a key has in its environment besides: the placeholder, and
// where the authorities are for those programs that bring their own.
func (k *ModelKey) env() []string {
	env := []string{k.Name + "=" + k.Placeholder}
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE"} {
		env = append(env, name+"="+sandbox.Authorities)
	}
	return env
}
