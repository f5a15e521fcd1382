package budget

// each gives the counts of several Tokens to f, kind by kind.
func (n Tokens) each(o Tokens, f func(a, b int64) int64) Tokens {
	return Tokens{Input: f(n.Input, o.Input), Output: f(n.Output, o.Output), CacheWrite: f(n.CacheWrite, o.CacheWrite), CacheRead: f(n.CacheRead, o.CacheRead)}
}

// Add returns the sum of each kind.
func (n Tokens) Add(o Tokens) Tokens { return n.each(o, func(a, b int64) int64 { return a + b }) }

// Sub returns the difference of each kind.
func (n Tokens) Sub(o Tokens) Tokens { return n.each(o, func(a, b int64) int64 { return a - b }) }

// Least raises each kind to that of o.
func (n Tokens) Least(o Tokens) Tokens {
	return n.each(o, func(a, b int64) int64 { return max(a, b) })
}

// Most lowers each kind to most.
func (n Tokens) Most(most int64) Tokens {
	return n.each(Tokens{}, func(a, _ int64) int64 { return min(a, most) })
}
