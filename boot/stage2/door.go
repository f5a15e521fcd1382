package stage2

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gurtos/boot/proc"
	"gurtos/boot/screen"
)

// yes is typed to have damaged lines cut out of the action log. Its letters lie alike on
// English, German and French keyboards: the kernel takes each for an English one.
const yes = "cut out"

const (
	askYes = "type the words " + yes + " and press Enter, on the box's keyboard or serial line: the damaged lines are cut out of the log, and the box starts"

	whatItMeans = "Nothing is thrown away: what is cut out is kept in a file beside the log, and the log tells of the gap for ever. " +
		"But what those lines said the box no longer knows: a payment, an answer, a limit, a pause, a stop or an undo among them. " +
		"The other way is to switch the box off and put back a copy of its data disk."
)

// A door is the way out of a damaged action log, on which boxd doesn't start, or takes no
// work. Quarantine is the owner's decision, and a box has no shell: so whoever stands at a
// console is told and asked. No network leads here.
type door struct {
	box  *Box
	open bool // the question stands on the consoles
}

// look asks when the log is damaged, and takes the question back when it is not.
func (d *door) look(ctx context.Context) {
	b := d.box
	st := b.services[0].State()
	b.mu.Lock()
	b.health.held = st.Held
	damaged := st.Held || b.damaged
	b.mu.Unlock()
	switch {
	case damaged && !d.open:
		d.open = true
		if b.loader != nil {
			b.loader.Release() // boxd may never answer: the keyboard and the screen are wanted
		}
		b.mu.Lock()
		b.health.held = true // nobody asks boxd meanwhile, and a long log takes its time
		b.mu.Unlock()
		b.because("log", d.what(ctx, st.LastExit)+" "+whatItMeans)
		b.screen.Update(func(s *screen.Status) { s.State, s.Doing, s.Pair, s.Hint, s.Ask = screen.Degraded, "", "", "", askYes })
	case !damaged && d.open:
		d.close()
	}
}

func (d *door) close() {
	d.open = false
	d.box.because("log", "")
	d.box.because("cut out", "")
	d.box.screen.Update(func(s *screen.Status) { s.Ask = "" })
}

// mostFaults is how many faults of a log people are told of.
const mostFaults = 4

// what says what is wrong with the log.
func (d *door) what(ctx context.Context, exit string) string {
	text := "The action log, the box's record of all that was done, paid and answered, is damaged, so the box takes no work."
	d.box.screen.Update(func(s *screen.Status) { s.State, s.Doing = screen.Degraded, "the action log is examined" })
	said, err := d.box.command(ctx, "log", "verify")
	var faults []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "box: ") && !strings.HasPrefix(line, "Known ") {
			faults = append(faults, line)
		}
	}
	if err == nil || len(faults) == 0 {
		return text + " " + sentence(fmt.Errorf("its daemon, boxd, %s", exit)) // which knows better
	}
	if n := len(faults); n > mostFaults {
		faults = append(faults[:mostFaults-1], faults[n-1]) // the last one counts them
	}
	return text + " " + strings.Join(faults, " ")
}

// hear takes a line that was typed.
func (d *door) hear(ctx context.Context, line string) {
	b := d.box
	switch {
	case !d.open:
	case line != yes:
		b.because("cut out", fmt.Sprintf("Typed was %q, which changes nothing.", line))
	default:
		d.cutOut(ctx)
	}
}

// cutOut has the damaged lines cut out, and boxd started.
func (d *door) cutOut(ctx context.Context) {
	b := d.box
	b.log.Print("somebody at a console has the damaged lines cut out of the action log")
	b.screen.Update(func(s *screen.Status) { s.Doing, s.Ask = "the damaged lines are cut out of the action log", "" })
	b.mu.Lock()
	b.health.held = true
	b.mu.Unlock()
	boxd := b.services[0]
	if !boxd.Hold(ctx) {
		return // the box ends
	}
	said, err := b.command(ctx, "log", "quarantine")
	for line := range strings.Lines(said) {
		b.log.Print(strings.TrimSpace(line))
	}
	if ctx.Err() != nil {
		return
	}
	d.close()
	if err != nil {
		b.because("cut out", sentence(fmt.Errorf("the damaged lines could not be cut out: %w", err)))
	}
	b.screen.Update(func(s *screen.Status) { s.State, s.Doing = screen.Starting, "boxd" })
	b.mu.Lock()
	b.damaged, b.health = false, health{began: time.Now()}
	b.mu.Unlock()
	boxd.Again()
}

// command runs the box command, and gives what it said.
func (b *Box) command(ctx context.Context, args ...string) (said string, err error) {
	boxd := b.services[0].Service
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(boxd.Path), "box"), args...)
	cmd.Env = boxd.Env
	cmd.Dir = "/"
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err = proc.Start(cmd); err == nil {
		err = proc.Wait(cmd)
	}
	said = out.String()
	if lines := strings.Split(strings.TrimSpace(said), "\n"); err != nil {
		err = fmt.Errorf("box %s: %w: %s", strings.Join(args, " "), err, strings.TrimPrefix(lines[len(lines)-1], "box: "))
	}
	return said, err
}
