package approval

import "encoding/json"

// Book holds every question and its first answer. Its zero value is empty. It
// changes only by what the log says: Ask and Answer replay lines.
type Book struct {
	byID  map[string]*Approval
	order []*Approval            // as they were asked
	tasks map[string][]*Approval // the same, by task
	open  map[string]int         // how many of a task are pending
}

// Ask enters a question. One whose id is there already changes nothing.
func (b *Book) Ask(a Approval) bool {
	if b.byID == nil {
		b.byID, b.tasks, b.open = map[string]*Approval{}, map[string][]*Approval{}, map[string]int{}
	}
	if _, ok := b.byID[a.ID]; ok {
		return false
	}
	b.byID[a.ID] = &a
	b.order = append(b.order, &a)
	b.tasks[a.Task] = append(b.tasks[a.Task], &a)
	if a.State == Pending {
		b.open[a.Task]++
	}
	return true
}

// Answer enters an answer. Only the first one to a question changes anything.
func (b *Book) Answer(id string, approved bool, by, reason string) bool {
	a, ok := b.byID[id]
	if !ok || a.State != Pending {
		return false
	}
	a.State = Denied
	if approved {
		a.State = Approved
	}
	a.By, a.Reason = by, reason
	if b.open[a.Task]--; b.open[a.Task] == 0 {
		delete(b.open, a.Task)
	}
	return true
}

// Get returns a copy of one question.
func (b *Book) Get(id string) (Approval, bool) {
	a, ok := b.byID[id]
	if !ok {
		return Approval{}, false
	}
	return *a, true
}

// Open is how many questions of a task wait for an answer.
func (b *Book) Open(task string) int { return b.open[task] }

// List returns copies, oldest first: those in a state, "" for all; those of a task,
// "" for all.
func (b *Book) List(state State, task string) []Approval {
	out := []Approval{}
	from := b.order
	if task != "" {
		from = b.tasks[task]
	}
	for _, a := range from {
		if state == "" || a.State == state {
			out = append(out, *a)
		}
	}
	return out
}

// MarshalJSON writes the book for a checkpoint.
func (b *Book) MarshalJSON() ([]byte, error) { return Plain(b.List("", "")) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Book) UnmarshalJSON(raw []byte) error {
	var all []Approval
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	*b = Book{}
	for _, a := range all {
		b.Ask(a)
	}
	return nil
}
