// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Trim gives back the disk space that the ledgers in a folder have reserved and not used. Their content and length
// stay. A ledger whose process lives is left alone: the process must find its space when it writes. So is one in a file
// system that cannot give back a part of a file, and one that cannot be read, which Read reports.
func Trim(dir string) error {
	paths, err := Files(dir)
	for _, path := range paths {
		err = errors.Join(err, trim(path))
	}
	return err
}

func trim(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("trim a ledger: %w", err)
	}
	defer f.Close()
	h, err := headerOf(f)
	if err != nil || h.Magic != magic || h.Version != version || lives(h.PID) {
		return nil //nolint:nilerr // see above
	}
	const connection = uint64(unsafe.Sizeof(Connection{}))
	for _, unused := range [][2]uint64{
		{connectionsAt + min(h.Connections, maxConnections)*connection, namesAt},
		{namesAt + min(h.Names, namesSize), recordsAt},
		{recordsAt + min(h.Next, h.Capacity)*recordSize, recordsAt + h.Capacity*recordSize},
	} {
		from, to := int64(unused[0]), int64(unused[1])
		if from >= to {
			continue
		}
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
		switch {
		case errors.Is(err, unix.EOPNOTSUPP):
			return nil
		case err != nil:
			return fmt.Errorf("trim the ledger %s: %w", path, err)
		}
	}
	return nil
}

func lives(pid uint32) bool { return !errors.Is(unix.Kill(int(pid), 0), unix.ESRCH) }
