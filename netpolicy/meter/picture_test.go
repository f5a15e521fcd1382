package meter

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

func encoded(t *testing.T, kind string, w, h int) string {
	t.Helper()
	var b bytes.Buffer
	var err error
	m := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
	switch kind {
	case "png":
		err = png.Encode(&b, m)
	case "jpeg":
		err = jpeg.Encode(&b, m, nil)
	case "gif":
		err = gif.Encode(&b, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// photo is a JPEG in front of whose size stands what cameras write there.
func photo(t *testing.T, w, h, notes int) string {
	plain := encoded(t, "jpeg", w, h)
	var b strings.Builder
	b.WriteString(plain[:2])
	for range notes {
		b.WriteString("\xff\xe1" + string(binary.BigEndian.AppendUint16(nil, 0xffff)) + strings.Repeat("n", 0xffff-2))
	}
	return b.String() + plain[2:]
}

// TestPictures holds what pictures and documents in a request are taken for, wherever it
// is cut into pieces; and that nothing else is taken for one.
func TestPictures(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	source := func(media, data string) string {
		return `{"type":"base64","media_type":"` + media + `","data":"` + b64([]byte(data)) + `"}`
	}
	block := func(kind, source string) string { return `{"type":"` + kind + `","source":` + source + `}` }
	picture := func(data string) string { return block("image", source("image/x", data)) }
	ask := func(content string) string {
		return `{"model":"m","messages":[{"role":"user","content":[` + content + `,{"type":"text","text":"What is it?"}]}]}`
	}
	vp8 := func(kind, head string) string {
		return "RIFF\x00\x00\x00\x00WEBP" + kind + "\x00\x00\x00\x00" + head + strings.Repeat("\x00", 99)
	}
	pdf := func(pages int) string {
		var b strings.Builder
		b.WriteString("%PDF-1.4\n1 0 obj<</Type /Pages /Count 3>>endobj\n2 0 obj<</Type/Catalog>>endobj\n")
		for i := range pages {
			fmt.Fprintf(&b, "%d 0 obj\n<<\n/Type%s/Page%s/Parent 1 0 R>>\nendobj\n%s\n", i+3, []string{"", " ", "\r\n"}[i%3], []string{"", "\n", " "}[i%3], strings.Repeat("x", 999))
		}
		return b.String() + "startxref\n" + strings.Repeat("0", 99)
	}
	long := strings.Repeat("All work and no play. ", 4000)
	small := encoded(t, "png", 300, 250) // 100 tokens
	for _, c := range []struct {
		name, body string
		tokens     int64 // of what is to be seen; -1: all of it is text
	}{
		{"a PNG", ask(picture(encoded(t, "png", 1000, 750))), 1000},
		{"a JPEG", ask(picture(encoded(t, "jpeg", 1000, 300))), 400},
		{"a GIF", ask(picture(encoded(t, "gif", 75, 10))), 1},
		{"a WebP", ask(picture(vp8("VP8 ", "\x00\x00\x00\x9d\x01\x2a\x2c\x41\xfa\x80"))), 100}, // 300 by 250, scaled
		{"a WebP without loss", ask(picture(vp8("VP8L", "\x2f"+string(binary.LittleEndian.AppendUint32(nil, 299|249<<14))))), 100},
		{"a WebP with more", ask(picture(vp8("VP8X", "\x00\x00\x00\x00\x2b\x01\x00\xf9\x00\x00"))), 100},
		{"a part of a token", ask(picture(encoded(t, "png", 3, 251))), 2},
		{"as large as there is", ask(picture(encoded(t, "png", 2576, 2576))), mostPicture},
		{"larger than a model sees", ask(picture(encoded(t, "png", 8000, 8000))), mostPicture},
		{"a photo with a camera's notes", ask(picture(photo(t, 1500, 1000, 2))), 2000},
		{"a photo with a book in front", ask(picture(photo(t, 1500, 1000, 9))), mostPicture},
		{"of no kind that is known", ask(picture("BM" + strings.Repeat("\x00", 999))), mostPicture},
		{"half a head", ask(picture(small[:20])), mostPicture},
		{"nothing", ask(picture("")), mostPicture},
		{"no base64", ask(block("image", `{"type":"base64","media_type":"image/png","data":"????"}`)), mostPicture},
		{"with its fields the other way round", ask(`{"source":{"data":"` + b64([]byte(small)) + `","media_type":"image/png","type":"base64"},"type":"image"}`), 100},
		{"with strokes escaped", ask(strings.ReplaceAll(picture(small), "/", `\/`)), 100},
		{"two", ask(picture(small) + "," + picture(encoded(t, "png", 30, 25))), 101},
		{"in a tool's result", ask(`{"type":"tool_result","content":[` + picture(small) + `]}`), 100},
		{"in a document", ask(block("document", `{"type":"content","content":[`+picture(small)+`]}`)), 100},
		{"somewhere else", ask(block("image", `{"type":"url","url":"https://example.com/a.png"}`)), mostPicture},
		{"a file of the service", ask(block("image", `{"type":"file","file_id":"file_1"}`)), mostPicture},
		{"a PDF", ask(block("document", source("application/pdf", pdf(7)))), 7 * pageTokens},
		{"a long PDF", ask(block("document", source("application/pdf", pdf(700)))), mostPages * pageTokens},
		{"a PDF with its pages packed", ask(block("document", source("application/pdf", "%PDF-1.7\n"+strings.Repeat("z", 29000)))), 3 * pageTokens},
		{"a document somewhere else", ask(block("document", `{"type":"url","url":"https://example.com/a.pdf"}`)), pagesUnknown * pageTokens},
		{"a document that is text", ask(block("document", `{"type":"text","media_type":"text/plain","data":"`+long+`"}`)), -1},
		{"a text", ask(`{"type":"text","text":"` + long + `"}`), -1},
		{"a text that is no picture", ask(block("text", source("image/png", small+long))), -1},
		{"what a tool is called with", ask(`{"type":"tool_use","input":{"content":[` + picture(small+long) + `]}}`), -1},
		{"a tool", `{"messages":[],"tools":[{"input_schema":{"content":[` + picture(small+long) + `]}}]}`, -1},
		{"a field that none reads", ask(`{"type":"text","text":"","extra":` + picture(small+long) + `}`), -1},
		{"a source of no block", `{"messages":[{"role":"user","source":` + source("image/png", small+long) + `}]}`, -1},
		{"a list that is none", "[" + ask(picture(small+long)) + "]", -1},
		{"deeper than there is any", `{"messages":` + strings.Repeat(`[`, 20) + picture(small+long) + strings.Repeat("]", 20) + "}", -1},
	} {
		// What stands between the quotes of base64 is no text; of all else a token has four bytes.
		text := len(c.body)
		if c.tokens >= 0 {
			for rest := c.body; ; {
				_, after, ok := strings.Cut(rest, `"data":"`)
				if !ok {
					break
				}
				data, end, _ := strings.Cut(after, `"`)
				text, rest = text-len(strings.ReplaceAll(data, `\/`, "/")), end
			}
		}
		want := min(int64(text/4)+max(c.tokens, 0), MostRead)
		for _, size := range []int{1, 7, 4096, len(c.body) + 1} {
			if size < 7 && len(c.body) > 1<<20 {
				continue
			}
			var a Asked
			for rest := c.body; rest != ""; {
				n := min(size, len(rest))
				a.Write([]byte(rest[:n])) //nolint:errcheck // it never fails
				rest = rest[n:]
			}
			if got := a.Input(); got != want {
				t.Errorf("%s, %d bytes at a time: %d tokens, want %d", c.name, size, got, want)
			}
		}
	}
}

// TestAtMost holds what a request is taken to use at most, and when its question is whole.
func TestAtMost(t *testing.T) {
	const q = `{"model":"m","max_tokens":7,"system":"a \"}\" b"}`
	for _, c := range []struct {
		name, body string
		end        int
		want       Usage
	}{
		{"nothing", "", 0, Usage{"", MostRead, MostWritten, 0, 0, true}},
		{"half", q[:len(q)-1], 0, Usage{"", MostRead, MostWritten, 0, 0, true}},
		{"whole", q, len(q), Usage{"m", int64(len(q) / 4), 7, 0, 0, true}},
		{"with a tail", q + " \n ", len(q), Usage{"m", int64(len(q) / 4), 7, 0, 0, true}},
		{"with another behind it", q + `{"model":"x","max_tokens":9}`, len(q), Usage{"m", int64(len(q) / 4), 7, 0, 0, true}},
		{"without a bound", ` {"model":"m"}`, 14, Usage{"m", 3, MostWritten, 0, 0, true}},
		{"too much", `{"system":"` + strings.Repeat("a", 5<<20) + `"}`, 5<<20 + 13, Usage{"", MostRead, MostWritten, 0, 0, true}},
	} {
		var a Asked
		a.Write([]byte(c.body)) //nolint:errcheck // it never fails
		if got := a.AtMost(); got != c.want || a.End != int64(c.end) {
			t.Errorf("%s: %+v up to %d", c.name, got, a.End)
		}
	}
}
