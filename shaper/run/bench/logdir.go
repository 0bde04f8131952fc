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
