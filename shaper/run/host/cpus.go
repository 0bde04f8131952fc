// SPDX-License-Identifier: Apache-2.0

package host

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Cores are the processors that this process may use.
type Cores struct {
	Online   int     // of the machine
	Affinity int     // on which this process may run
	Quota    float64 // cores that its control groups grant, 0 = no limit
	Usable   float64 // the smallest of them
}

// CPUs reads how many processors this process may use.
func CPUs() Cores {
	c := Cores{Online: runtime.NumCPU()}
	if b, err := os.ReadFile("/sys/devices/system/cpu/online"); err == nil {
		if n := listLength(string(b)); n > 0 {
			c.Online = n
		}
	}
	c.Affinity = c.Online
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err == nil && set.Count() > 0 {
		c.Affinity = set.Count()
	}
	membership, _ := os.ReadFile("/proc/self/cgroup")
	c.Quota = quota(os.DirFS("/sys/fs/cgroup"), string(membership))
	c.Usable = float64(c.Affinity)
	if c.Quota > 0 {
		c.Usable = math.Min(c.Usable, c.Quota)
	}
	return c
}

// listLength is the number of members of a kernel's list such as 0-3,8; 0 if it is malformed.
func listLength(s string) int {
	n := 0
	for _, part := range strings.Split(strings.TrimSpace(s), ",") {
		from, to, ok := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			return 0
		}
		b := a
		if ok {
			if b, err = strconv.Atoi(to); err != nil || b < a {
				return 0
			}
		}
		n += b - a + 1
	}
	return n
}

// parents returns path and the folders above it, down to ".".
func parents(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return []string{"."}
	}
	var all []string
	for ; path != "."; path = filepath.Dir(path) {
		all = append(all, path)
	}
	return append(all, ".")
}
