package boot

import (
	"strings"
	"testing"
	"time"

	"gurtos/core/task"
	"gurtos/image/layout"
	"gurtos/test/boot/box"
	"gurtos/test/boot/nbd"
)

// TestBox is the first day of a box, booted as shipped: first boot of a blank
// disk, pairing, the story of a workspace, what a task can't do, power cuts in
// the middle of a task, a full disk, and the power button.
func TestBox(t *testing.T) {
	r := box.Seed(t)
	b := box.Boot(t, box.Setup{UEFI: true, Data: nbd.New(layout.MinData + 1<<30)})
	t.Logf("API after %v (%s)", b.Ready().Round(time.Millisecond), b.VM.Accel)
	b.Pair()
	var health struct{ Version string }
	b.Get("/api/health", &health)
	if health.Version == "" {
		t.Error("the box has no version")
	}
	t.Run("story", func(t *testing.T) { story(t, b.API.With(t)) })
	t.Run("isolation", func(t *testing.T) { isolation(t, b.API.With(t)) })
	t.Run("bad input", func(t *testing.T) { badInput(t, b.API.With(t)) })

	var id string
	var moments []moment
	b.Do("POST", "/api/workspaces", map[string]string{"name": "cuts"}, nil)
	t.Run("twenty lines", func(t *testing.T) {
		id, moments = watch(t, r, b, "cuts")
		effects(t, b.API.With(t), "cuts", b.API.With(t).Task(id))
		t.Logf("%d moments were taken", len(moments))
	})
	full := t.Run("full disk", func(t *testing.T) { fill(t, b) })

	t.Run("power button", func(t *testing.T) {
		b.PowerButton()
		if _, loss := b.Data.Cut(1); loss.Unflushed > 0 {
			t.Errorf("the box switched itself off with %d writes unflushed", loss.Unflushed)
		}
		box.CheckClean(t, b.Data)
	})
	if t.Failed() || !full {
		return
	}
	n := 2
	if long() {
		n = 10
	}
	cuts(t, choose(r, moments, n), b.Token, "cuts", id)
	t.Run("damaged tail on a full disk", func(t *testing.T) { damagedTail(t, b.Data.Clone(), b.Token) })
	if long() && !t.Failed() {
		t.Attr("reliability", "10 honest power cuts at different moments of a 20-line task: every answered event in the log, the task done, each line's effect there")
	}
}

// fill takes all the room that the data disk has, by a task.
func fill(t *testing.T, b *box.Box) {
	api := b.API.With(t)
	made := api.New("home", "fills the disk",
		`try for s in 1G 100M 10M 1M 100k 4k; do while fallocate -l $s fill-$((n=n+1)) 2>/dev/null; do :; done; done; rm -f fill-$n; df . | tail -1`,
		`try head -c 1000000 /dev/zero | tr '\0' x > more.bin`,
	)
	got := api.End(made.ID, 5*time.Minute)
	if got.State != task.Done && got.State != task.Failed {
		t.Errorf("the task that fills the disk is %s: %s", got.State, got.Error)
	}
	t.Logf("the task that filled the disk is %s %s", got.State, got.Error)
	events := api.CheckChain()
	// The box works on: what needs little room goes well, and it says what is wrong.
	var made2 task.Task
	api.Do("POST", "/api/tasks", map[string]any{"title": "on a full disk", "prompt": "step x", "workspace": "home", "worker": "fake"}, &made2)
	if end := api.End(made2.ID, 3*time.Minute); end.State != task.Done && end.Error == "" {
		t.Errorf("a task on the full disk is %s without a reason", end.State)
	}
	b.Wait(`reason\s+The data disk is (nearly )?full`)
	if now := api.CheckChain(); len(now) <= len(events) {
		t.Error("the log takes no more events")
	}
}

// damagedTail breaks the end of the log as a worn-out disk does, and boots.
func damagedTail(t *testing.T, d *nbd.Disk, token string) {
	foreign := nbd.New(1 << 30)
	if err := foreign.Write([]byte(strings.Repeat("not yours ", 4096)[:4096]), 0, true); err != nil {
		t.Fatal(err)
	}
	hash := foreign.Sum()
	before := strings.Split(strings.TrimSpace(string(box.DamageTail(t, d, "/box/log.jsonl", 40))), "\n")
	b := box.Boot(t, box.Setup{Data: d, More: []*nbd.Disk{foreign}})
	b.Token = token
	t.Logf("API after %v (%s)", b.Ready().Round(time.Millisecond), b.VM.Accel)
	now := b.Lines()
	b.CheckChain()
	for i, line := range before[:len(before)-1] {
		if i >= len(now) || now[i] != line {
			t.Fatalf("line %d of the log was whole and isn't there any more: %.200s", i+1, line)
		}
	}
	// The last line is there again, from log.commit, or a note tells of the cut.
	if at := len(before) - 1; now[at] != before[at] && !strings.Contains(strings.Join(now[at:], "\n"), "log.cut") {
		t.Errorf("no event from line %d on tells of the damaged tail: %v", at+1, now[at:])
	}
	b.Wait(`reason\s+The data disk .*full`)
	if foreign.Sum() != hash {
		t.Error("the box wrote to a disk that isn't its own")
	}
}
