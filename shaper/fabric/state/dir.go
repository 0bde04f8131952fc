// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Suffix ends the name of a fabric's file.
const Suffix = ".fabric"

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// DefaultDir is the folder of the fabrics of the user uid, unless DDLEMU_DIR names another one.
func DefaultDir(uid int) string { return fmt.Sprintf("/dev/shm/ddlemu-%d", uid) }

// CheckName returns an error if a fabric cannot have this name.
func CheckName(name string) error {
	if !validName.MatchString(name) || strings.HasSuffix(name, Suffix) {
		return fmt.Errorf(
			"fabric name %q: want 1 to 40 letters, digits, '.', '_' or '-', starting with a letter or digit", name)
	}
	return nil
}

// Dir is an open, checked folder of fabrics.
type Dir struct {
	Path  string // absolute
	fd    int
	uid   uint32
	named bool // files have a name from the start, as some file systems need; set by tests
}

// OpenDir opens the folder of fabrics of user uid, and makes it if create is true. It must be a folder and not a link,
// be owned by uid, and be closed to everybody else. The error wraps fs.ErrNotExist if there is none.
func OpenDir(path string, uid int, create bool) (*Dir, error) {
	// The path is made absolute for other processes that get it. That also removes a slash at
	// its end, with which O_NOFOLLOW would follow a link.
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open the folder of fabrics: %w", err)
	}
	if !create {
		d, _, err := openDir(path, uid, false)
		return d, err
	}
	for attempt := 1; ; attempt++ {
		err := os.Mkdir(path, 0o700)
		made := err == nil
		if !made && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make the folder of fabrics: %w", err)
		}
		d, changing, err := openDir(path, uid, made)
		if err == nil {
			return d, nil
		}
		if made {
			os.Remove(path)
		}
		if !changing || attempt == 20 {
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
}

// openDir opens the folder. A folder that this process has just made is given to its user first, by its descriptor and
// not by its name. changing is true if the error may come from another process that is making or removing the folder.
func openDir(path string, uid int, made bool) (d *Dir, changing bool, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		hint := ""
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			hint = "it must be a folder itself and not a link (remove it or set DDLEMU_DIR to another): "
		}
		return nil, errors.Is(err, unix.ENOENT), fmt.Errorf("open the folder of fabrics: %s%w", hint,
			&os.PathError{Op: "open", Path: path, Err: err})
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	me := os.Getuid()
	if made && me != uid {
		if err := unix.Fchown(fd, uid, -1); err != nil {
			return nil, false, fmt.Errorf("give folder %s to user %d: %w", path, uid, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, false, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Uid != uint32(uid) || st.Mode&0o077 != 0 {
		return nil, st.Uid == uint32(me) && me != uid,
			fmt.Errorf(
				"folder %s belongs to user %d with mode %04o, want user %d and mode 0700: set DDLEMU_DIR to a folder "+
					"of yours with mode 0700, or to one that does not exist yet", path, st.Uid, st.Mode&0o7777, uid)
	}
	return &Dir{Path: path, fd: fd, uid: uint32(uid)}, false, nil
}

// UID is the user who owns the fabrics.
func (d *Dir) UID() int { return int(d.uid) }

// Close closes the folder.
func (d *Dir) Close() error { return unix.Close(d.fd) }

// Names lists the fabrics in the folder, sorted, also fabrics that cannot be used.
func (d *Dir) Names() ([]string, error) {
	files, err := d.files()
	if err != nil {
		return nil, fmt.Errorf("list fabrics: %w", err)
	}
	var names []string
	for _, name := range files {
		if n, ok := strings.CutSuffix(name, Suffix); ok && CheckName(n) == nil {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names, nil
}

// files lists the files in the folder, by its descriptor: the path may name another folder by now.
func (d *Dir) files() ([]string, error) {
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: d.Path, Err: err}
	}
	f := os.NewFile(uintptr(fd), d.Path)
	defer f.Close()
	return f.Readdirnames(-1)
}

// SocketName is the name, in the folder, of the socket on which the participant in slot of a
// fabric listens for connections.
func SocketName(fabric string, slot int) string { return fmt.Sprintf("%s.%d.sock", fabric, slot) }

// InDir calls do with a short path to the folder of fabrics of user uid, through /proc/self/fd, because DDLEMU_DIR may
// be longer than a socket's address, 107 bytes. The folder may have been replaced since a fabric in it was opened, so
// InDir checks it as OpenDir does.
func InDir(path string, uid int, do func(dir string) error) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if int(st.Uid) != uid || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s belongs to user %d with mode %04o, want user %d and mode 0700", path, st.Uid,
			st.Mode&0o7777, uid)
	}
	return do(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// HostsPath is the file that the nodes of a fabric have as /etc/hosts, on the kernel datapath.
func (d *Dir) HostsPath(name string) string { return filepath.Join(d.Path, name+hostsSuffix) }

// DaemonPath is the socket of a fabric's daemon, on the kernel datapath.
func (d *Dir) DaemonPath(name string) string { return filepath.Join(d.Path, DaemonSocket(name)) }

// DaemonSocket is DaemonPath without the folder.
func DaemonSocket(name string) string { return name + daemonSuffix }

// WriteHosts makes the file HostsPath, readable by all. It removes any file of that name
// first: the folder's user may have put a link there.
func (d *Dir) WriteHosts(name, text string) error {
	file := name + hostsSuffix
	if err := unix.Unlinkat(d.fd, file, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("write the nodes' /etc/hosts: %w", err)
	}
	fd, err := unix.Openat(d.fd, file, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return fmt.Errorf("write the nodes' /etc/hosts: %w", err)
	}
	f := os.NewFile(uintptr(fd), file)
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the nodes' /etc/hosts: %w", err)
	}
	return nil
}

const (
	hostsSuffix  = ".hosts"
	daemonSuffix = ".daemon.sock"
)

// Remove deletes the fabric's file and the files that its participants put beside it.
// Processes that have it mapped keep their mapping.
func (d *Dir) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	files, err := d.files()
	if err != nil {
		return fmt.Errorf("remove fabric %s: %w", name, err)
	}
	// The fabric's file is the last one, so that Remove can be called again after an error.
	for _, file := range append(slices.DeleteFunc(files, func(f string) bool { return !isBeside(f, name) }),
		name+Suffix) {
		if err := unix.Unlinkat(d.fd, file, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove fabric %s: %w", name,
				&os.PathError{Op: "remove", Path: filepath.Join(d.Path, file), Err: err})
		}
	}
	if d.Path == DefaultDir(int(d.uid)) {
		// ddlemu made this folder, so it is removed with its last fabric. A process that is
		// about to make a fabric in it makes the folder again, see Create.
		_ = unix.Rmdir(d.Path)
	}
	return nil
}

// reopen makes the folder again after another process has removed it.
func (d *Dir) reopen() error {
	n, err := OpenDir(d.Path, int(d.uid), true)
	if err != nil {
		return err
	}
	unix.Close(d.fd)
	d.fd = n.fd
	return nil
}

// isBeside reports whether file is one of a fabric's files besides the mapped one.
func isBeside(file, name string) bool {
	return isSocketOf(file, name) || file == name+hostsSuffix || file == name+daemonSuffix || isFlowsOf(file, name)
}

// isSocketOf reports whether file is a socket of the fabric, see SocketName. A socket of
// fabric lab.2 is not one of fabric lab.
func isSocketOf(file, name string) bool {
	slot, ok := strings.CutPrefix(file, name+".")
	if ok {
		slot, ok = strings.CutSuffix(slot, ".sock")
	}
	n, err := strconv.Atoi(slot)
	return ok && err == nil && n >= 0 && slot == strconv.Itoa(n)
}

// Prefixes of the names of fabrics that were not brought up by a user.
const (
	AdHocPrefix = "adhoc-" // made by the ranks of a job, because no fabric was up
	JobPrefix   = "job-"   // made by a command for one job
)

// IsPrivate says whether a fabric of this name belongs to the command or the job that made it, and to nobody else.
func IsPrivate(name string) bool {
	return strings.HasPrefix(name, AdHocPrefix) || strings.HasPrefix(name, JobPrefix)
}

// Shared returns the name of the only fabric that a user brought up, "" if there is none.
// If there are several, the error lists them.
func (d *Dir) Shared() (string, error) {
	return d.only(func(name string) bool { return !IsPrivate(name) })
}

// OnlyToRead is Shared but, if there is no such fabric, returns the only fabric that a command
// made for a job. It is for callers that change nothing.
func (d *Dir) OnlyToRead() (string, error) {
	if name, err := d.Shared(); name != "" || err != nil {
		return name, err
	}
	return d.only(func(name string) bool { return !strings.HasPrefix(name, AdHocPrefix) })
}

// only is the name of the only fabric that counts.
func (d *Dir) only(counts func(name string) bool) (string, error) {
	names, err := d.Names()
	if err != nil {
		return "", err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !counts(n) })
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("several fabrics are up (%s): name one in DDLEMU_FABRIC", strings.Join(names, ", "))
}

const flowsSuffix = ".flows"

// isFlowsOf reports whether file is the file of flows of a fabric called name.
func isFlowsOf(file, name string) bool {
	id, ok := strings.CutPrefix(file, name+".")
	if ok {
		id, ok = strings.CutSuffix(id, flowsSuffix)
	}
	_, err := strconv.ParseUint(id, 16, 64)
	return ok && len(id) == 16 && err == nil
}
