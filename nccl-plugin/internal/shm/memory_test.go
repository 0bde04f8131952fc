// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// memory makes a memfd of size bytes with the given flags and seals.
func memory(t *testing.T, flags int, size int64, sealed int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealed); err != nil {
		t.Fatal(err)
	}
	return fd
}

// A peer's memory is refused, before it is accessed, if it could shrink or is not a connection's.
func TestPeersMemoryIsRefused(t *testing.T) {
	const size = int64(ringOffset) + minRing
	for name, tc := range map[string]struct {
		fd   func(t *testing.T) int
		want string
	}{
		"no seals": {func(t *testing.T) int { return memory(t, 0, size, 0) }, "it is not sealed"},
		"may shrink": {func(t *testing.T) int { return memory(t, 0, size, unix.F_SEAL_GROW|unix.F_SEAL_SEAL) },
			"it is not sealed"},
		"seals may come": {
			func(t *testing.T) int { return memory(t, 0, size, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW) },
			"it is not sealed"},
		"empty": {func(t *testing.T) int { return memory(t, 0, 0, seals) }, "0 bytes are not possible"},
		"no ring": {func(t *testing.T) int { return memory(t, 0, int64(ringOffset), seals) },
			"bytes are not possible"},
		"too large": {
			func(t *testing.T) int { return memory(t, 0, int64(ringOffset)+maxRing+pageSize, seals) },
			"bytes are not possible"},
		"half a page": {func(t *testing.T) int { return memory(t, 0, size+pageSize/2, seals) },
			"bytes are not possible"},
		"nothing in it": {func(t *testing.T) int { return memory(t, 0, size, seals) },
			"does not describe this connection"},
		"may not be written": {func(t *testing.T) int { return memory(t, 0, size, seals|unix.F_SEAL_WRITE) },
			"operation not permitted"},
		"a file": {func(t *testing.T) int {
			f, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			if err := f.Truncate(size); err != nil {
				t.Fatal(err)
			}
			return int(f.Fd())
		}, "it is not sealed"},
		"a pipe": {func(t *testing.T) int {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close(); w.Close() })
			return int(r.Fd())
		}, "it is not sealed"},
		"a folder": {func(t *testing.T) int {
			fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Close(fd) })
			return fd
		}, "it is not sealed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openRegion(tc.fd(t), flowAndRing, 7, stepsThere, stepsBack, 4)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// Huge pages are refused: there may be none when they are accessed.
func TestHugePagesAreRefused(t *testing.T) {
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_HUGETLB)
	if err != nil {
		t.Skipf("no huge pages here: %v", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 4<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		t.Skipf("huge pages cannot be sealed here: %v", err)
	}
	if _, err := openRegion(fd, flowAndRing, 7, stepsThere, stepsBack, 4); err == nil ||
		!strings.Contains(err.Error(), "not plain memory") {
		t.Errorf("%v, want a refusal", err)
	}
}

// Another user's memory is refused, even from the right socket.
func TestAnotherUsersMemoryIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make another user's memory")
	}
	r := freshRegion(t)
	defer r.close()
	if err := unix.Fchown(r.fd, 65534, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := openRegion(r.fd, flowAndRing, 7, stepsThere, stepsBack, 4); err == nil ||
		!strings.Contains(err.Error(), "belongs to user 65534, not 0") {
		t.Errorf("%v, want a refusal", err)
	}
}

// Pages that the peer has not reserved are reserved before they are used: otherwise an access could
// raise SIGBUS.
func TestPeersMemoryIsReserved(t *testing.T) {
	r := freshRegion(t)
	defer r.close()
	const hole = 64 << 10
	if err := unix.Fallocate(r.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(len(r.mem)-hole),
		hole); err != nil {
		t.Fatal(err)
	}
	blocks := func() int64 {
		var st unix.Stat_t
		if err := unix.Fstat(r.fd, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if blocks() >= int64(len(r.mem)) {
		t.Fatal("there is no hole to begin with")
	}
	if _, err := flowAndRing.checkMemory(r.fd); err != nil {
		t.Fatal(err)
	}
	if got := blocks(); got < int64(len(r.mem)) {
		t.Errorf("%d of %d bytes are reserved", got, len(r.mem))
	}
}

// The memory of a connection is reserved if the path takes time. Else it grows as it is used.
func TestMemoryOfUnshapedConnectionGrows(t *testing.T) {
	slow, far := unshaped, unshaped
	slow.Bandwidth, far.Latency = 1e9, 1000
	for name, tc := range map[string]struct {
		wire     link.Spec
		reserved bool
	}{"unshaped": {unshaped, false}, "slow": {slow, true}, "far": {far, true}} {
		t.Run(name, func(t *testing.T) {
			e := newPair(t, tc.wire, tcp, 64<<20).ends[0]
			steps, reverse, hop, err := e.route(0, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			r, err := newRegion(e.layout(steps), minRing, 7, 8, steps, reverse, hop)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			var st unix.Stat_t
			if err := unix.Fstat(r.fd, &st); err != nil {
				t.Fatal(err)
			}
			if got := st.Blocks*512 >= int64(len(r.mem)); got != tc.reserved {
				t.Errorf("%d of %d bytes have memory", st.Blocks*512, len(r.mem))
			}
		})
	}
}

// A region belongs to one fabric, path and link.
func TestRegionOfAnotherConnectionIsRefused(t *testing.T) {
	r := freshRegion(t)
	defer r.close()
	if _, err := openRegion(r.fd, flowAndRing, 7, stepsThere, stepsBack, 4); err != nil {
		t.Fatalf("a good region: %v", err)
	}
	if _, err := openRegion(r.fd, flowAndRing, 8, stepsThere, stepsBack, 4); err == nil {
		t.Error("a region of another fabric was accepted")
	}
	if _, err := openRegion(r.fd, flowAndRing, 7, stepsBack, stepsThere, 4); err == nil {
		t.Error("a region of another path was accepted")
	}
	if _, err := openRegion(r.fd, flowAndRing, 7, stepsThere, stepsBack, 5); err == nil {
		t.Error("a region of another link was accepted")
	}
}
