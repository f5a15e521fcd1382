package box

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gurtos/core/actionlog"
)

// events reads server-sent events, each with one line of the log.
func events(r io.Reader, fn func(actionlog.Event)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
		if !ok {
			continue // id, comment, blank
		}
		var e actionlog.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("an event that is no line of the log: %w: %.300s", err, data)
		}
		fn(e)
	}
}
