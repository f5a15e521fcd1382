// Package window owns the tokens of apps' pages: which app's page each stands for, who
// opened it and how long it lasts. It decides nothing about what a token may reach;
// core/api does, with the opener's right as the most there can be.
//
// A window lasts 12 hours by a clock that nobody can set, and ends with the device that
// opened it. Windows are kept in memory alone, and of their tokens only the SHA-256: a
// box that starts anew has none, and its pages are opened again.
package window
