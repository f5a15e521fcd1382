package cli

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestPermissionsChange(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"shell=off", "host:[2001:db8::1]:443=on", "key:A=off"}, `{"host:[2001:db8::1]:443":true,"key:A":false,"shell":false}`},
		{[]string{"dailyLimitCents=500", "diskCapBytes=2000000000", "declaredHostsOnly=on"}, `{"dailyLimitCents":500,"declaredHostsOnly":true,"diskCapBytes":2000000000}`},
		{[]string{"dailyLimitCents=none"}, `{"dailyLimitCents":null}`},
		{[]string{"shell"}, `"shell" is no change: a name, = and a value are needed, such as shell=off`},
		{[]string{"=on"}, `"=on" is no change: a name, = and a value are needed, such as shell=off`},
		{[]string{"shell=yes"}, `shell=yes: on, off, none or a whole number is needed`},
		{[]string{"dailyLimitCents=5.5"}, `dailyLimitCents=5.5: on, off, none or a whole number is needed`},
		{[]string{"shell=on", "shell=off"}, `shell is there twice`},
	} {
		change, err := permissionsChange(row.args)
		got, _ := json.Marshal(change)
		if err != nil {
			got = []byte(err.Error())
			if wrong := new(usageError); !errors.As(err, &wrong) {
				t.Errorf("%q: %v is no mistake of the caller's", row.args, err)
			}
		}
		if string(got) != row.want {
			t.Errorf("%q: %s, not %s", row.args, got, row.want)
		}
	}
}
