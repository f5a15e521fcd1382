//go:build !race

package broker_test

const racing = false
