// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"os"

	"github.com/ddlemu/ddlemu/shaper/fabric/temporary"
)

const folderPrefix = "ddlemu-record-"

// MakeFolder makes a folder for the ledgers of a job. It is in use, for [LeftFolders], until the returned file is
// closed.
func MakeFolder() (string, *os.File, error) {
	dir, lock, err := temporary.Make(folderPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for the ledgers: %w", err)
	}
	return dir, lock, nil
}

// LeftFolders returns the folders of this user's recordings that were killed.
func LeftFolders() ([]string, error) {
	return temporary.Left(folderPrefix, temporary.IsFile("rank*.*", "fabric.yaml", ".fabric-*", "outcome.json"))
}
