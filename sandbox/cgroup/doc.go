// Package cgroup owns the numbers of a sandbox's control group: which limits
// are set, by opencontainers/cgroups on version 2 as on version 1 and hybrid
// hosts, what was hit and used, and the sweep of groups that a killed boxd left.
// It never starts a process or decides who gets which limit.
package cgroup
