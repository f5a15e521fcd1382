package task

import "testing"

// What may follow each state, as the specification's table has it.
func TestStateTable(t *testing.T) {
	states := []State{Queued, Running, Waiting, Done, Failed, Undone}
	want := map[State]string{ // a column for each of the states above
		Queued:  ".x..xx",
		Running: "..xxxx",
		Waiting: ".x.xxx",
		Done:    ".....x",
		Failed:  ".....x",
		Undone:  "......",
	}
	for _, from := range states {
		if !from.Known() {
			t.Errorf("%s is not known", from)
		}
		for i, to := range states {
			if got, may := from.Can(to), want[from][i] == 'x'; got != may {
				t.Errorf("%s can become %s: %v", from, to, got)
			}
		}
	}
	if State("").Known() || State("paused").Known() {
		t.Error("a state that is none is known")
	}
	if len(next) != len(states) {
		t.Errorf("the table has %d states", len(next))
	}
}

func TestRefusedNamesBothStates(t *testing.T) {
	err := &Refused{"t1", Undone, Running}
	if got := err.Error(); got != "t1 is undone and can't become running" {
		t.Error(got)
	}
	err = &Refused{"t1", Undone, Undone}
	if got := err.Error(); got != "t1 is undone already" {
		t.Error(got)
	}
}
