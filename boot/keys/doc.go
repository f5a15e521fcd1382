// Package keys hears the power button and the Enter key on whatever input devices the machine has, those plugged in later too.
package keys
