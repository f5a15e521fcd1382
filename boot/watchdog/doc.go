// Package watchdog feeds the machine's hardware watchdog for as long as the box is as it should be: when init hangs, or boxd no longer answers, the
// hardware starts the box anew. Without one, nothing is fed and nothing fails.
package watchdog
