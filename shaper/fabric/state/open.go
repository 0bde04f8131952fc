// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Open maps the fabric called name. The error wraps fs.ErrNotExist if there is none and
// ErrNotUsable if it cannot be used.
func (d *Dir) Open(name string) (*File, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(d.fd, name+Suffix, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
		err = fmt.Errorf("%w: not a regular file", ErrNotUsable)
	case errors.Is(err, unix.EISDIR):
		return nil, fmt.Errorf("open fabric %s: %w: not a file but a folder (remove %s)", name, ErrNotUsable,
			filepath.Join(d.Path, name+Suffix))
	case err != nil:
		return nil, fmt.Errorf("open fabric %s: %w", name, err)
	default:
		var f *File
		if f, err = openFD(fd, d.uid); err != nil {
			unix.Close(fd)
			break
		}
		if f.Name() == name {
			f.dir = d.Path
			return f, nil
		}
		err = fmt.Errorf("%w: it is fabric %q under another name", ErrNotUsable, f.Name())
		f.Close()
	}
	if errors.Is(err, ErrNotUsable) {
		return nil, fmt.Errorf("open fabric %s: %w (remove it with `ddlemu down %s`)", name, err, name)
	}
	return nil, fmt.Errorf("open fabric %s: %w", name, err)
}

// openFD maps the file fd. The File closes fd; after an error the caller does.
func openFD(fd int, uid uint32) (*File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at it: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%w: not a regular file", ErrNotUsable)
	case st.Uid != uid || st.Mode&0o077 != 0:
		return nil, fmt.Errorf("%w: owned by user %d with mode %04o, want user %d and mode 0600", ErrNotUsable, st.Uid,
			st.Mode&0o7777, uid)
	case st.Size < page:
		return nil, fmt.Errorf("%w: truncated: %d bytes", ErrNotUsable, st.Size)
	}
	// If the file has holes, for example because it is a copy, access to one is a SIGBUS when
	// the file system is full. So reserve the memory now.
	if st.Blocks*512 < st.Size {
		if err := unix.Fallocate(fd, 0, 0, st.Size); err != nil {
			return nil, fmt.Errorf("%w: reserve its %d KiB: %w", ErrNotUsable, st.Size>>10, err)
		}
	}
	boot, ns, err := bootAndTime()
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	f := &File{fd: fd, mem: mem}
	if err = f.head().check(uint64(st.Size), uid, boot, ns); err == nil {
		err = f.checkContent()
	}
	if err != nil {
		unix.Munmap(mem)
		return nil, err
	}
	return f, nil
}

// Close unmaps the file. Nothing obtained from it may be used afterwards. Participants of
// this process in the fabric are dead then.
func (f *File) Close() error {
	if f.mem == nil {
		return fmt.Errorf("close fabric: %w", os.ErrClosed)
	}
	// Closing the file releases this process's locks on it, also those that another
	// goroutine acquired through another File.
	for i := range inProcess {
		inProcess[i].Lock()
		defer inProcess[i].Unlock()
	}
	f.forgetSlots()
	err := unix.Munmap(f.mem)
	f.mem = nil
	if err := errors.Join(err, unix.Close(f.fd)); err != nil {
		return fmt.Errorf("close fabric: %w", err)
	}
	return nil
}
