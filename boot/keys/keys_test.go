package keys

import (
	"encoding/binary"
	"slices"
	"testing"
)

func event(typ, code uint16, value int32) []byte {
	b := make([]byte, eventSize)
	binary.NativeEndian.PutUint16(b[16:], typ)
	binary.NativeEndian.PutUint16(b[18:], code)
	binary.NativeEndian.PutUint32(b[20:], uint32(value))
	return b
}

func TestPresses(t *testing.T) {
	var b []byte
	for _, e := range [][]byte{
		event(evKey, uint16(Power), 1),
		event(evKey, uint16(Power), 0), // released
		event(0, 0, 0),                 // end of a report
		event(evKey, 30, 1),            // the letter a
		event(evKey, uint16(Enter), 1),
		event(evKey, uint16(Enter), 2), // repeated
		event(2, uint16(Power), 1),     // a mouse that moved by 116
		event(evKey, uint16(KPEnter), 1),
	} {
		b = append(b, e...)
	}
	b = append(b, 1, 2, 3) // a torn event
	if got := presses(b); !slices.Equal(got, []Key{Power, Enter, KPEnter}) {
		t.Errorf("presses = %v", got)
	}
}
