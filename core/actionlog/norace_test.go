//go:build !race

package actionlog

const racing = false
