package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"gurtos/core/tool"
)

// A tool is told whether its call may have begun before: by a run that was cut off, and
// over a restart of the box. Asking the owner is no beginning.
func TestFreshCalls(t *testing.T) {
	var mu sync.Mutex
	var said []string
	shop := &till{}
	shop.out = func(call tool.Call, _ json.RawMessage) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf("%s fresh %v", call.Key()[len(call.Task().ID)+1:], call.Fresh()))
		if len(said) < 4 {
			return nil, tool.ErrCutOff
		}
		return json.RawMessage(`1`), nil
	}
	b := shopBox(t, shop, boxOptions{})
	id := b.begin(buys)
	call := func(key, input string) answered { return b.call(id, key, "shop.buy", input) }
	go b.send(context.Background(), id, "POST", "/call", `{"key":"asked","tool":"shop.buy","input":{"cents":300}}`)
	ask := b.pending(id)
	b.restart()
	b.runner.wait(t, id)
	b.answer(ask.ID, true)
	call("asked", `{"cents":300}`)
	call("asked", `{"cents":300}`)
	b.restart()
	b.runner.wait(t, id)
	call("asked", `{"cents":300}`)
	call("other", `{"cents":0}`)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"asked fresh true", "asked fresh false", "asked fresh false", "other fresh true"}; !slices.Equal(said, want) {
		t.Errorf("%q, not %q", said, want)
	}
}
