// Package programs lets tasks of a real boxd run the programs that agents use: version control, package managers, compilers, databases, a browser.
// They see the tasks file system with more programs (mkbox build --tests), which no image holds. What they fetch comes from an internet that the
// test makes, in network namespaces of its own: registries of packages that are made at test time, a git server, and a place where tasks wait
// for each other. Nothing leaves the machine.
package programs
