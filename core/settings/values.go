package settings

import (
	"encoding/json"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gurtos/netpolicy/rules"
)

// Values is every setting as it holds now.
type Values struct {
	DefaultBudgetCents     int64    `json:"defaultBudgetCents"`
	ApprovalThresholdCents int64    `json:"approvalThresholdCents"`
	NetworkDefault         string   `json:"networkDefault"`
	DefaultHosts           []string `json:"defaultHosts"`
	MaxRunning             int64    `json:"maxRunning"`
	KeepDays               int64    `json:"keepDays"`
	UploadAskMB            int64    `json:"uploadAskMB"`
	TimeZone               string   `json:"timeZone"`
	BoxName                string   `json:"boxName"`
	Theme                  string   `json:"theme"`
	SecondLook             string   `json:"secondLook"`
	UpdateSource           string   `json:"updateSource"`
	UpdateAuto             bool     `json:"updateAuto"`
	UpdateHour             int64    `json:"updateHour"`
	PushText               bool     `json:"pushText"`
	ScreenBlankMinutes     int64    `json:"screenBlankMinutes"`
}

// Defaults are the values of a new box.
func Defaults() Values {
	return Values{
		DefaultBudgetCents:     100,
		ApprovalThresholdCents: 500,
		NetworkDefault:         "none",
		DefaultHosts:           []string{},
		MaxRunning:             int64(2 * runtime.NumCPU()),
		KeepDays:               30,
		UploadAskMB:            100,
		TimeZone:               "UTC",
		BoxName:                "gurtos",
		Theme:                  "system",
		SecondLook:             "doubts",
		UpdateAuto:             true,
		UpdateHour:             3,
		ScreenBlankMinutes:     10,
	}
}

// Setting is one row of the table that the API, its documentation and the checks
// are made from.
type Setting struct {
	Name string
	Doc  string // one sentence for people
	set  func(*Values, json.RawMessage) error
}

// Table is every setting, in the order in which they are shown.
var Table = []Setting{
	whole("defaultBudgetCents", "What calls of tools and of models may cost a task without an OK when it names no budget, in US cents. What its worker books itself, as spent already, counts and never asks.", 0, 100_000, func(v *Values) *int64 { return &v.DefaultBudgetCents }),
	whole("approvalThresholdCents", "One spend above this asks for an OK even within the budget, in US cents.", 0, 100_000, func(v *Values) *int64 { return &v.ApprovalThresholdCents }),
	choice("networkDefault", "What a task that names no hosts gets: none, or defaultHosts when it is allowlist.", func(v *Values) *string { return &v.NetworkDefault }, "none", "allowlist"),
	{"defaultHosts", "Hosts for tasks that name none, used when networkDefault is allowlist.", setHosts},
	whole("maxRunning", "How many tasks may run at once; the others queue.", 1, 1000, func(v *Values) *int64 { return &v.MaxRunning }),
	whole("keepDays", "Days for which the files of failed tasks and the homes of done ones are kept.", 0, 3650, func(v *Values) *int64 { return &v.KeepDays }),
	whole("uploadAskMB", "Megabytes that a task may send to one host before it needs an OK.", 0, 1_000_000, func(v *Values) *int64 { return &v.UploadAskMB }),
	text("timeZone", "The box's time zone, such as Europe/London.", func(v *Values) *string { return &v.TimeZone }, checkZone),
	text("boxName", "The box's name: letters, digits and hyphens, also its host name.", func(v *Values) *string { return &v.BoxName }, checkName),
	choice("theme", "Light or dark pages, or as the device says.", func(v *Values) *string { return &v.Theme }, "system", "light", "dark"),
	choice("secondLook", "Whether a second model's doubts about a risky step are put to the owner.", func(v *Values) *string { return &v.SecondLook }, "doubts", "off"),
	text("updateSource", "Address of the update server; empty for none.", func(v *Values) *string { return &v.UpdateSource }, checkSource),
	flag("updateAuto", "Install updates by itself at updateHour.", func(v *Values) *bool { return &v.UpdateAuto }),
	whole("updateHour", "Hour of the day, in timeZone, at which updates are installed.", 0, 23, func(v *Values) *int64 { return &v.UpdateHour }),
	flag("pushText", "Whether push messages hold the question itself and not only that there is one.", func(v *Values) *bool { return &v.PushText }),
	whole("screenBlankMinutes", "Minutes without a touch after which the box's screen goes dark; 0 for never.", 0, 1440, func(v *Values) *int64 { return &v.ScreenBlankMinutes }),
}

func find(name string) (Setting, bool) {
	i := slices.IndexFunc(Table, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return Table[i], true
}

func whole(name, doc string, low, high int64, at func(*Values) *int64) Setting {
	return Setting{name, doc, func(v *Values, raw json.RawMessage) error {
		var n int64
		if json.Unmarshal(raw, &n) != nil || string(raw) == "null" || n < low || n > high {
			return fmt.Errorf("a whole number from %d to %d is needed", low, high)
		}
		*at(v) = n
		return nil
	}}
}

func flag(name, doc string, at func(*Values) *bool) Setting {
	return Setting{name, doc, func(v *Values, raw json.RawMessage) error {
		if s := string(raw); s != "true" && s != "false" {
			return fmt.Errorf("true or false is needed")
		}
		*at(v) = string(raw) == "true"
		return nil
	}}
}

func text(name, doc string, at func(*Values) *string, check func(string) error) Setting {
	return Setting{name, doc, func(v *Values, raw json.RawMessage) error {
		var s string
		if json.Unmarshal(raw, &s) != nil || string(raw) == "null" {
			return fmt.Errorf("a string is needed")
		}
		if err := check(s); err != nil {
			return err
		}
		*at(v) = s
		return nil
	}}
}

func choice(name, doc string, at func(*Values) *string, words ...string) Setting {
	return text(name, doc, at, func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("one of %s is needed", strings.Join(words, ", "))
		}
		return nil
	})
}

func setHosts(v *Values, raw json.RawMessage) error {
	var hosts []string
	if json.Unmarshal(raw, &hosts) != nil || hosts == nil {
		return fmt.Errorf("an array of strings is needed")
	}
	set, err := rules.ParseList(hosts)
	if err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "hosts"), ": "))
	}
	v.DefaultHosts = []string{}
	for _, r := range set.Rules() {
		v.DefaultHosts = append(v.DefaultHosts, r.String())
	}
	return nil
}

func checkZone(s string) error {
	if s == "" || s == "Local" || len(s) > 64 {
		return fmt.Errorf("a time zone such as Europe/London or UTC is needed")
	}
	if _, err := time.LoadLocation(s); err != nil {
		return fmt.Errorf("there is no time zone of this name")
	}
	return nil
}

// checkName holds a name to what a host name takes, since it becomes one.
func checkName(s string) error {
	ok := len(s) >= 1 && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-'
	for _, c := range s {
		ok = ok && (c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) || c == '-')
	}
	if !ok {
		return fmt.Errorf("1 to 63 letters, digits and hyphens are needed, with no hyphen at either end")
	}
	return nil
}

func checkSource(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > 2000 || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return fmt.Errorf("an address that starts with https:// or http:// is needed, or nothing")
	}
	return nil
}
