// Package modules loads the kernel modules that this machine's devices ask for, and no others.
//
// A device says in its modalias what it is; modules.alias says which modules take such a device, modules.dep what these stand on,
// modules.softdep what is wanted before them. Modules are loaded side by side, each once: under emulation one after another cost seconds.
// Coldplug takes the devices that are there, Hear those that come later.
package modules
