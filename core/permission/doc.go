// Package permission owns what the owner lets each app do: which items are turned
// off, how much its tools may spend in a day and how much disk its tasks may take.
// It holds and words these values; what it forbids is refused where the act happens,
// and it never writes anything: the values are a fold of the action log.
package permission
