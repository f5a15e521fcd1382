package permission

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestChange(t *testing.T) {
	var r Rights
	for _, row := range []struct{ body, want string }{
		{`{}`, `{}`},
		{`{"money":false,"key:STRIPE_SECRET_KEY":false,"host:EXAMPLE.com.":false}`, `{"off":{"host:example.com":true,"key:STRIPE_SECRET_KEY":true,"money":true}}`},
		{`{"money":true,"dailyLimitCents":500}`, `{"off":{"host:example.com":true,"key:STRIPE_SECRET_KEY":true},"dailyLimitCents":500}`},
		{`{"host:example.com":true,"key:STRIPE_SECRET_KEY":true,"dailyLimitCents":0}`, `{"dailyLimitCents":0}`},
		{`{"dailyLimitCents":null,"diskCapBytes":1000000,"declaredHostsOnly":true}`, `{"diskCapBytes":1000000,"declaredHostsOnly":true}`},
		{`{"declaredHostsOnly":false,"strangers":false,"shell":false,"folders":false}`, `{"off":{"folders":true,"shell":true,"strangers":true},"diskCapBytes":1000000}`},
	} {
		next, err := r.Change([]byte(row.body))
		if err != nil {
			t.Fatalf("%s: %v", row.body, err)
		}
		r = next
		if got, _ := json.Marshal(r); string(got) != row.want {
			t.Errorf("%s: %s, not %s", row.body, got, row.want)
		}
	}
	if r.Allowed(Shell) || !r.Allowed(Money) {
		t.Error(r)
	}
}

func TestRefusedChanges(t *testing.T) {
	r, err := Rights{}.Change([]byte(`{"money":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		``: "the body is empty", `[]`: "the body is not a JSON object", `null`: "the body is not a JSON object",
		`{"money":1}`: "money: true or false is needed", `{"money":null}`: "money: true or false is needed",
		`{"mony":true}`: "mony: the box knows no permission of this name", `{"key:lower":true}`: "key:lower: the box knows no permission",
		`{"host:*.com":false}`: "host:*.com: ", `{"money:x":false}`: "money:x: the box knows no",
		`{"dailyLimitCents":-1}`: "dailyLimitCents: a whole number", `{"dailyLimitCents":0.5}`: "dailyLimitCents: a whole number",
		`{"dailyLimitCents":"5"}`: "dailyLimitCents: a whole number", `{"diskCapBytes":5}`: "diskCapBytes: a whole number",
		`{"diskCapBytes":1e99}`: "diskCapBytes: a whole number", `{"declaredHostsOnly":"x"}`: "declaredHostsOnly: true or false",
		`{"money":true,"money":false}`: "money: the field is there twice", `{"money":true,"shell":7}`: "shell: true or false",
	} {
		got, err := r.Change([]byte(body))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, not %s", body, err, want)
		}
		if got.Allowed(Money) {
			t.Errorf("%s: changed though it was refused", body)
		}
	}
}

func TestRefusal(t *testing.T) {
	for item, want := range map[string]string{
		Money:                   "Shop isn't allowed to spend money. The owner can allow it in Settings, Permissions.",
		"key:STRIPE_SECRET_KEY": "Shop isn't allowed to use STRIPE_SECRET_KEY. The owner can allow it in Settings, Permissions.",
		"host:example.com":      "Shop isn't allowed to let its agents reach example.com. The owner can allow it in Settings, Permissions.",
		Folders:                 "Shop isn't allowed to give agents copies of your folders. The owner can allow it in Settings, Permissions.",
		Strangers:               "Shop isn't allowed to answer strangers. The owner can allow it in Settings, Permissions.",
		Shell:                   "Shop isn't allowed to run agents that can run commands. The owner can allow it in Settings, Permissions.",
	} {
		if got := Refusal("Shop", item); got != want {
			t.Errorf("%s: %s", item, got)
		}
	}
}
