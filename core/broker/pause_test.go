package broker_test

import (
	"encoding/json"
	"testing"

	"gurtos/core/task"
)

// A call that was approved while agents stand still has no turn to run until they go on.
func TestNoTurnToRunWhilePaused(t *testing.T) {
	b := shopBox(t, &till{}, boxOptions{})
	id := b.begin(buys)
	c := task.Call{Key: "k", Tool: "shop.buy", Input: json.RawMessage(`{"cents":300}`), Spends: true, Cost: centsOf("300")}
	_, fl, mine, err := b.tasks.Begin(t.Context(), id, c)
	if err != nil || !mine {
		t.Fatal(mine, err)
	}
	defer b.tasks.Land(fl, task.CallResult{})
	next := func() task.Turn {
		t.Helper()
		turn, err := b.tasks.Next(t.Context(), fl)
		if err != nil {
			t.Fatal(err)
		}
		return turn
	}
	ask := next().Ask
	if ask == nil {
		t.Fatal("it is not asked for")
	}
	b.pause(true)
	b.answer(ask.ID, true)
	if turn := next(); !turn.Halted || turn.Run {
		t.Fatalf("paused: %+v", turn)
	}
	b.pause(false)
	if turn := next(); !turn.Run || !turn.Fresh {
		t.Fatalf("resumed: %+v", turn)
	}
}

// When the box stops, workers are asked to end; those that stand still do nothing any more, not even that.
func TestStandingStillEndsWithTheBox(t *testing.T) {
	for _, c := range []struct {
		paused bool
		code   int
	}{{false, 143}, {true, 137}} {
		b := newBox(t, boxOptions{})
		sb := b.runner.get(b.begin(""))
		b.pause(c.paused)
		b.restart()
		if e := sb.Wait(); e.Code != c.code {
			t.Errorf("paused %v: it ended with %d, want %d", c.paused, e.Code, c.code)
		}
		if frozen := func() bool { sb.mu.Lock(); defer sb.mu.Unlock(); return sb.frozen }(); frozen != c.paused {
			t.Errorf("paused %v: at its end it was frozen %v", c.paused, frozen)
		}
	}
}

// A sandbox that could not be frozen, or thawed, is told again until it is.
func TestAFreezeThatFailsIsDoneAgain(t *testing.T) {
	b := newBox(t, boxOptions{})
	id := b.begin("")
	sb := b.runner.get(id)
	fail := func(n int) { sb.mu.Lock(); sb.fails = n; sb.mu.Unlock() }
	frozen := func() bool { sb.mu.Lock(); defer sb.mu.Unlock(); return sb.frozen }
	for _, on := range []bool{true, false} {
		fail(2)
		b.pause(on)
		if frozen() == on {
			t.Fatal("it did not fail")
		}
		eventually(t, func() bool { return frozen() == on }, func() string { return "it is left as it was" })
	}
	// One that fails to freeze until agents go on has nothing to be told any more.
	fail(1)
	b.pause(true)
	b.pause(false)
	if frozen() {
		t.Fatal("frozen though agents work")
	}
	if a := b.post(id, "/step", `{"text":"x"}`); a.status != 200 {
		t.Fatal(a)
	}
}
