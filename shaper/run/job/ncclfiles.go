// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// NCCLFolder is where NCCL makes its files of shared memory. Their names begin with NCCLPrefix.
const (
	NCCLFolder = "/dev/shm"
	NCCLPrefix = "nccl-"
)

// NCCLFileAge is how old a file of NCCL is before it can be taken for an orphan: NCCL makes the file, and the other
// rank opens it some time later.
const NCCLFileAge = time.Minute

// NCCLFile is a file of NCCL's shared memory.
type NCCLFile struct {
	Path  string
	Bytes int64 // of memory
}

// OrphanedNCCLFiles returns the files in folder that NCCL made for the user, that have not been changed since before,
// and that no process maps or has open. A rank that is killed while it starts leaves such files.
func OrphanedNCCLFiles(folder string, uid uint32, before time.Time) ([]NCCLFile, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("find orphaned files of NCCL: %w", err)
	}
	var orphans []NCCLFile
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasPrefix(e.Name(), NCCLPrefix) || !info.Mode().IsRegular() ||
			info.ModTime().After(before) {
			continue // it is gone, or is none
		}
		path := filepath.Join(folder, e.Name())
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == uid && !isUsed(path) {
			orphans = append(orphans, NCCLFile{path, st.Blocks * 512})
		}
	}
	return orphans, nil
}

// isUsed says whether a process maps a file or has it open, or whether that cannot be told. The kernel gives a write
// lease only for a file that nobody else has open (fcntl(2)), and a mapping keeps the file open.
func isUsed(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return true
	}
	defer f.Close() // this gives the lease back
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	return err != nil
}
