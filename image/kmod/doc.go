// Package kmod reads what kernel modules say of themselves (their .modinfo section), closes a choice of them over what they depend on, and
// writes the tables by which they are found: modules.dep, modules.alias and modules.softdep, in depmod's formats, without depmod. It loads none.
//
// A module's name is its file's without .ko, with every - as _.
package kmod
