// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Env is the variable that names the folder for the ledgers of a job's processes.
const Env = "DDLEMU_TRACE"

const suffix = ".ledger"

// Path is where a process writes its ledger.
func Path(dir string, rank, pid int) string {
	return filepath.Join(dir, fmt.Sprintf("rank%d.%d%s", rank, pid, suffix))
}

// Files are the ledgers in a folder.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for ledgers: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == suffix {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// MakeFolder makes the folder for the ledgers of a job, or takes one that is empty, and returns its
// absolute path.
func MakeFolder(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("make the folder for ledgers: %w", err)
	}
	err = os.Mkdir(path, 0o700)
	if !errors.Is(err, os.ErrExist) {
		return path, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", fmt.Errorf("look into the folder for ledgers: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s has files: name a folder that does not exist or is empty", dir)
	}
	return path, nil
}

// Clear removes the ledgers in a folder, and what WriteMeasured noted.
func Clear(dir string) error {
	paths, err := Files(dir)
	if rm := os.Remove(filepath.Join(dir, measuredName)); !errors.Is(rm, os.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	for _, p := range paths {
		err = errors.Join(err, os.Remove(p))
	}
	return err
}
