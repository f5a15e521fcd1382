// Package leak finds secret values in text however they are spelled: plain, with
// URL or JSON escapes (any character of it escaped or not, backslashes doubled
// by JSON inside JSON), in base64 of either alphabet at each of the three
// offsets, and in hex. It never learns where a text is going and keeps none.
package leak
