// Package declare owns what an app may declare and what its folder may hold: it reads
// both and says what is wrong, in sentences that name the app, the field and the rule.
// It runs no app and needs no box: core/app holds the apps of a box against it, and
// `box app check` those that are still being written.
package declare
