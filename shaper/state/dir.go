// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Suffix ends the name of a fabric's file.
const Suffix = ".fabric"

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// DefaultDir is where the fabrics of the user uid are unless DDLEMU_DIR names
// another folder.
func DefaultDir(uid int) string { return fmt.Sprintf("/dev/shm/ddlemu-%d", uid) }

// CheckName says whether name can name a fabric.
func CheckName(name string) error {
	if !validName.MatchString(name) || strings.HasSuffix(name, Suffix) {
		return fmt.Errorf("fabric name %q: want 1 to 40 letters, digits, '.', '_' or '-', not starting with a mark", name)
	}
	return nil
}

// Dir is an open, checked folder of fabrics.
type Dir struct {
	Path string
	fd   int
	uid  uint32
}

// OpenDir opens the folder of fabrics of user uid, making it when create is set.
// It must be a real folder, owned by uid and closed to everybody else. The error
// wraps fs.ErrNotExist when there is none.
func OpenDir(path string, uid int, create bool) (*Dir, error) {
	if create {
		if err := os.Mkdir(path, 0o700); err == nil {
			if os.Getuid() != uid {
				if err := os.Chown(path, uid, -1); err != nil {
					return nil, fmt.Errorf("give folder to user %d: %w", uid, err)
				}
			}
		} else if !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make the folder of fabrics: %w", err)
		}
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the folder of fabrics: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Uid != uint32(uid) || st.Mode&0o077 != 0 {
		unix.Close(fd)
		return nil, fmt.Errorf("folder %s belongs to user %d with mode %04o, want user %d and mode 0700: remove it or set DDLEMU_DIR to another", path, st.Uid, st.Mode&0o7777, uid)
	}
	return &Dir{Path: path, fd: fd, uid: uint32(uid)}, nil
}

// Close releases the folder.
func (d *Dir) Close() error { return unix.Close(d.fd) }

// Names lists the fabrics in the folder, sorted, whatever their state.
func (d *Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil, fmt.Errorf("list fabrics: %w", err)
	}
	var names []string
	for _, e := range entries {
		if n, ok := strings.CutSuffix(e.Name(), Suffix); ok && CheckName(n) == nil {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	return names, nil
}

// SocketPath is where participant slot of a fabric listens for connections.
func (d *Dir) SocketPath(name string, slot int) string {
	return filepath.Join(d.Path, fmt.Sprintf("%s.%d.sock", name, slot))
}

// Remove deletes the fabric's file and what its participants left beside it.
// Processes that have it mapped keep their mapping.
func (d *Dir) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	socks, _ := filepath.Glob(filepath.Join(d.Path, name+".*.sock"))
	for _, s := range socks {
		os.Remove(s)
	}
	if err := unix.Unlinkat(d.fd, name+Suffix, 0); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove fabric %s: %w", name, err)
	}
	return nil
}

// AdHocPrefix begins the names of fabrics that a job made for itself, because
// none was up.
const AdHocPrefix = "adhoc-"

// Only returns the name of the only fabric that somebody brought up, "" if there
// is none. With several it is an error that lists them.
func (d *Dir) Only() (string, error) {
	names, err := d.Names()
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, AdHocPrefix) })
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("several fabrics are up (%s): name one in DDLEMU_FABRIC", strings.Join(names, ", "))
}
