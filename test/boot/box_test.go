package boot

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"gurtos/core/task"
	"gurtos/image/layout"
	"gurtos/test/boot/box"
	"gurtos/test/boot/nbd"
	"gurtos/test/daemon"
)

// TestBox is the first day of a box, booted as shipped: first boot of a blank
// disk, pairing, the story of a workspace, what a task can't do, an app, power cuts
// in the middle of a task, a full disk, and the power button.
func TestBox(t *testing.T) {
	r := daemon.Seed(t)
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
	t.Run("apps", func(t *testing.T) { apps(t, b.API.With(t)) })

	var id string
	var moments []moment
	b.Do("POST", "/api/workspaces", map[string]string{"name": "cuts"}, nil)
	t.Run("twenty lines", func(t *testing.T) {
		id, moments = watch(t, r, b, "cuts")
		effects(t, b.API.With(t), "cuts", b.API.With(t).Task(id))
		t.Logf("%d moments were taken", len(moments))
	})
	var filler, waits task.Task
	t.Run("full disk", func(t *testing.T) { filler, waits = fill(t, b) })

	t.Run("power button", func(t *testing.T) {
		b.PowerButton()
		if _, loss := b.Data.Cut(1); loss.Unflushed > 0 {
			t.Errorf("the box switched itself off with %d writes unflushed", loss.Unflushed)
		}
		box.CheckClean(t, b.Data)
	})
	if t.Failed() {
		return
	}
	n := 2
	if long() {
		n = 10
	}
	cuts(t, choose(r, moments, n), b.Token, "cuts", id)
	t.Run("damaged log on a full disk", func(t *testing.T) { fullAndDamaged(t, b.Data.Clone(), b.Token, filler.ID, waits.ID, true) })
	if long() {
		t.Run("damaged tail on a full disk", func(t *testing.T) { fullAndDamaged(t, b.Data.Clone(), b.Token, filler.ID, waits.ID, false) })
		t.Run("read-only data disk", func(t *testing.T) { readOnlyData(t, b.Data.Clone()) })
	}
	if long() && !t.Failed() {
		t.Attr("reliability", "10 honest power cuts at different moments of a 20-line task: every answered event in the log, the task done, each line's effect there")
	}
}

// fill takes all the room that the data disk has, by a task. The box stops its
// agents then, takes what the owner does, and says why. The task that waits is
// given back.
func fill(t *testing.T, b *box.Box) (filler, waits task.Task) {
	api := b.API.With(t)
	filler = api.New("home", "fills the disk",
		`try for s in 1G 100M 10M 1M 100k 4k; do while fallocate -l $s fill-$((n=n+1)) 2>/dev/null; do :; done; done; rm -f fill-$n`,
		`sleep 10m`,
	)
	api.Until(3*time.Minute, "all agents paused on a full disk", paused)
	waits = api.New("home", "waits for room", "write room.txt there is room")
	if got := api.Task(waits.ID); got.State != task.Queued {
		t.Errorf("a task that is made on a full disk is %s", got.State)
	}
	b.Wait(`state\s+ready: all agents are paused`)
	api.CheckChain()
	return filler, waits
}

func paused(ctx context.Context, api *box.API) (bool, error) {
	var health struct{ Paused bool }
	err := api.Try(ctx, "GET", "/api/health", nil, &health)
	return health.Paused, err
}

func running(ctx context.Context, api *box.API) (bool, error) {
	is, err := paused(ctx, api)
	return !is, err
}

// damageStep damages the first line of the log that tells of a step, and gives its index.
// The journal, which would put it back, has lost its first record.
func damageStep(t *testing.T, d *nbd.Disk) (index int) {
	t.Helper()
	const step = `"type":"task.step"`
	box.Damage(t, d, "/box/log.jsonl", func(log []byte) (at, n int64) {
		i := bytes.Index(log, []byte(step))
		if i < 0 {
			t.Fatal("the log tells of no step")
		}
		index = bytes.Count(log[:i], []byte("\n"))
		return int64(i + len(step) - 2), 1
	})
	box.Damage(t, d, "/box/log.commit", func([]byte) (at, n int64) { return 0, 8 })
	return index
}

// sayYes waits for the question that a box asks on its consoles when a line of its log is
// damaged, and answers it on its keyboard; other words change nothing, and the network has
// no answer for anyone.
func sayYes(t *testing.T, b *box.Box, line int) {
	t.Helper()
	b.Wait(`ask\s+type the words cut out`)
	b.Wait(fmt.Sprintf(`reason\s+The action log.* Line %d was changed`, line))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.Try(ctx, "GET", "/api/health", nil, nil); err == nil {
		t.Error("boxd answers before anyone decided about its log")
	}
	if err := b.VM.Serial.Send("cut it\r"); err != nil {
		t.Fatal(err)
	}
	b.Wait(`reason\s+Typed was "cut it", which changes nothing`)
	b.Type("cut out", `somebody at a console has the damaged lines cut out`)
}

// fullAndDamaged breaks the end of the log as a worn-out disk does, and boots
// with that disk, which is full, and with one that isn't the box's. With a line in its
// middle damaged, too, somebody at the box has to say that it is to be cut out.
func fullAndDamaged(t *testing.T, d *nbd.Disk, token, filler, waits string, middle bool) {
	foreign := nbd.New(1 << 30)
	if err := foreign.Write([]byte(strings.Repeat("not yours ", 4096)[:4096]), 0, true); err != nil {
		t.Fatal(err)
	}
	hash := foreign.Sum()
	lost := -1 // index of the line that is cut out
	if middle {
		lost = damageStep(t, d)
	}
	before := strings.Split(strings.TrimSpace(string(box.DamageTail(t, d, "/box/log.jsonl", 40))), "\n")
	b := box.Boot(t, box.Setup{Data: d, More: []*nbd.Disk{foreign}})
	b.Token = token
	if middle {
		sayYes(t, b, lost+1)
	}
	t.Logf("API after %v (%s)", b.Ready().Round(time.Millisecond), b.VM.Accel)
	now := b.Lines()
	b.CheckChain()
	for i, line := range before[:len(before)-1] {
		if i != lost && (i >= len(now) || now[i] != line) {
			t.Fatalf("line %d of the log was whole and isn't there any more: %.200s", i+1, line)
		}
	}
	if middle && !strings.Contains(now[lost], `"what":"log.quarantined"`) {
		t.Errorf("no note stands for the line that was cut out: %s", now[lost])
	}
	// The last line is there again, from log.commit, or a note tells of the cut.
	if at := len(before) - 1; now[at] != before[at] && !strings.Contains(strings.Join(now[at:], "\n"), "log.cut") {
		t.Errorf("no event from line %d on tells of the damaged tail: %v", at+1, now[at:])
	}
	b.Wait(`reason\s+The data disk .*full`)
	if got := b.Task(waits); got.State != task.Queued {
		t.Errorf("on the full disk the task that waits for room is %s", got.State)
	}
	// An undo gives the room back, and the box goes on by itself.
	b.Do("POST", "/api/tasks/"+filler+"/undo", nil, nil)
	b.Until(3*time.Minute, "agents running again", running)
	if got := b.End(waits, 3*time.Minute); got.State != task.Done {
		t.Errorf("with room again the task is %s: %s", got.State, got.Error)
	}
	if foreign.Sum() != hash {
		t.Error("the box wrote to a disk that isn't its own")
	}
}
