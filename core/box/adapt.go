package box

import (
	"context"
	"maps"

	"gurtos/core/task"
	"gurtos/netpolicy"
	"gurtos/sandbox"
)

// namespace makes a network namespace for a sandbox.
func (b *Box) namespace() (sandbox.Namespace, error) {
	ns, err := b.net.Namespace()
	if err != nil {
		return nil, err // not ns: a nil *Namespace in an interface is not nil
	}
	return ns, nil
}

// attach gives a task its network.
func (b *Box) attach(ns sandbox.Namespace, p netpolicy.Policy) (task.Space, error) {
	s, err := ns.(*netpolicy.Namespace).Attach(p)
	if err != nil {
		return nil, err // not s: a nil *Space in an interface is not nil
	}
	return s, nil
}

// start starts a sandbox for a task.
func (b *Box) start(ctx context.Context, spec sandbox.Spec) (task.Sandbox, error) {
	s, err := b.host.Start(ctx, spec)
	if err != nil {
		return nil, err // not s: a nil *Sandbox in an interface is not nil
	}
	return s, nil
}

// workers are the kinds of workers of this build, with what the one who opens the box
// adds.
func workers(more map[string]task.Worker) map[string]task.Worker {
	all := task.Workers()
	maps.Copy(all, more)
	return all
}
