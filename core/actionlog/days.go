package actionlog

import "time"

// Days tells which lines count as today, for limits per UTC day that a step of
// the wall clock must not reset. It is a fold of the log: See each event in order.
// The answer is a line, since order is seq and nothing else: that line and all
// behind it count.
//
// While the clock goes evenly, today begins with the first line whose at is in
// today's date. After a step, until 24 hours have really gone by, all of the last 24
// hours counts, whatever dates were given to it. So neither a clock that is set
// forward a day nor one that is set back brings a second allowance before a day is
// over.
//
// Its fields are exported so that a checkpoint can hold it.
type Days struct {
	// Starts are the first lines of the minutes of the last days in which there was
	// a line, oldest first. A minute is long enough to keep them few, and midnight is
	// between two.
	Starts []Start `json:"starts,omitempty"`
	// Steps is the sum of all steps so far, Stepped the even time of the last one;
	// both in milliseconds.
	Steps   int64 `json:"steps,omitempty"`
	Stepped int64 `json:"stepped,omitempty"`
}

// Start is where a minute of the log begins.
type Start struct {
	Seq  int64 `json:"seq"`
	At   int64 `json:"at"`   // by the wall clock, in milliseconds since 1970
	Even int64 `json:"even"` // by a clock that takes no part in steps
}

const (
	minute = int64(time.Minute / time.Millisecond)
	day    = 24 * 60 * minute
)

// See takes the next event of the log. One whose at can't be read is passed over.
func (d *Days) See(ev Event) {
	t, err := time.Parse(timeFormat, ev.At)
	if err != nil {
		return
	}
	at := t.UnixMilli()
	d.Steps += ev.Clock
	even := at - d.Steps
	if ev.Clock != 0 {
		d.Stepped = even
	}
	if n := len(d.Starts); n > 0 && ev.Clock == 0 && d.Starts[n-1].At/minute == at/minute {
		return
	}
	d.Starts = append(d.Starts, Start{ev.Seq, at, even})
	old := 0
	for old < len(d.Starts)-1 && d.Starts[old+1].Even < even-day-minute {
		old++
	}
	d.Starts = append(d.Starts[:0], d.Starts[old:]...)
}

// None is what Since answers when no line counts: behind every seq.
const None = int64(1) << 62

// Since is the first line that counts as today, at the time that Log.Now gives.
func (d *Days) Since(now time.Time, step int64) int64 {
	at := now.UnixMilli()
	even := at - d.Steps - step
	today := at - at%day
	stepped := step != 0 || d.Stepped != 0 && even-d.Stepped < day
	for _, s := range d.Starts {
		// A minute more, since a start stands for the lines of its minute.
		if s.Even > even-day-minute && (s.At >= today || stepped) {
			return s.Seq
		}
	}
	return None
}
