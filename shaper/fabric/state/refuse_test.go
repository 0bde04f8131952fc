// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// checkError checks that err is one line, matches pattern as a whole and is kind.
func checkError(t *testing.T, err error, kind error, pattern string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if text := err.Error(); strings.ContainsAny(text, "\n\r") ||
		!regexp.MustCompile("^"+pattern+"$").MatchString(text) {
		t.Errorf("error %q, want one line that matches %q", text, pattern)
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("error %v is not %v", err, kind)
	}
}

// content is a fabric's file as bytes, with methods for its tables.
type content []byte

func (c content) head() *header { return (*header)(unsafe.Pointer(&c[0])) }
func (c content) hop(i int) *link.Hop {
	return (*link.Hop)(unsafe.Pointer(&c[c.head().HopsOff+uint64(i)*uint64(unsafe.Sizeof(link.Hop{}))]))
}
func (c content) block(i int) *link.Block {
	return (*link.Block)(unsafe.Pointer(&c[c.head().BlocksOff+uint64(i)*uint64(unsafe.Sizeof(link.Block{}))]))
}
func (c content) path(i int) *pathEntry {
	return (*pathEntry)(unsafe.Pointer(&c[c.head().PathsOff+uint64(i)*uint64(unsafe.Sizeof(pathEntry{}))]))
}

// valid is the content of a good file called t in d.
func valid(t testing.TB, d *Dir) content {
	t.Helper()
	f := create(t, d, twoNodes("t"))
	b := append(content{}, f.mem...)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOpenRefusesContent(t *testing.T) {
	const hint = " \\(remove it with `ddlemu down t`\\)"
	for name, tc := range map[string]struct {
		change func(content) content
		want   string
	}{
		"empty":           {func(c content) content { return nil }, "truncated: 0 bytes"},
		"one byte":        {func(c content) content { return c[:1] }, "truncated: 1 bytes"},
		"less than page":  {func(c content) content { return c[:page-1] }, "truncated: 4095 bytes"},
		"only the header": {func(c content) content { return c[:page] }, "truncated: 4096 bytes of [0-9]+"},
		"a byte short":    {func(c content) content { return c[:len(c)-1] }, "truncated: [0-9]+ bytes of [0-9]+"},
		"a page too long": {func(c content) content { return append(c, make([]byte, page)...) },
			"truncated: [0-9]+ bytes of [0-9]+"},
		"zeros": {func(c content) content { return make(content, len(c)) }, "not a ddlemu fabric"},
		"text": {func(c content) content { return content(strings.Repeat("name: lossy\n", 1000)) },
			"not a ddlemu fabric"},
		"older version": {func(c content) content { c.head().Version = Version - 1; return c },
			fmt.Sprintf("made by another version of ddlemu \\(format %d, this one has %d\\)", Version-1, Version)},
		"newer version": {func(c content) content { c.head().Version = Version + 1; return c },
			fmt.Sprintf("made by another version of ddlemu \\(format %d, this one has %d\\)", Version+1, Version)},
		"another layout": {func(c content) content { c.head().Layout++; return c },
			"made by another build of ddlemu, whose layout differs"},
		"another user": {func(c content) content { c.head().UID++; return c },
			"made for user [0-9]+, not [0-9]+"},
		"another boot": {func(c content) content { c.head().BootID[15] ^= 1; return c },
			"made before the last boot"},
		"another time namespace": {func(c content) content { c.head().TimeNamespace ^= 1; return c },
			"made in another time namespace, whose clock differs"},

		"no nodes":             {func(c content) content { c.head().Nodes = 0; return c }, "corrupt header"},
		"too many nodes":       {func(c content) content { c.head().Nodes = 1 << 31; return c }, "corrupt header"},
		"no NICs":              {func(c content) content { c.head().NICsPerNode = 0; return c }, "corrupt header"},
		"other paths":          {func(c content) content { c.head().Paths--; return c }, "corrupt header"},
		"fewer hops":           {func(c content) content { c.head().Hops--; return c }, "corrupt header"},
		"more hops":            {func(c content) content { c.head().Hops = 1 << 31; return c }, "corrupt header"},
		"more links than hops": {func(c content) content { c.head().Links = 7; return c }, "corrupt header"},
		"fewer blocks":         {func(c content) content { c.head().Blocks = 1; return c }, "corrupt header"},
		"no jobs":              {func(c content) content { c.head().Jobs = 0; return c }, "corrupt header"},
		"more jobs":            {func(c content) content { c.head().Jobs = 17; return c }, "corrupt header"},
		"more participants":    {func(c content) content { c.head().Participants *= 2; return c }, "corrupt header"},
		"more events":          {func(c content) content { c.head().Events *= 2; return c }, "corrupt header"},
		"more text": {func(c content) content { c.head().ConfigLen = 1<<20 + 1; return c },
			"corrupt header"},
		"a longer text":   {func(c content) content { c.head().ConfigLen += page; return c }, "corrupt header"},
		"time scale 0":    {func(c content) content { c.head().TimeScale = 0; return c }, "corrupt header"},
		"time scale 1025": {func(c content) content { c.head().TimeScale = 1025; return c }, "corrupt header"},
		"a transport":     {func(c content) content { c.head().Transport.Kind = 2; return c }, "corrupt header"},
		"a congestion control": {func(c content) content { c.head().Transport.Congestion = 3; return c },
			"corrupt header"},
		"a long second": {func(c content) content { c.head().Transport.Second = 1 << 41; return c },
			"corrupt header"},
		"a time before 0": {func(c content) content { c.head().Transport.RTO = -1; return c }, "corrupt header"},
		"a host before 0": {func(c content) content { c.head().Transport.Host.PerMessage = -1; return c },
			"corrupt header"},
		"a host without end": {func(c content) content { c.head().Transport.Host.NsNum = 1; return c },
			"corrupt header"},
		"a slow host": {func(c content) content {
			c.head().Transport.Host.NsNum, c.head().Transport.Host.NsDen = 1<<43, 1
			return c
		},
			"corrupt header"},
		"no name": {func(c content) content { c.head().Name = [nameSize]byte{}; return c },
			"corrupt header"},
		"a name without end": {func(c content) content { fill(c.head().Name[:], 'x'); return c },
			"corrupt header"},
		"a profile without end": {func(c content) content { fill(c.head().Profile[:], 'x'); return c },
			"corrupt header"},
		"hops in the header": {func(c content) content { c.head().HopsOff = 0; return c }, "corrupt header"},
		"hops between pages": {func(c content) content { c.head().HopsOff++; return c }, "corrupt header"},
		"paths on the hops": {func(c content) content { c.head().PathsOff = c.head().HopsOff; return c },
			"corrupt header"},
		"blocks behind the end": {func(c content) content { c.head().BlocksOff = uint64(len(c)); return c },
			"corrupt header"},
		"jobs over the end": {func(c content) content { c.head().JobsOff = uint64(len(c)) - page; return c },
			"corrupt header"},
		"link statistics far away": {func(c content) content { c.head().LinkStatsOff = 1 << 63; return c },
			"corrupt header"},
		"some snapshots": {func(c content) content { c.head().Snapshots = 1; return c }, "corrupt header"},
		"snapshots without a place": {
			func(c content) content { c.head().Snapshots = snapshotsFor(c.head().Jobs, c.head().Hops); return c },
			"corrupt header"},
		"snapshots far away": {func(c content) content { c.head().SnapshotsOff = 1 << 63; return c },
			"corrupt header"},
		"participants wrap": {
			func(c content) content { c.head().ParticipantsOff = ^uint64(page) + 1; return c }, "corrupt header"},
		"events at the end": {func(c content) content { c.head().EventsOff += page; return c },
			"corrupt header"},
		"tables before": {func(c content) content { c.head().TablesOff -= page; return c },
			"corrupt header"},
		"text behind the end": {func(c content) content { c.head().ConfigOff = uint64(len(c)); return c },
			"corrupt header"},

		"another hop's number": {func(c content) content { c.hop(3).ID = 4; return c }, "corrupt: hop 3"},
		"a hop of no kind":     {func(c content) content { c.hop(0).Kind = 11; return c }, "corrupt: hop 0"},
		"a hop from nowhere":   {func(c content) content { c.hop(5).Src = 2; return c }, "corrupt: hop 5"},
		"a hop to nowhere":     {func(c content) content { c.hop(5).Dst = 1 << 31; return c }, "corrupt: hop 5"},
		"parameters nowhere": {func(c content) content { c.hop(2).Block = c.head().Blocks; return c },
			"corrupt: parameters of hop 2"},
		"empty parameters": {func(c content) content { c.hop(2).Block = 50; return c },
			"corrupt: parameters of hop 2"},
		"no payload": {func(c content) content { c.block(1).Params.Payload = 0; return c },
			"corrupt: parameters of hop 1"},
		"no segment": {func(c content) content { c.block(4).Params.Segment = 0; return c },
			"corrupt: parameters of hop 4"},
		"a rate not stated": {func(c content) content { c.block(4).Params.NsNum++; return c },
			"corrupt: parameters of hop 4"},
		"no number as loss": {func(c content) content { c.block(4).Stated.Loss.P = nan(); return c },
			"corrupt: parameters of hop 4"},
		"jitter of no kind": {func(c content) content { c.block(4).Stated.Jitter.Kind = 9; return c },
			"corrupt: parameters of hop 4"},
		"a path over nothing": {func(c content) content { c.path(1).Hops[2] = 6; return c }, "corrupt: path 1"},
		"a path of many hops": {func(c content) content { c.path(2).N = 9; return c }, "corrupt: path 2"},
		"another fabric's file": {func(c content) content { copy(c.head().Name[:], "u"); return c },
			`it is fabric "u" under another name`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			c := tc.change(valid(t, d))
			if err := os.WriteFile(filepath.Join(d.Path, "t"+Suffix), c, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := d.Open("t")
			checkError(t, err, ErrNotUsable, "open fabric t: not usable: "+tc.want+hint)
			// The message tells the user to take it down, and that works.
			if err := d.Remove("t"); err != nil {
				t.Error(err)
			}
			create(t, d, twoNodes("t"))
		})
	}
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func nan() float64 { var zero float64; return zero / zero }

// Something with the name of a fabric that is not a regular file of its user is not opened.
func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(t *testing.T, d *Dir, path string)
		kind error
		want string
	}{
		"nothing": {func(t *testing.T, d *Dir, path string) {}, fs.ErrNotExist, "no such file or directory"},
		"link": {
			func(t *testing.T, d *Dir, path string) { create(t, d, twoNodes("u")); symlink(t, "u"+Suffix, path) },
			ErrNotUsable, "not usable: not a regular file \\(remove it with `ddlemu down t`\\)"},
		"loose link": {func(t *testing.T, d *Dir, path string) { symlink(t, "nowhere", path) }, ErrNotUsable,
			"not usable: not a regular file \\(remove it with `ddlemu down t`\\)"},
		"folder": {func(t *testing.T, d *Dir, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, ErrNotUsable, "not usable: not a file but a folder \\(remove .*/t.fabric\\)"},
		"pipe": {func(t *testing.T, d *Dir, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, ErrNotUsable, "not usable: not a regular file \\(remove it with `ddlemu down t`\\)"},
		"socket": {func(t *testing.T, d *Dir, path string) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
		}, ErrNotUsable, "not usable: not a regular file \\(remove it with `ddlemu down t`\\)"},
		"readable by others": {func(t *testing.T, d *Dir, path string) { valid(t, d); chmod(t, path, 0o640) },
			ErrNotUsable,
			"not usable: owned by user [0-9]+ with mode 0640, want user [0-9]+ and mode 0600 \\(remove it with `ddlemu down t`\\)"},
		"writable by others": {func(t *testing.T, d *Dir, path string) { valid(t, d); chmod(t, path, 0o602) },
			ErrNotUsable,
			"not usable: owned by user [0-9]+ with mode 0602, want user [0-9]+ and mode 0600 \\(remove it with `ddlemu down t`\\)"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			tc.make(t, d, filepath.Join(d.Path, "t"+Suffix))
			_, err := d.Open("t")
			checkError(t, err, tc.kind, "open fabric t: "+tc.want)
		})
	}
}

func symlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// A file of another user is refused, whatever it contains.
func TestOpenRefusesAnotherUsersFile(t *testing.T) {
	d := newDir(t)
	valid(t, d)
	fd, err := unix.Open(filepath.Join(d.Path, "t"+Suffix), unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	me := uint32(os.Getuid())
	_, err = openFD(fd, me+1)
	checkError(t, err, ErrNotUsable,
		fmt.Sprintf("not usable: owned by user %d with mode 0600, want user %d and mode 0600", me, me+1))
	if me != 0 {
		return // only root can go on
	}
	if err := unix.Fchown(fd, 4711, -1); err != nil {
		t.Fatal(err)
	}
	_, err = d.Open("t")
	checkError(t, err, ErrNotUsable,
		"open fabric t: not usable: owned by user 4711 with mode 0600, want user 0 and mode 0600 \\(remove it with `ddlemu down t`\\)")
}

// A process in another time namespace, whose clock differs, refuses the file.
func TestOpenRefusesAnotherClock(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a time namespace")
	}
	d := newDir(t)
	valid(t, d)
	p, err := launch("clock", &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: unix.CLONE_NEWTIME},
		d.Path, "t")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("no time namespace here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.t = t
	t.Cleanup(p.kill)
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/time", &st); err != nil {
		t.Fatal(err)
	}
	if ns := p.line(); ns == fmt.Sprint(st.Ino) {
		t.Skip("this kernel does not enter a time namespace on exec")
	}
	if got, want := p.line(),
		"open fabric t: not usable: made in another time namespace, whose clock differs (remove it with `ddlemu down t`)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// clockChild prints its time namespace, and what opening the fabric gives.
func clockChild(args []string) error {
	_, ns, err := bootAndTime()
	if err != nil {
		return err
	}
	fmt.Println(ns)
	_, err = openChild(args)
	fmt.Println(err)
	return nil
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "A9": true, "lossy.2": true, "my_fabric-1": true, "0": true, strings.Repeat("x", 40): true,
		"a.b.sock": true,
		"":         false, ".": false, "..": false, ".a": false, "-a": false, "_a": false, "a/b": false, "../a": false,
		"a b": false, "a\n": false,
		"a\x00": false, "ä": false, strings.Repeat("x", 41): false, "a*": false, "a.fabric": false,
	} {
		err := CheckName(name)
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		d := newDir(t)
		if ok {
			f := create(t, d, twoNodes(name))
			if f.Name() != name {
				t.Errorf("%q is called %q", name, f.Name())
			}
			continue
		}
		const want = "fabric name \".*\": want 1 to 40 letters, digits, '.', '_' or '-', starting with a letter or digit"
		for _, do := range []func() error{
			func() error { return err },
			func() error { _, err := d.Create(twoNodes(name)); return err },
			func() error { _, err := d.Open(name); return err },
			func() error { return d.Remove(name) },
		} {
			checkError(t, do(), nil, want)
		}
	}
}
