// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MissingCapabilities returns the capabilities that a process lacks for the kernel datapath: to make namespaces, to
// shape, and to carry packets. status is the text of its /proc/PID/status.
func MissingCapabilities(status string) []string {
	effective := effectiveCapabilities(status)
	var missing []string
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_RAW, "CAP_NET_RAW"}} {
		if effective>>c.bit&1 == 0 {
			missing = append(missing, c.name)
		}
	}
	return missing
}

// effectiveCapabilities is the set on the line CapEff, empty if there is none.
func effectiveCapabilities(status string) uint64 {
	for _, line := range strings.Split(status, "\n") {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			if err != nil {
				return 0
			}
			return set
		}
	}
	return 0
}
