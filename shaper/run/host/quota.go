// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// quota is the smallest number of cores that a control group of a process allows, 0 for no limit. root is
// /sys/fs/cgroup, membership /proc/self/cgroup. In a container, the paths in membership may be paths of the host, whose
// folders do not exist there; then the root group is the group of the process.
func quota(root fs.FS, membership string) float64 {
	least := 0.0
	take := func(cores float64) {
		if cores > 0 && (least == 0 || cores < least) {
			least = cores
		}
	}
	visitGroups(membership, "cpu", func(dir string, v2 bool) {
		if v2 {
			take(quotaV2(root, dir))
			take(quotaV2(root, path.Join("unified", dir)))
			return
		}
		take(quotaV1(root, path.Join("cpu", dir)))
		take(quotaV1(root, path.Join("cpu,cpuacct", dir)))
	})
	return least
}

// visitGroups calls visit with the folder of each control group that a process is in and that may limit the resource
// of controller: groups of version 2, and groups of version 1 with this controller. The groups above each of them come
// too.
func visitGroups(membership, controller string, visit func(dir string, v2 bool)) {
	for _, line := range strings.Split(membership, "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		v2 := fields[1] == ""
		if !v2 && !slices.Contains(strings.Split(fields[1], ","), controller) {
			continue
		}
		for _, dir := range parents(fields[2]) {
			visit(dir, v2)
		}
	}
}

// quotaV2 reads cpu.max: quota or max, and period, in us.
func quotaV2(root fs.FS, dir string) float64 {
	text, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0
	}
	return ratio(fields[0], fields[1])
}

func quotaV1(root fs.FS, dir string) float64 {
	us, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0
	}
	period, err := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0
	}
	return ratio(strings.TrimSpace(string(us)), strings.TrimSpace(string(period)))
}

// ratio is a/b; 0 if one of them is not a number or means no limit (max, -1).
func ratio(a, b string) float64 {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err != nil || err2 != nil || x <= 0 || y <= 0 {
		return 0
	}
	return x / y
}
