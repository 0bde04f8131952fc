// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// AvailableMemory is the memory in bytes that is available without swapping, to this process and what it starts; 0 if
// not known. A control group may leave less than the machine has.
func (m Machine) AvailableMemory() uint64 {
	m = m.complete()
	kib, _ := strconv.ParseUint(strings.TrimSuffix(fieldOf(m.read("/proc/meminfo"), "MemAvailable:"), " kB"), 10, 54)
	available := kib << 10
	cgroups, err := fs.Sub(m.Root, "sys/fs/cgroup")
	if err != nil {
		return available
	}
	if left, limited := groupMemory(cgroups, m.read("/proc/self/cgroup")); limited {
		available = min(available, left)
	}
	return available
}

// groupMemory is the least memory in bytes that a control group of a process leaves it; limited is false if there is no
// limit. root and membership are as for quota.
func groupMemory(root fs.FS, membership string) (left uint64, limited bool) {
	take := func(dir, limit, usage, inactive string) {
		if n, ok := groupLeft(root, dir, limit, usage, inactive); ok && (!limited || n < left) {
			left, limited = n, true
		}
	}
	visitGroups(membership, "memory", func(dir string, v2 bool) {
		if v2 {
			take(dir, "memory.max", "memory.current", "inactive_file")
			take(path.Join("unified", dir), "memory.max", "memory.current", "inactive_file")
			return
		}
		take(path.Join("memory", dir), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
	})
	return left, limited
}

// groupLeft is what the group in dir has left: its limit less its use, of which the kernel gives back unused file
// pages. ok is false if it has no limit.
func groupLeft(root fs.FS, dir, limitFile, usageFile, inactive string) (left uint64, ok bool) {
	limit, ok := number(root, path.Join(dir, limitFile))
	if !ok {
		return 0, false
	}
	usage, ok := number(root, path.Join(dir, usageFile))
	if !ok {
		return 0, false
	}
	stat, _ := fs.ReadFile(root, path.Join(dir, "memory.stat")) // without it, less counts as available
	pages, _ := strconv.ParseUint(fieldOf(string(stat), inactive), 10, 64)
	usage -= min(pages, usage)
	return limit - min(usage, limit), true
}

// number reads a file with one number; ok is false if it has none, as "max".
func number(root fs.FS, name string) (n uint64, ok bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// fieldOf is the rest of the line of text that begins with this word; empty if there is none.
func fieldOf(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// OOMKills is how often the kernel has killed a process for want of memory since the machine started, in any control
// group; 0 if not known (Linux before 4.13).
func (m Machine) OOMKills() uint64 {
	n, _ := strconv.ParseUint(fieldOf(m.complete().read("/proc/vmstat"), "oom_kill "), 10, 64)
	return n
}
