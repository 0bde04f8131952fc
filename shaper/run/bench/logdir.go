// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"

	"github.com/ddlemu/ddlemu/shaper/fabric/temporary"
)

const logPrefix = "ddlemu-bench-"

// makeLogDir makes a folder for NCCL's logs. It is in use, for [LeftLogs], until the returned file is closed.
func makeLogDir() (string, *os.File, error) {
	dir, lock, err := temporary.Make(logPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for NCCL's logs: %w", err)
	}
	return dir, lock, nil
}

// LeftLogs returns the log folders of this user's runs that were killed.
func LeftLogs() ([]string, error) { return temporary.Left(logPrefix, temporary.IsFile("rank*.*")) }

// passLog gives a command that is started elsewhere the log at path as an open file, because it may not see the path.
func (c *Command) passLog(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("make the log of rank %d: %w", c.Rank, err)
	}
	c.Log = f
	c.Env = append(c.Env, fmt.Sprintf("NCCL_DEBUG_FILE=/proc/self/fd/%d", LogDescriptor))
	return nil
}
