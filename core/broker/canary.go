package broker

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"gurtos/core/durable"
	"gurtos/core/leak"
)

// Canary makes the false cloud key that each task has in its environment, the same
// one for a task for ever, and unique to it. Nothing of it is a key to anything.
type Canary struct{ secret []byte }

// OpenCanary reads the secret that canaries are made from, or makes it.
func OpenCanary(disk durable.FS, path string) (*Canary, error) {
	b, err := durable.ReadFile(disk, path)
	if err == nil && len(b) == sha256.Size {
		return &Canary{b}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b = make([]byte, sha256.Size)
	rand.Read(b) // never fails
	return &Canary{b}, durable.Replace(disk, path, b, 0o600)
}

// Keys are a task's false keys, in the shape of Amazon's.
func (c *Canary) Keys(id string) (accessKeyID, secretAccessKey string) {
	sum := func(what string) []byte {
		m := hmac.New(sha256.New, c.secret)
		m.Write([]byte(what + "\x00" + id))
		return m.Sum(nil)
	}
	return "AKIA" + base32.StdEncoding.EncodeToString(sum("id"))[:16],
		base64.StdEncoding.EncodeToString(sum("secret"))[:40]
}

// trap finds a task's canary in what it sends.
type trap struct{ set *leak.Set }

// newTrap prepares the search: for each false key, its halves too, so that one split
// over two fields in any order is found (the larger part holds a half).
func newTrap(keys ...string) trap {
	var secrets []leak.Secret
	for _, k := range keys {
		h := (len(k) + 1) / 2
		for _, part := range []string{k[:h], k[len(k)-h:]} {
			secrets = append(secrets, leak.Secret{Name: "canary", Value: part})
		}
	}
	return trap{leak.NewSet(secrets...)}
}

// in says whether the canary stands in a JSON value: in one of its names, strings or
// numbers, in any spelling that package leak knows, or in what its strings and numbers
// give when they are joined in the order in which they stand.
func (t trap) in(raw json.RawMessage) bool {
	var leaves, joined strings.Builder
	texts(raw, func(s string, name bool) {
		leaves.WriteString(s)
		leaves.WriteByte(0)
		if !name {
			joined.WriteString(s)
		}
	})
	return t.found(leaves.String()) || t.found(joined.String()) || t.found(string(raw))
}

// found searches a text, and what it is once its escapes and line breaks are gone.
func (t trap) found(s string) bool {
	if t.set.In(s) {
		return true
	}
	bare := strings.Map(func(r rune) rune {
		if r <= ' ' {
			return -1
		}
		return r
	}, s)
	return bare != s && t.set.In(bare)
}

// texts calls fn with every name, string and number of a JSON value, as they stand.
func texts(raw json.RawMessage, fn func(s string, name bool)) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var objects []bool // for each open bracket, whether it is an object's
	name := false      // the next string is a name
	for {
		tok, err := d.Token()
		if err != nil {
			return
		}
		inObject := len(objects) > 0 && objects[len(objects)-1]
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				objects = append(objects, v == '{')
			} else {
				objects = objects[:len(objects)-1]
			}
			name = len(objects) > 0 && objects[len(objects)-1]
			continue
		case string:
			fn(v, name)
		case json.Number:
			fn(v.String(), false)
		}
		name = inObject && !name
	}
}
