package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gurtos/core/config"
)

// bootFacts is what boxd itself reads of what init tells it.
type bootFacts struct {
	Slot  string `json:"slot"`
	Clock struct {
		Synced bool `json:"synced"`
	} `json:"clock"`
}

// synced says whether init held the clock to a time server meanwhile.
func synced() bool {
	f, _, err := readBoot()
	return err == nil && f.Clock.Synced
}

// timeHeard says whether a time server was heard since the machine started, by init or
// by whatever else holds the kernel's clock. Where the machine isn't a GurtOS box the
// clock is its owner's to keep: many such machines never tell the kernel that it is held
// to anything, and days there would go by the time that boxd ran.
func timeHeard(onBox bool) bool {
	if !onBox {
		return true
	}
	var tx unix.Timex
	_, err := unix.Adjtimex(&tx) // an unprivileged read; STA_UNSYNC is set at power-on
	return err == nil && tx.Status&unix.STA_UNSYNC == 0 || synced()
}

// readBoot gives them, and the file as it stands; nothing where there is no init.
func readBoot() (f bootFacts, raw json.RawMessage, err error) {
	raw, err = os.ReadFile(config.BootFile)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		return f, nil, fmt.Errorf("reading what init tells of the boot: %w", err)
	}
	return f, raw, nil
}

func (b *Box) startFacts() map[string]any {
	facts := map[string]any{"version": config.Version}
	if b.boot != nil {
		facts["boot"] = b.boot
	}
	if w := b.weaker(); len(w) > 0 {
		facts["weaker"] = w
	}
	return facts
}
