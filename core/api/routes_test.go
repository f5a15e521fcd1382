package api

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// kinds of input, one of which each case is.
const (
	right   = "right"
	wrong   = "wrong"
	missing = "missing" // of what the path or the body must name
	large   = "too large"
)

// probe is one case of a route.
type probe struct {
	kind   string
	as     who // screen when 0
	path   string
	body   string
	header map[string]string
	status int
	says   string // must stand in the answer
}

func tarOf(t testing.TB, entries ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := ""
		if h.Typeflag == tar.TypeReg {
			text, h.Size = "text\n", 5
		}
		h.Mode = 0o755
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// cases are made per route, on a box with a running task, a finished one and a
// question.
func cases(t testing.TB, b *box) map[string][]probe {
	run, stop, undo, done, asked := b.running(), b.running(), b.put("undone.txt", "x\n"), b.put("a/b.txt", "one\ntwo\n"), b.asked("k/1 ?")
	big := `{"x":"` + strings.Repeat("y", 70<<10) + `"}`
	task := func(fields string) string { return `{"title":"T","prompt":"step x","worker":"fake"` + fields + `}` }
	tooLarge := func(path string) probe {
		return probe{kind: large, path: path, body: big, status: 413, says: "larger than 64 KB"}
	}
	code := func() string {
		var c PairCode
		b.into(req{method: "POST", path: "/api/pair/code", as: screen}, &c)
		return c.Code
	}
	files := "/api/workspaces/home/files"
	id := url.PathEscape(asked.ID)
	return map[string][]probe{
		"GET /":                 {{kind: right, path: "/", status: 200, says: "Pair a phone"}, {kind: wrong, path: "/nothing", status: 404, says: "nothing at /nothing"}},
		"GET /api/health":       {{kind: right, path: "/api/health", status: 200, says: `"ok":true`}},
		"GET /api/openapi.json": {{kind: right, path: "/api/openapi.json", status: 200, says: "3.1.0"}},
		"GET /api/box":          {{kind: right, path: "/api/box", status: 200, says: `"url":"http://`}},
		"GET /api/tasks": {
			{kind: right, path: "/api/tasks?state=running&workspace=home&limit=1", status: 200, says: `"running"`},
			{kind: right, path: "/api/tasks?before=" + run.ID, status: 200, says: "[]"},
			{kind: wrong, path: "/api/tasks?state=going", status: 400, says: "state:"},
			{kind: wrong, path: "/api/tasks?limit=1001", status: 400, says: "limit:"},
			{kind: wrong, path: "/api/tasks?limit=x", status: 400, says: "limit:"},
			{kind: wrong, path: "/api/tasks?limit=1&limit=2", status: 400, says: "limit: the parameter is there twice"},
			{kind: wrong, path: "/api/tasks?%zz", status: 400, says: "not well formed"},
			{kind: missing, path: "/api/tasks?before=tnone", status: 404, says: "tnone"},
		},
		"POST /api/tasks": {
			{kind: right, path: "/api/tasks", body: task(""), status: 201, says: `"queued"`},
			{kind: wrong, path: "/api/tasks", body: task(`,"bogus":1`), status: 400, says: "bogus: "},
			{kind: wrong, path: "/api/tasks", body: task(`,"id":"t1"`), status: 400, says: "id: "},
			{kind: wrong, path: "/api/tasks", body: task(`,"folder":"/home"`), status: 400, says: "GurtOS Personal"},
			{kind: wrong, path: "/api/tasks", body: `{"title":"T","prompt":"x"}`, status: 400, says: "worker: droid is not in this build"},
			{kind: wrong, path: "/api/tasks", body: "title=T", status: 400, says: "not a JSON object"},
			{kind: missing, path: "/api/tasks", body: `{"prompt":"x","worker":"fake"}`, status: 400, says: "title: "},
			{kind: missing, path: "/api/tasks", status: 400, says: "empty"},
			{kind: large, path: "/api/tasks", body: `{"title":"` + strings.Repeat("x", 12<<20) + `"}`, status: 413, says: "larger than 2 MB"},
		},
		"GET /api/tasks/{id}": {
			{kind: right, path: "/api/tasks/" + run.ID, status: 200, says: run.ID},
			{kind: missing, path: "/api/tasks/tnone", status: 404, says: "tnone"},
			{kind: wrong, path: "/api/tasks/%2e%2e%2f", status: 404, says: "error"},
		},
		"GET /api/tasks/{id}/undo": {
			{kind: right, path: "/api/tasks/" + done.ID + "/undo", status: 200, says: `"removed"`},
			{kind: missing, path: "/api/tasks/tnone/undo", status: 404, says: "tnone"},
		},
		"GET /api/tasks/{id}/reach": {
			{kind: right, path: "/api/tasks/" + run.ID + "/reach?host=example.com", status: 200, says: `"allowed":false,"why":"No rule names example.com."`},
			{kind: right, path: "/api/tasks/" + done.ID + "/reach?host=192.0.2.34:22", status: 200, says: `"target":"192.0.2.34:22"`},
			{kind: wrong, path: "/api/tasks/" + run.ID + "/reach?host=0x7f.1:80", status: 400, says: "host: "},
			{kind: missing, path: "/api/tasks/" + run.ID + "/reach", status: 400, says: "host: "},
			{kind: missing, path: "/api/tasks/tnone/reach?host=example.com", status: 404, says: "tnone"},
		},
		"POST /api/tasks/{id}/undo": {
			{kind: right, path: "/api/tasks/" + undo.ID + "/undo", body: "{}", status: 200, says: `"undone"`},
			{kind: wrong, path: "/api/tasks/" + done.ID + "/undo", body: `{"force":true}`, status: 400, says: "force: "},
			{kind: missing, path: "/api/tasks/tnone/undo", status: 404, says: "tnone"},
			tooLarge("/api/tasks/" + done.ID + "/undo"),
		},
		"POST /api/tasks/{id}/stop": {
			{kind: right, path: "/api/tasks/" + stop.ID + "/stop", status: 200, says: "Stopped by box screen."},
			{kind: wrong, path: "/api/tasks/" + done.ID + "/stop", status: 400, says: "is done and can't become failed"},
			{kind: missing, path: "/api/tasks/tnone/stop", status: 404, says: "tnone"},
			tooLarge("/api/tasks/" + run.ID + "/stop"),
		},
		"GET /api/tasks/{id}/changes": {
			{kind: right, path: "/api/tasks/" + done.ID + "/changes", status: 200, says: `"a/b.txt"`},
			{kind: missing, path: "/api/tasks/tnone/changes", status: 404, says: "tnone"},
		},
		"GET /api/tasks/{id}/diff": {
			{kind: right, path: "/api/tasks/" + done.ID + "/diff?path=a/b.txt", status: 200, says: "+one"},
			{kind: wrong, path: "/api/tasks/" + done.ID + "/diff?path=../x", status: 400, says: `path: \"../x\"`},
			{kind: missing, path: "/api/tasks/" + done.ID + "/diff", status: 400, says: "path: "},
			{kind: missing, path: "/api/tasks/" + done.ID + "/diff?path=none", status: 404, says: "none"},
		},
		"GET /api/approvals": {
			{kind: right, path: "/api/approvals?state=pending", status: 200, says: "May I?"},
			{kind: wrong, path: "/api/approvals?state=open", status: 400, says: "state: "},
		},
		"POST /api/approvals/{id}": {
			{kind: wrong, path: "/api/approvals/" + id, body: `{"approved":"yes"}`, status: 400, says: "approved: true or false is needed"},
			{kind: wrong, path: "/api/approvals/" + id, body: `{"approved":true,"reason":"` + strings.Repeat("x", 1001) + `"}`, status: 400, says: "reason: "},
			{kind: wrong, path: "/api/approvals/" + id, body: `{"approved":true,"by":"` + strings.Repeat("x", 61) + `"}`, status: 400, says: "by: at most 60"},
			{kind: wrong, path: "/api/approvals/" + id, body: `{"approved":true,"by":"a\nb"}`, status: 400, says: "by: only letters"},
			{kind: wrong, path: "/api/approvals/" + id, body: `{"approved":true,"by":"a\u202eb"}`, status: 400, says: "by: only letters"},
			{kind: missing, path: "/api/approvals/" + id, body: `{}`, status: 400, says: "approved: "},
			{kind: missing, path: "/api/approvals/none", body: `{"approved":true}`, status: 404, says: "none"},
			tooLarge("/api/approvals/" + id),
			{kind: right, as: member, path: "/api/approvals/" + id, body: `{"approved":false,"by":"somebody else","reason":"no"}`, status: 200, says: `"by":"device phone"`},
			{kind: right, path: "/api/approvals/" + id, body: `{"approved":true,"by":"late"}`, status: 200, says: `"denied"`},
		},
		"GET /api/log": {
			{kind: right, path: "/api/log?after=1&limit=2&task=" + run.ID, status: 200, says: `"task.created"`},
			{kind: right, path: "/api/log?after=999999", status: 200, says: "[]"},
			{kind: wrong, path: "/api/log?after=-1", status: 400, says: "after: "},
			{kind: wrong, path: "/api/log?limit=0", status: 400, says: "limit: "},
			{kind: missing, path: "/api/log?task=", status: 400, says: "task: "},
			{kind: missing, path: "/api/log?task=tnone", status: 200, says: "[]"},
		},
		"GET /api/events": {{kind: wrong, path: "/api/events?after=x", status: 400, says: "after: "},
			{kind: wrong, path: "/api/events", header: map[string]string{"Last-Event-ID": "x"}, status: 400, says: "Last-Event-ID: "}}, // right: TestEvents
		"GET /api/vault": {{kind: right, path: "/api/vault", status: 200, says: "["}},
		"PUT /api/vault/{name}": {
			{kind: right, path: "/api/vault/KEY_ONE", body: `{"value":"planted-12345"}`, status: 200, says: "KEY_ONE"},
			{kind: right, path: "/api/vault/KEY_TWO", body: "planted-67890\n", header: map[string]string{"Content-Type": "text/plain"}, status: 200, says: "setAt"},
			{kind: right, path: "/api/vault/KEY_TWO", body: "planted-67890", header: map[string]string{"Content-Type": "application/json"}, status: 200, says: "setAt"},
			{kind: right, path: "/api/vault/KEY_TWO", body: `{"type":"service-67890"}`, header: map[string]string{"Content-Type": "text/plain"}, status: 200, says: "setAt"},
			{kind: wrong, path: "/api/vault/KEY", body: `{"value":12345678}`, status: 400, says: "value: "},
			{kind: wrong, path: "/api/vault/KEY", body: `{"value":"planted-12345","more":1}`, status: 400, says: "value: "},
			{kind: wrong, path: "/api/vault/KEY", body: `{"value":"a","value":"planted-12345"}`, header: map[string]string{"Content-Type": "text/plain"}, status: 400, says: "value: "},
			{kind: wrong, path: "/api/vault/KEY", body: `"planted-12345"`, header: map[string]string{"Content-Type": "application/json"}, status: 400, says: "value: "},
			{kind: wrong, path: "/api/vault/KEY", body: `{"value":"planted-12345`, header: map[string]string{"Content-Type": "application/json"}, status: 400, says: "value: "},
			{kind: wrong, path: "/api/vault/key", body: "planted-12345", status: 400, says: "capital letters"},
			{kind: wrong, path: "/api/vault/KEY", body: "1234567", status: 400, says: "at least 8"},
			{kind: wrong, path: "/api/vault/KEY", body: `{"valve":"planted-12345"}`, header: map[string]string{"Content-Type": "application/json"}, status: 400, says: "value: "},
			{kind: missing, path: "/api/vault/KEY", status: 400, says: "at least 8"},
			{kind: large, path: "/api/vault/KEY", body: strings.Repeat("x", smallBody+1), status: 413, says: "larger than"},
			{kind: large, path: "/api/vault/KEY", body: strings.Repeat("x", 20<<10), status: 400, says: "larger than 16 KB"},
		},
		"DELETE /api/vault/{name}": {
			{kind: right, path: "/api/vault/KEY_TWO", status: 200, says: "true"},
			{kind: wrong, path: "/api/vault/key", status: 400, says: "capital letters"},
			{kind: missing, path: "/api/vault/NONE", status: 404, says: "no key"},
			tooLarge("/api/vault/KEY_ONE"),
		},
		"GET /api/apps": {
			{kind: right, path: "/api/apps", status: 200, says: `"shop"`}, {kind: right, path: "/api/apps?all=1", status: 200, says: `"other"`},
			{kind: wrong, path: "/api/apps?all=yes", status: 400, says: "all: "}, {kind: wrong, as: member, path: "/api/apps?all=1", status: 403, says: "owner"},
		},
		"PUT /api/apps/{app}": {
			{kind: right, path: "/api/apps/other", body: `{"on":true}`, status: 200, says: `"on":true`},
			{kind: right, path: "/api/apps/other", body: `{"on":false}`, status: 200, says: `"on":false`},
			{kind: wrong, path: "/api/apps/other", body: `{"on":1}`, status: 400, says: "on: "},
			{kind: wrong, path: "/api/apps/other", body: `{"off":true}`, status: 400, says: "off: "},
			{kind: wrong, path: "/api/apps/broken", body: `{"on":true}`, status: 400, says: "throws while it loads"},
			{kind: missing, path: "/api/apps/other", body: `{}`, status: 400, says: "on: true or false"},
			{kind: missing, path: "/api/apps/none", body: `{"on":true}`, status: 404, says: "there is no app none"},
			tooLarge("/api/apps/other"),
		},
		"GET /api/apps/{app}/output": {
			{kind: right, path: "/api/apps/shop/output", status: 200, says: "shop prints"},
			{kind: wrong, path: "/api/apps/shop/output?follow=yes", status: 400, says: "follow: "},
			{kind: missing, path: "/api/apps/none/output", status: 404, says: "no app named none"},
		},
		"POST /api/apps/{app}/window": {
			{kind: right, path: "/api/apps/shop/window", status: 200, says: `"token":"w`},
			{kind: right, as: member, path: "/api/apps/shop/window", body: "{}", status: 200, says: `"expiresAt":"2`},
			{kind: wrong, path: "/api/apps/shop/window", body: `{"hours":24}`, status: 400, says: "hours: "},
			{kind: missing, path: "/api/apps/other/window", status: 404, says: "is off"},
			{kind: missing, path: "/api/apps/none/window", status: 404, says: "no app named none"},
			tooLarge("/api/apps/shop/window"),
		},
		"GET /api/permissions": {{kind: right, path: "/api/permissions", status: 200, says: "["}},
		"PUT /api/permissions/{app}": {
			{kind: right, path: "/api/permissions/shop", body: `{"money":false,"dailyLimitCents":500}`, status: 200, says: `"dailyLimitCents":500`},
			{kind: wrong, path: "/api/permissions/shop", body: `{"fly":false}`, status: 400, says: "fly: "},
			{kind: wrong, path: "/api/permissions/shop", body: `{"key:MAP_KEY":false}`, status: 400, says: "key:MAP_KEY: the app shop doesn't declare this key"},
			{kind: wrong, path: "/api/permissions/shop", body: `{"host:example.com":true}`, status: 400, says: "host:example.com: this host is not turned off for the app shop, and its agents never used it, so there is nothing to turn on"},
			{kind: right, path: "/api/permissions/shop", body: `{"host:EXAMPLE.com":false}`, status: 200, says: `{"item":"host:example.com","allowed":false,`},
			{kind: right, path: "/api/permissions/shop", body: `{"host:example.com":true}`, status: 200, says: `"items":`},
			{kind: missing, path: "/api/permissions/wallet", body: `{"money":false}`, status: 404, says: "there is no app wallet"},
			{kind: missing, path: "/api/permissions/box", body: `{"money":false}`, status: 404, says: "there is no app box"},
			{kind: wrong, path: "/api/permissions/shop", body: `{"money":0}`, status: 400, says: "money: "},
			{kind: missing, path: "/api/permissions/shop", status: 400, says: "empty"},
			tooLarge("/api/permissions/shop"),
		},
		"GET /api/settings": {{kind: right, path: "/api/settings", status: 200, says: `"defaultBudgetCents":100`}},
		"PUT /api/settings": {
			{kind: right, path: "/api/settings", body: `{"keepDays":3}`, status: 200, says: `"keepDays":3`},
			{kind: wrong, path: "/api/settings", body: `{"keepDays":4,"bogus":1}`, status: 400, says: "bogus: "},
			{kind: wrong, path: "/api/settings", body: `{"keepDays":"4"}`, status: 400, says: "keepDays: "},
			{kind: wrong, path: "/api/settings", body: `[]`, status: 400, says: "not a JSON object"},
			{kind: missing, path: "/api/settings", status: 400, says: "empty"},
			tooLarge("/api/settings"),
		},
		"POST /api/pause": {
			{kind: right, path: "/api/pause", body: `{"paused":true}`, status: 200, says: "true"},
			{kind: right, path: "/api/pause", body: `{"paused":false}`, status: 200, says: "false"},
			{kind: wrong, path: "/api/pause", body: `{"paused":1}`, status: 400, says: "paused: "},
			{kind: missing, path: "/api/pause", body: `{}`, status: 400, says: "paused: "},
			tooLarge("/api/pause"),
		},
		"GET /api/workspaces": {{kind: right, path: "/api/workspaces", status: 200, says: `"home"`}},
		"POST /api/workspaces": {
			{kind: right, path: "/api/workspaces", body: `{"name":"new"}`, status: 201, says: `"new"`},
			{kind: wrong, path: "/api/workspaces", body: `{"name":"new"}`, status: 400, says: "name: there is a workspace"},
			{kind: wrong, path: "/api/workspaces", body: `{"name":".."}`, status: 400, says: "name: "},
			{kind: missing, path: "/api/workspaces", body: `{}`, status: 400, says: "name: "},
			tooLarge("/api/workspaces"),
		},
		"GET /api/workspaces/{name}/files": {
			{kind: right, path: files + "?path=a/b.txt", status: 200, says: "one\ntwo\n"},
			{kind: right, path: files, status: 200, says: `"kind":"folder"`},
			{kind: wrong, path: files + "?path=../../vault.env", status: 400, says: `..`},
			{kind: wrong, path: files + "?path=/etc/passwd", status: 400, says: "slash"},
			{kind: missing, path: files + "?path=none", status: 404, says: "none"},
			{kind: missing, path: "/api/workspaces/none/files", status: 404, says: "no workspace"},
			{kind: wrong, path: "/api/workspaces/..%2f..%2fetc/files", status: 404, says: "no workspace"},
		},
		"PUT /api/workspaces/{name}/files": {
			{kind: right, path: files + "?path=put.txt", body: "hello", status: 201, says: "Files put in"},
			{kind: right, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "t/x", Typeflag: tar.TypeReg}, tar.Header{Name: "t/l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), status: 201, says: `"done"`},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "../x", Typeflag: tar.TypeReg}), status: 400, says: ".."},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "/x", Typeflag: tar.TypeReg}), status: 400, says: "slash"},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, tar.Header{Name: "l/x", Typeflag: tar.TypeReg}), status: 400, says: "symlink"},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../../vault.env"}), status: 400, says: ".."},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "d", Typeflag: tar.TypeBlock}), status: 400, says: "neither file"},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "nowhere"}), status: 400, says: "a hard link to \\\"nowhere\\\", which is not there"},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "t/x", Typeflag: tar.TypeReg})[:700], status: 400, says: "ends in the middle"},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "t/x", Typeflag: tar.TypeReg})[:1024], status: 400, says: "ends in the middle"},
			{kind: wrong, path: files + "?unpack=tar", body: strings.Repeat("no tar", 200), status: 400, says: "archive"},
			{kind: wrong, path: files + "?path=caf%e9.txt", body: "x", status: 400, says: `path: \"caf\\xe9.txt\" is not UTF-8: rename it`},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "good.txt", Typeflag: tar.TypeReg}, tar.Header{Name: "caf\xe9/x", Typeflag: tar.TypeReg}), status: 400, says: "is not UTF-8: rename it"},
			{kind: wrong, path: files + "?unpack=tar", body: tarOf(t, tar.Header{Name: "caf\xe9", Typeflag: tar.TypeDir}), status: 400, says: "is not UTF-8: rename it"},
			{kind: wrong, path: files + "?unpack=zip&path=x", body: "x", status: 400, says: "unpack: "},
			{kind: wrong, path: files + "?path=a", body: "x", status: 400, says: "folder"},
			{kind: missing, path: files, body: "x", status: 400, says: "path: "},
			{kind: missing, path: "/api/workspaces/none/files?path=x", body: "x", status: 404, says: "no workspace"},
			{kind: large, path: files + "?path=x", header: map[string]string{"Content-Length": strconv.Itoa(fileBody + 1)}, status: 413, says: "larger than 8 GB"},
		},
		"DELETE /api/workspaces/{name}/files": {
			{kind: right, path: files + "?path=put.txt", status: 200, says: `"title":"Files deleted","prompt":"# put.txt deleted by `},
			{kind: wrong, path: files + "?path=../x", status: 400, says: ".."},
			{kind: missing, path: files, status: 400, says: "path: "},
			{kind: missing, path: files + "?path=none", status: 404, says: "none"},
			tooLarge(files + "?path=a"),
		},
		"POST /api/pair/code": {
			{kind: right, path: "/api/pair/code", body: `{"role":"device"}`, status: 201, says: "<svg"},
			{kind: wrong, path: "/api/pair/code", body: `{"role":"king"}`, status: 400, says: "role: "},
			{kind: wrong, path: "/api/pair/code", body: `{"rôle":"owner"}`, status: 400, says: "does not know"},
			{kind: missing, path: "/api/pair/code", status: 201, says: "code"},
			tooLarge("/api/pair/code"),
		},
		"POST /api/pair": {
			{kind: right, as: none, path: "/api/pair", body: `{"code":"` + code() + `","name":"New"}`, status: 201, says: "token"},
			{kind: wrong, as: none, path: "/api/pair", body: `{"code":"00000000","name":"New"}`, status: 400, says: "not valid"},
			{kind: wrong, as: none, path: "/api/pair", body: `{"code":"00000000","name":"Box screen"}`, status: 400, says: "name: "},
			{kind: missing, as: none, path: "/api/pair", body: `{"name":"New"}`, status: 400, says: "code: "},
			{kind: missing, as: none, path: "/api/pair", body: `{"code":"00000000"}`, status: 400, says: "name: "},
			tooLarge("/api/pair"),
		},
		"GET /api/devices": {{kind: right, path: "/api/devices", status: 200, says: "owner phone"}},
		"DELETE /api/devices/{id}": {
			{kind: wrong, as: member, path: "/api/devices/" + b.id[owner], status: 403, says: "only itself"},
			{kind: missing, path: "/api/devices/none", status: 404, says: "no paired device"},
			tooLarge("/api/devices/none"),
			{kind: right, as: member, path: "/api/devices/" + b.id[member], status: 200, says: "true"},
			{kind: wrong, as: member, path: "/api/devices/" + b.id[member], status: 401, says: "pair the device again"},
		},
		"GET /api/spend": {
			{kind: right, path: "/api/spend?from=2026-01-01&to=2026-12-31", status: 200, says: "["},
			{kind: wrong, path: "/api/spend?from=yesterday", status: 400, says: "from: "},
			{kind: wrong, path: "/api/spend?to=2026-13-01", status: 400, says: "to: "},
		},
		"GET /api/update":  {{kind: missing, path: "/api/update", status: 501, says: "updates"}},
		"POST /api/update": {{kind: missing, path: "/api/update", body: "x", status: 501, says: "updates"}},
		"POST /hook/{app}/{name}": {
			{kind: right, path: "/hook/shop/push", body: `{"a":[1,null]}`, status: 200, says: `{"body":{"a":[1,null]},"caller":"screen"}`},
			{kind: right, path: "/hook/shop/quiet", status: 200, says: "null"},
			{kind: wrong, path: "/hook/shop/push", body: "a=1", status: 400, says: "not JSON"},
			{kind: wrong, path: "/hook/shop/throws", body: "1", status: 500, says: "it threw"},
			{kind: missing, path: "/hook/shop/none", body: "{}", status: 404, says: "no webhook none"},
			{kind: missing, path: "/hook/none/x", body: "{}", status: 404, says: "no app named none"},
			{kind: large, path: "/hook/shop/push", body: strings.Repeat("x", appBody+1), status: 413, says: "10 MB"},
		},
		"GET /t/{app}/{path...}": {
			{kind: right, path: "/t/shop/", status: 200, says: "<title>Shop"}, {kind: wrong, path: "/t/shop", status: 404, says: "nothing at /t/shop"},
			{kind: missing, path: "/t/none/", status: 404, says: "no app named none"}, {kind: missing, path: "/t/other/", status: 404, says: "is off"},
		},
		"POST /t/{app}/{path...}": {
			{kind: right, path: "/t/shop/who", body: "x", status: 200, says: "screen"}, {kind: wrong, path: "/t/shop/json", status: 405, says: "takes GET, HEAD, OPTIONS at /json"},
			{kind: missing, path: "/t/shop/a/b", status: 404, says: "nothing at /a/b"}, {kind: large, path: "/t/shop/who", body: strings.Repeat("x", appBody+1), status: 413, says: "10 MB"},
		},
		"PUT /t/{app}/{path...}": {
			{kind: right, path: "/t/shop/x", status: 200, says: "put"}, {kind: wrong, path: "/t/shop/who", status: 405, says: "takes GET, POST, HEAD, OPTIONS"},
			{kind: missing, path: "/t/shop/y", status: 404, says: "nothing at /y"}, {kind: large, path: "/t/shop/x", body: strings.Repeat("x", appBody+1), status: 413, says: "10 MB"},
		},
		"PATCH /t/{app}/{path...}": {
			{kind: right, path: "/t/shop/x", status: 200, says: "patched"}, {kind: wrong, path: "/t/shop/who", status: 405, says: "takes"},
			{kind: missing, path: "/t/shop/y", status: 404, says: "nothing at /y"}, {kind: large, path: "/t/shop/x", body: strings.Repeat("x", appBody+1), status: 413, says: "10 MB"},
		},
		"DELETE /t/{app}/{path...}": {
			{kind: right, path: "/t/shop/x", status: 200, says: "deleted"}, {kind: wrong, path: "/t/shop/who", status: 405, says: "takes"},
			{kind: missing, path: "/t/shop/y", status: 404, says: "nothing at /y"}, {kind: large, path: "/t/shop/x", body: strings.Repeat("x", appBody+1), status: 413, says: "10 MB"},
		},
		"GET /kit/{file}": {
			{kind: right, as: none, path: "/kit/gurtos.js", status: 200, says: "EventSource"}, {kind: right, as: none, path: "/kit/gurtos.css?v=1", status: 200, says: "--ground"},
			{kind: missing, path: "/kit/none.js", status: 404, says: "no none.js"}, {kind: wrong, path: "/kit/..%2fdoc.go", status: 404, says: "the kit has no"},
		},
		"GET /metrics": {{kind: right, path: "/metrics", status: 200, says: "gurtos_log_lines_total"}},
	}
}

func TestEveryRoute(t *testing.T) {
	b := newBox(t)
	all := cases(t, b)
	for i := range Routes {
		r := &Routes[i]
		list := all[r.name()]
		delete(all, r.name())
		have := map[string]bool{}
		for _, a := range list {
			have[a.kind] = true
			t.Run(fmt.Sprintf("%s %s %d", r.name(), a.kind, a.status), func(t *testing.T) {
				as := a.as
				if as == 0 {
					as = screen
				}
				got := b.with(t).send(req{as: as, method: r.Method, path: a.path, body: a.body, header: a.header})
				if got.status != a.status || !strings.Contains(got.body, a.says) {
					t.Fatalf("%s: %d %.300s, want %d with %q", a.path, got.status, got.body, a.status, a.says)
				}
				if strings.Contains(got.body, "planted-") {
					t.Errorf("the answer holds a vault value: %s", got.body)
				}
				checkShape(t, r, got)
			})
		}
		if len(list) == 0 {
			t.Errorf("%s: no case", r.name())
		}
		if takes := r.Method != "GET" && r.Later == ""; takes && !(have[right] && have[wrong] && have[missing] && have[large]) {
			t.Errorf("%s: right, wrong, missing and too large are needed, there is %v", r.name(), have)
		}
	}
	for name := range all {
		t.Errorf("no route %s", name)
	}
}

// with is the same box for a part of a test.
func (b *box) with(t testing.TB) *box {
	c := *b
	c.t = t
	return &c
}

// send is do, but for a Content-Length that only claims.
func (b *box) send(r req) res {
	b.t.Helper()
	if r.header["Content-Length"] != "" {
		return b.raw(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %s\r\nExpect: 100-continue\r\n\r\n",
			r.method, r.path, strings.TrimPrefix(b.url, "http://"), r.header["Content-Length"]))
	}
	return b.do(r)
}

var schemaOf = map[string]*jsonschema.Schema{}

// checkShape holds an answer to what the OpenAPI document says of it.
func checkShape(t testing.TB, r *Route, got res) {
	t.Helper()
	if got.status == http.StatusMethodNotAllowed || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") {
		return
	}
	path := strings.ReplaceAll(r.Path, "...}", "}")
	ops := openapi(t)["paths"].(map[string]any)[path]
	if ops == nil {
		t.Fatalf("%s is not in the document", path)
	}
	answers := ops.(map[string]any)[strings.ToLower(r.Method)].(map[string]any)["responses"].(map[string]any)
	status := strconv.Itoa(got.status)
	if answers[status] == nil && got.status != 404 {
		t.Errorf("%s: the document has no answer %s", r.name(), status)
		return
	}
	if _, media := r.Out.(Media); media && got.status/100 == 2 {
		return
	}
	at := "/components/schemas/Error"
	if got.status/100 == 2 {
		at = "/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path) + "/" + strings.ToLower(r.Method) + "/responses/" + status + "/content/application~1json/schema"
	}
	if schemaOf[at] == nil {
		schemaOf[at] = compiled(t, at)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(got.body))
	if err != nil {
		t.Fatalf("%s: %v", r.name(), err)
	}
	if err := schemaOf[at].Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", r.name(), err, got.body)
	}
}

// A parameter that a route doesn't have is refused by name, by every route; one that is
// not well formed, too.
func TestUnknownParameters(t *testing.T) {
	b := newBox(t)
	for i := range Routes {
		r := &Routes[i]
		path := strings.NewReplacer("{id}", "x", "{name}", "x", "{app}", "x", "{path...}", "x", "{file}", "gurtos.js").Replace(r.Path)
		own := r.Page || strings.HasPrefix(r.Path, "/t/") || strings.HasPrefix(r.Path, "/hook/")
		for query, says := range map[string]string{
			"?lmit=1": "lmit: " + r.name() + " knows no parameter of this name; it takes ", "?%zz": "not well formed", "?a%0Ab=1": "a\uFFFDb: ",
		} {
			if r.Path == "/api/events" {
				query += "&after=x" // one that is not refused for its name would stream
			}
			got := b.do(req{as: screen, method: r.Method, path: path + query})
			refused := got.status == 400 && strings.Contains(got.body, says)
			if refused == own {
				t.Errorf("%s%s: %d %s", r.name(), query, got.status, got.body)
			}
		}
	}
	if got := b.do(req{as: screen, method: "GET", path: "/api/tasks?state=done&limit=5&befor=x"}); !strings.Contains(got.body, "befor: GET /api/tasks knows no parameter of this name; it takes state, workspace, before, limit") {
		t.Error(got.body)
	}
}

// Each route answers each kind of caller as the table says: 401 to nobody, 403
// to a device that may not, and neither to one that may.
func TestRights(t *testing.T) {
	b := newBox(t)
	for i := range Routes {
		r := &Routes[i]
		for _, as := range []who{screen, owner, member, none} {
			path := strings.NewReplacer("{id}", "x", "{name}", "x", "{app}", "x", "{path...}", "x", "{file}", "x").Replace(r.Path)
			if r.Path == "/api/events" {
				path += "?after=x" // a right one would stream
			}
			got := b.do(req{as: as, method: r.Method, path: path})
			want := 0
			switch {
			case as == none && (r.Who&none == 0 || strings.HasPrefix(r.Path, "/t/")): // which no open route is
				want = 401
			case r.Who&as != 0:
			default:
				want = 403
			}
			refused := got.status == 401 || got.status == 403
			if r.name() == "DELETE /api/devices/{id}" && as == member {
				want, refused = 403, true // its own alone, which is not x
			}
			if want != 0 && got.status != want || want == 0 && refused {
				t.Errorf("%s as %v: %d %s", r.name(), callers(as), got.status, got.body)
			}
		}
	}
}

func TestTypesOfTheTableAreStructs(t *testing.T) {
	for _, r := range Routes {
		for _, v := range []any{r.In, r.Out} {
			if v == nil {
				continue
			}
			if k := reflect.TypeOf(v).Kind(); k != reflect.Struct && k != reflect.Slice && k != reflect.Map {
				t.Errorf("%s: %T", r.name(), v)
			}
		}
		if !strings.HasSuffix(r.Doc, ".") {
			t.Errorf("%s: %q is no sentence", r.name(), r.Doc)
		}
	}
}

// What only the screen and an owner may do, as the specification lists it: the tests
// above hold the handlers to the table, and this the table.
func TestOwnersRoutes(t *testing.T) {
	want := map[string]bool{}
	for _, name := range []string{
		"GET /api/log", "GET /api/vault", "PUT /api/vault/{name}", "DELETE /api/vault/{name}", "PUT /api/apps/{app}",
		"GET /api/permissions", "PUT /api/permissions/{app}", "GET /api/settings", "PUT /api/settings",
		"PUT /api/workspaces/{name}/files", "DELETE /api/workspaces/{name}/files", "POST /api/pair/code",
		"GET /api/devices", "GET /api/spend", "GET /api/update", "POST /api/update", "GET /metrics",
		"GET /api/apps/{app}/output", // not listed there; what an app prints is for who writes it
	} {
		want[name] = true
	}
	for _, r := range Routes {
		if only := r.Who == owners; only != want[r.name()] {
			t.Errorf("%s is the owner's alone: %v", r.name(), only)
		}
		delete(want, r.name())
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
}
