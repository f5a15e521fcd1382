// Package reach holds that what the owner lets an app and its agents reach changes at once, over connections that are open: a real box, real apps and tasks,
// and an internet of its own.
package reach
