package task

import "fmt"

// Invalid is a mistake of the one who asked: the field and what is wrong with it.
type Invalid struct{ Field, Sentence string }

func (e *Invalid) Error() string {
	if e.Field == "" {
		return e.Sentence
	}
	return e.Field + ": " + e.Sentence
}

// NotFound says that there is nothing of this id.
type NotFound struct{ What, ID string }

func (e *NotFound) Error() string { return fmt.Sprintf("there is no %s %s", e.What, e.ID) }

// Gone says that a task's files were deleted from the disk.
type Gone struct{ ID string }

func (e *Gone) Error() string {
	return fmt.Sprintf("the files of %s were deleted from the disk; the log still tells what it did", e.ID)
}

// Refused is a transition that the table of states doesn't have.
type Refused struct {
	ID       string
	From, To State
}

func (e *Refused) Error() string {
	if e.From == e.To {
		return fmt.Sprintf("%s is %s already", e.ID, e.From)
	}
	return fmt.Sprintf("%s is %s and can't become %s", e.ID, e.From, e.To)
}

// Over says that a task can't do this any more, because it ended, or not yet.
type Over struct {
	ID    string
	State State
}

func (e *Over) Error() string {
	if e.State == Queued {
		return fmt.Sprintf("%s is queued: it can do nothing before it runs", e.ID)
	}
	return fmt.Sprintf("%s is %s: it can do nothing more", e.ID, e.State)
}

// Forbidden is what the owner doesn't let an app do.
type Forbidden struct{ Sentence string }

func (e *Forbidden) Error() string { return e.Sentence }
