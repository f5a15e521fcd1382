package approval

import (
	"encoding/json"
	"slices"
)

// Book holds every question and its first answer. Its zero value is empty. It
// changes only by what the log says: Ask and Answer replay lines.
//
// Of a question that was answered it keeps no text: that stands in the line that asked
// it, whose number it has. So an old question takes some hundred bytes, whatever it
// was about.
type Book struct {
	byID  map[string]*item
	order []*item             // as they were asked
	open  map[string]*waiting // those of a task that are pending
}

// waiting are a task's questions that are pending, as they were asked, among some that
// were answered since and not taken out yet.
type waiting struct {
	items []*item
	n     int // that are pending
}

// item is a question. One that was answered is never changed again.
type item struct {
	Approval
	Line  int64 `json:"line"` // of the log, which asked it
	place int   // in order
}

// Ask enters a question that a line of the log asks. One whose id is there already
// changes nothing.
func (b *Book) Ask(a Approval, line int64) bool {
	if b.byID == nil {
		b.byID, b.open = map[string]*item{}, map[string]*waiting{}
	}
	if _, ok := b.byID[a.ID]; ok {
		return false
	}
	b.enter(&item{Approval: a, Line: line})
	return true
}

func (b *Book) enter(it *item) {
	it.place = len(b.order)
	b.byID[it.ID] = it
	b.order = append(b.order, it)
	if it.State != Pending {
		return
	}
	w := b.open[it.Task]
	if w == nil {
		w = &waiting{}
		b.open[it.Task] = w
	}
	w.items, w.n = append(w.items, it), w.n+1
}

// Answer enters an answer. Only the first one to a question changes anything.
func (b *Book) Answer(id string, approved bool, by, reason string) bool {
	it, ok := b.byID[id]
	if !ok || it.State != Pending {
		return false
	}
	// Not in place: a snapshot may have it.
	done := &item{Line: it.Line, place: it.place, Approval: Approval{ID: it.ID, Task: it.Task, CostCents: it.CostCents, State: Denied, By: by, Reason: reason}}
	if approved {
		done.State = Approved
	}
	b.byID[id], b.order[it.place] = done, done
	w := b.open[it.Task]
	if w.n--; w.n == 0 {
		delete(b.open, it.Task)
	} else if len(w.items) > 2*w.n+16 { // now and then, so that an answer costs the same however many wait
		w.items = slices.DeleteFunc(w.items, func(o *item) bool { return b.byID[o.ID] != o })
	}
	return true
}

// Get returns a copy of one question; without its texts once it is answered.
func (b *Book) Get(id string) (Approval, bool) {
	it, ok := b.byID[id]
	if !ok {
		return Approval{}, false
	}
	return it.Approval, true
}

// Line is the line of the log that asked a question, 0 for none.
func (b *Book) Line(id string) int64 {
	if it, ok := b.byID[id]; ok {
		return it.Line
	}
	return 0
}

// Open is how many questions of a task wait for an answer.
func (b *Book) Open(task string) int {
	if w := b.open[task]; w != nil {
		return w.n
	}
	return 0
}

// Pending returns copies of a task's questions that wait for an answer, oldest first.
func (b *Book) Pending(task string) []Approval {
	out := []Approval{}
	if w := b.open[task]; w != nil {
		for _, it := range w.items {
			if b.byID[it.ID] == it {
				out = append(out, it.Approval)
			}
		}
	}
	return out
}

// Len is how many questions there are.
func (b *Book) Len() int { return len(b.order) }

// Snapshot is the book as it stands now, for one who reads it aside while this one
// changes: its Part and MarshalJSON.
func (b *Book) Snapshot() *Book { return &Book{order: slices.Clone(b.order)} }

// Asked is a question as the book has it, and the line that asked it.
type Asked struct {
	Approval
	Line int64
}

// Part returns up to most questions in a state, "" for all, oldest first, from a place
// on; next is the place to go on from, 0 when no more follow.
func (b *Book) Part(state State, from, most int) (out []Asked, next int) {
	for i := from; i < len(b.order); i++ {
		if it := b.order[i]; state == "" || it.State == state {
			if len(out) == most {
				return out, i
			}
			out = append(out, Asked{it.Approval, it.Line})
		}
	}
	return out, 0
}

// MarshalJSON writes the book for a checkpoint.
func (b *Book) MarshalJSON() ([]byte, error) {
	if b.order == nil {
		return []byte("[]"), nil
	}
	return Plain(b.order)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Book) UnmarshalJSON(raw []byte) error {
	var all []*item
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	*b = Book{byID: map[string]*item{}, open: map[string]*waiting{}}
	for _, it := range all {
		b.enter(it)
	}
	return nil
}
