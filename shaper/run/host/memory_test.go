// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"testing/fstest"
)

func TestAvailableMemory(t *testing.T) {
	const info = "MemTotal:       25165824 kB\nMemAvailable:    8388608 kB\nSwapFree: 1 kB\n"
	for _, c := range []struct {
		name       string
		membership string
		files      fstest.MapFS // in /sys/fs/cgroup
		want       uint64
	}{
		{"no group", "", nil, 8 << 30},
		{"no limit", "0::/a\n", fstest.MapFS{"a/memory.max": file("max\n"), "a/memory.current": file("1\n")}, 8 << 30},
		{"version 2", "0::/a\n", fstest.MapFS{"a/memory.max": file("3000\n"), "a/memory.current": file("1000\n")},
			2000},
		{"file pages that are not in use", "0::/a\n", fstest.MapFS{
			"a/memory.max": file("3000\n"), "a/memory.current": file("1000\n"),
			"a/memory.stat": file("anon 300\ninactive_file 400\n"),
		}, 2400},
		{"the parent's is less", "0::/a/b\n", fstest.MapFS{
			"a/b/memory.max": file("3000\n"), "a/b/memory.current": file("1\n"), "a/memory.max": file("900\n"),
			"a/memory.current": file("800\n"),
		}, 100},
		{"nothing left", "0::/a\n", fstest.MapFS{"a/memory.max": file("3000\n"), "a/memory.current": file("3001\n")},
			0},
		{"version 1", "5:memory:/x\n1:cpu:/y\n", fstest.MapFS{
			"memory/x/memory.limit_in_bytes": file("5000\n"), "memory/x/memory.usage_in_bytes": file("1000\n"),
			"memory/x/memory.stat": file("inactive_file 1\ntotal_inactive_file 7\n"),
		}, 4007},
		{"version 1 without a limit", "5:memory:/\n", fstest.MapFS{
			"memory/memory.limit_in_bytes": file("9223372036854771712\n"),
			"memory/memory.usage_in_bytes": file("1000\n"),
		}, 8 << 30},
	} {
		files := fstest.MapFS{"proc/meminfo": file(info), "proc/self/cgroup": file(c.membership)}
		for name, f := range c.files {
			files["sys/fs/cgroup/"+name] = f
		}
		if got := machine(files).AvailableMemory(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
	if got := machine(fstest.MapFS{}).AvailableMemory(); got != 0 {
		t.Errorf("nothing is known: %d", got)
	}
}

func TestOOMKills(t *testing.T) {
	m := machine(fstest.MapFS{"proc/vmstat": file("oom_killer_off 9\noom_kill 12\nx 1\n")})
	if got := m.OOMKills(); got != 12 {
		t.Errorf("got %d, want 12", got)
	}
	if got := machine(fstest.MapFS{}).OOMKills(); got != 0 {
		t.Errorf("not known: %d", got)
	}
}
