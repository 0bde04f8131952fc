// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// CheckDescriptors refuses to start ranks if this process, or they, may have too few open files. own is how many this
// process needs for them.
//
// Go raises the soft limit to the hard one when this process starts, and in each rank when the plugin is loaded, so the
// hard limit counts.
func CheckDescriptors(own int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if err := nccl.CheckDescriptors(l.Cur); err != nil {
		return configs.Errorf("", "%w", err)
	}
	if l.Cur < uint64(own) {
		return configs.Errorf("", "a process may have %d open files, and this command needs %d: raise the limit "+
			"(ulimit -n %[2]d)", l.Cur, own)
	}
	return nil
}
