package phase

import (
	"context"
	"fmt"
	"log"
	"time"
)

// A Phase is one step of starting.
type Phase struct {
	Name string
	Run  func(context.Context) error
	Must bool // without it there is no going on: its error ends the list
}

// Run runs the phases in their order and says on log how long each took. enter
// is told the name of each before it starts. fault is told the error of one
// that can be done without; the first error of a Must comes back, or ctx's once
// it has ended: nothing begins in a shutdown.
func Run(ctx context.Context, log *log.Logger, phases []Phase, enter func(name string), fault func(name string, err error)) error {
	for _, p := range phases {
		if err := ctx.Err(); err != nil {
			return err
		}
		enter(p.Name)
		start := time.Now()
		err := p.Run(ctx)
		took := time.Since(start).Round(time.Millisecond)
		if err == nil {
			log.Printf("phase %s (%v)", p.Name, took)
			continue
		}
		log.Printf("phase %s failed (%v): %v", p.Name, took, err)
		if p.Must {
			return fmt.Errorf("phase %s: %w", p.Name, err)
		}
		fault(p.Name, err)
	}
	return nil
}
