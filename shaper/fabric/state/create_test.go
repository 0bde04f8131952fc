// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// checkFile compares what a file says with what it was made from.
func checkFile(t interface{ Errorf(string, ...any) }, f *File, s Spec) {
	tr := s.Transport.Scaled(int64(s.TimeScale))
	want := Fixed{
		Nodes: s.Nodes, GPUsPerNode: s.GPUsPerNode, NICsPerNode: s.NICsPerNode, TimeScale: s.TimeScale, Seed: s.Seed,
		Transport: tr, Created: f.Fixed().Created,
	}
	if d := cmp.Diff(want, f.Fixed()); d != "" {
		t.Errorf("fixed numbers: %s", d)
	}
	if f.Name() != s.Name || f.Profile() != s.Profile || string(f.Config()) != string(s.Config) || f.Down() {
		t.Errorf("name %q, profile %q, text %q, down %v", f.Name(), f.Profile(), f.Config(), f.Down())
	}
	if age := Now() - f.Fixed().Created; age < 0 || age > int64(time.Minute) {
		t.Errorf("made %d ns ago", age)
	}
	hops := f.Hops()
	if len(hops) != len(s.Hops) {
		t.Errorf("%d hops, want %d", len(hops), len(s.Hops))
		return
	}
	for i, h := range s.Hops {
		want := HopStatus{Index: i, Kind: h.Kind, Src: int(h.Src), Dst: int(h.Dst), Spec: h.Spec}
		if d := cmp.Diff(want, hops[i]); d != "" {
			t.Errorf("hop %d: %s", i, d)
		}
	}
	paths := map[[2]int][]link.PathHop{}
	for _, p := range s.Paths {
		paths[[2]int{p.Src, p.Dst}] = p.Hops
	}
	nics := s.Nodes * s.NICsPerNode
	for src := -1; src <= nics; src++ {
		for dst := -1; dst <= nics; dst++ {
			if d := cmp.Diff(paths[[2]int{src, dst}], f.Path(src, dst)); d != "" {
				t.Errorf("path from %d to %d: %s", src, dst, d)
			}
		}
	}
	if j, p, e := f.Jobs(), f.Participants(), f.Events(); len(j)+len(p)+len(e) != 0 {
		t.Errorf("jobs %v, participants %v, events %v in a new file", j, p, e)
	}
	table := link.JitterTable{}
	if s.Table != nil {
		table = *s.Table
	}
	if f.tables()[0] != *link.NormalTable() || f.tables()[1] != *link.ParetoTable() || f.tables()[2] != table {
		t.Errorf("the jitter tables differ")
	}
}

func TestCreateThenOpen(t *testing.T) {
	d := newDir(t)
	s := twoNodes("t")
	f := create(t, d, s)
	checkFile(t, f, s)
	g, err := d.Open("t")
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, g, s)
	if f.ID() != g.ID() || f.ID() == 0 || g.Dir() != d.Path {
		t.Errorf("ids %x and %x, folder %s", f.ID(), g.ID(), g.Dir())
	}
	// Both mappings are the same memory.
	f.TakeDown()
	if !g.Down() {
		t.Error("taken down, but not in the other mapping")
	}
	st, err := os.Stat(filepath.Join(d.Path, "t"+Suffix))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	for _, f := range []*File{f, g} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		checkError(t, f.Close(), os.ErrClosed, "close fabric: file already closed")
	}
}

// A file in use by others is opened as it is.
func TestOpenWhileItIsUsed(t *testing.T) {
	d := newDir(t)
	create(t, d, twoNodes("t"))
	for _, mode := range []string{"event", "change"} {
		other := start(t, mode, d.Path, "t", "500")
		if got := other.line(); got != "ready" {
			t.Fatal(got)
		}
		for range 300 {
			f, err := d.Open("t")
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		if n := number(t, other.ask("stop")); n == 0 {
			t.Errorf("%s: the other process did nothing", mode)
		}
	}
}

// A file is made of memory that is reserved: no later write can fail.
func TestCreateReservesTheFile(t *testing.T) {
	f := newFile(t)
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != int64(len(f.mem)) || st.Blocks*512 < st.Size {
		t.Errorf("%d bytes, %d of them reserved, %d mapped", st.Size, st.Blocks*512, len(f.mem))
	}
}

func TestCreateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *Spec)
		want   string
	}{
		"no nodes":   {func(s *Spec) { s.Nodes = 0 }, "fabric t: nodes, GPUs and NICs must be given"},
		"no NICs":    {func(s *Spec) { s.NICsPerNode = 0 }, "fabric t: nodes, GPUs and NICs must be given"},
		"fewer GPUs": {func(s *Spec) { s.GPUsPerNode = -1 }, "fabric t: nodes, GPUs and NICs must be given"},
		"many nodes": {func(s *Spec) { s.Nodes = 1 << 20 },
			"fabric t: 1048576 nodes with 1 NICs and 1 GPUs each are too many: at most 1024 NICs"},
		"many NICs": {func(s *Spec) { s.NICsPerNode = 1 << 40 },
			"fabric t: 2 nodes with 1099511627776 NICs .* too many: .*"},
		"many GPUs":       {func(s *Spec) { s.GPUsPerNode = 1 << 40 }, "fabric t: .* too many: .*"},
		"time scale 0":    {func(s *Spec) { s.TimeScale = 0 }, "fabric t: time scale 0: must be 1 to 1024"},
		"time scale 1025": {func(s *Spec) { s.TimeScale = 1025 }, "fabric t: time scale 1025: must be 1 to 1024"},
		"many hops": {func(s *Spec) { s.Hops = make([]HopSpec, 1<<17+1) },
			"fabric t: 131073 ports and links, at most 131072: fewer nodes or NICs"},
		"long text": {func(s *Spec) { s.Config = make([]byte, 1<<20+1) },
			"fabric t: its description has 1048577 bytes, at most 1048576"},
		"long profile": {func(s *Spec) { s.Profile = strings.Repeat("p", 64) },
			`fabric t: profile name "p+" is too long`},
		"hop of no kind": {func(s *Spec) { s.Hops[1].Kind = 11 },
			"fabric t: hop 1 of kind 11 from NIC 0 to NIC 0 of 2: not possible"},
		"hop to nowhere": {func(s *Spec) { s.Hops[4].Dst = 2 },
			"fabric t: hop 4 of kind 2 from NIC 0 to NIC 2 of 2: not possible"},
		"hop too fast": {func(s *Spec) { s.Hops[4].Spec.Bandwidth = 1 },
			"fabric t: hop 4: bandwidth 1 bit/s: must be 1000000 to 10000000000000"},
		"path to nowhere":  {func(s *Spec) { s.Paths[1].Dst = 2 }, "fabric t: path 1 to 2 with 3 hops: not possible"},
		"path from before": {func(s *Spec) { s.Paths[1].Src = -1 }, "fabric t: path -1 to 0 with 3 hops: not possible"},
		"path of no hops": {func(s *Spec) { s.Paths[1].Hops = nil },
			"fabric t: path 1 to 0 with 0 hops: not possible"},
		"path of 9 hops": {func(s *Spec) { s.Paths[1].Hops = make([]link.PathHop, 9) },
			"fabric t: path 1 to 0 with 9 hops: not possible"},
		"path by no hop": {func(s *Spec) { s.Paths[1].Hops[1].Hop = 6 }, "fabric t: path 1 to 0 uses hop 6 of 6"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			s := twoNodes("t")
			tc.change(&s)
			_, err := d.Create(s)
			checkError(t, err, nil, tc.want)
			if files, err := d.files(); len(files) != 0 || err != nil {
				t.Errorf("left behind: %v %v", files, err)
			}
		})
	}
}

func TestCreateRefusesANameThatIsUp(t *testing.T) {
	d := newDir(t)
	first := create(t, d, twoNodes("t"))
	_, err := d.Create(twoNodes("t"))
	checkError(t, err, fs.ErrExist,
		"fabric t is up already: take it down with `ddlemu down t` or choose another name: file already exists")
	f, err := d.Open("t")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.ID() != first.ID() {
		t.Error("the first was replaced")
	}
	if files, _ := d.files(); len(files) != 1 {
		t.Errorf("left behind: %v", files)
	}
}

// Of many processes that bring up a fabric of one name, one succeeds, and the others can
// open the complete file.
func TestCreateRaces(t *testing.T) {
	d := newDir(t)
	for range 20 {
		var wg sync.WaitGroup
		var made, found sync.Map
		for i := range 8 {
			wg.Go(func() {
				f, err := d.Create(twoNodes("t"))
				if err == nil {
					made.Store(i, f.ID())
				} else if errors.Is(err, fs.ErrExist) {
					if f, err = d.Open("t"); err == nil {
						found.Store(i, f.ID())
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
			})
		}
		wg.Wait()
		ids, n := map[any]bool{}, 0
		made.Range(func(_, id any) bool { n++; ids[id] = true; return true })
		found.Range(func(_, id any) bool { ids[id] = true; return true })
		if n != 1 || len(ids) != 1 {
			t.Fatalf("%d made it, %d different ones", n, len(ids))
		}
		if err := d.Remove("t"); err != nil {
			t.Fatal(err)
		}
	}
}

// On a file system that has no unnamed files, nothing is left behind either.
func TestCreateWithoutUnnamedFiles(t *testing.T) {
	d := newDir(t)
	d.named = true
	s := twoNodes("t")
	checkFile(t, create(t, d, s), s)
	_, err := d.Create(s)
	checkError(t, err, fs.ErrExist, "fabric t is up already: .*")
	if files, err := d.files(); len(files) != 1 || err != nil {
		t.Errorf("left behind: %v %v", files, err)
	}
}

func TestTheFolderMayNotBeWritable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	d := newDir(t)
	chmod(t, d.Path, 0o500)
	_, err := d.Create(twoNodes("t"))
	checkError(t, err, fs.ErrPermission, "make the fabric's file in .*: permission denied")
	chmod(t, d.Path, 0o700)
}

// drawHop is a link or port with any parameters that the link model accepts.
func drawHop(t *rapid.T) link.Spec {
	p := func(name string) float64 { return rapid.Float64Range(0, 1).Draw(t, name) }
	s := link.Spec{
		Latency: time.Duration(rapid.Int64Range(0, int64(link.MaxLatency)).Draw(t, "latency")),
		Jitter: link.Jitter{
			Kind:  link.JitterKind(rapid.Uint32Range(0, uint32(link.Table)).Draw(t, "jitter")),
			Value: time.Duration(rapid.Int64Range(0, int64(link.MaxLatency)).Draw(t, "jitter value")),
		},
		Loss:        link.Loss{P: p("p"), BadP: p("bad"), GoodToBad: p("good to bad"), BadToGood: p("bad to good")},
		QueueBytes:  rapid.Uint64Range(0, 4<<30).Draw(t, "queue"),
		QueuePolicy: link.Policy(rapid.Uint32Range(0, 1).Draw(t, "policy")),
		MTU:         rapid.Uint32Range(link.MinMTU, link.MaxMTU).Draw(t, "mtu"),
		Framing:     rapid.Uint32Range(0, link.MaxMTU).Draw(t, "framing"),
		Down:        rapid.Bool().Draw(t, "down"),
	}
	s.Header = rapid.Uint32Range(0, s.MTU-1).Draw(t, "header")
	if rapid.Bool().Draw(t, "shaped") {
		s.Bandwidth = rapid.Uint64Range(link.MinBandwidth, link.MaxBandwidth).Draw(t, "bandwidth")
	}
	return s
}

func drawSpec(t *rapid.T) Spec {
	ns := func(name string) int64 { return rapid.Int64Range(0, int64(time.Hour)).Draw(t, name) }
	s := Spec{
		Name:    rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,39}`).Draw(t, "name"),
		Profile: rapid.StringMatching(`[ -~]{0,63}`).Draw(t, "profile"),
		Nodes:   rapid.IntRange(1, 5).Draw(t, "nodes"), GPUsPerNode: rapid.IntRange(0, 64).Draw(t, "gpus"),
		NICsPerNode: rapid.IntRange(1, 4).Draw(t, "nics"),
		TimeScale:   rapid.IntRange(1, link.MaxTimeScale).Draw(t, "time scale"), Seed: rapid.Uint64().Draw(t, "seed"),
		Transport: link.Transport{
			Kind:            link.TransportKind(rapid.Uint32Range(0, 1).Draw(t, "transport")),
			SelectiveRepeat: rapid.Bool().Draw(t, "selective repeat"),
			SendBuffer:      rapid.Uint64().Draw(t, "send buffer"), Window: rapid.Uint64().Draw(t, "window"),
			RTO: ns("rto"), DownTimeout: ns("timeout"), Overhead: ns("o"), Gap: ns("g"),
			Congestion: link.Congestion(rapid.Uint32Range(0, 2).Draw(t, "congestion")), Second: int64(time.Second),
			Host: link.Host{PerMessage: ns("per message"), NsNum: 10,
				NsDen: rapid.Uint64Range(1, link.MaxBandwidth).Draw(t, "copy")},
		},
		Config: rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "config"),
	}
	nics := s.Nodes * s.NICsPerNode
	for range rapid.IntRange(0, 12).Draw(t, "hops") {
		nic := func(name string) uint32 { return uint32(rapid.IntRange(0, nics-1).Draw(t, name)) }
		kind := link.HopKind(rapid.Uint32Range(0, uint32(link.Trunk)).Draw(t, "kind"))
		s.Hops = append(s.Hops, HopSpec{Kind: kind, Src: nic("src"), Dst: nic("dst"), Spec: drawHop(t)})
	}
	for i := range min(len(s.Hops), nics) {
		p := PathSpec{Src: i, Dst: (i * 3) % nics}
		for range rapid.IntRange(1, link.MaxHops).Draw(t, "steps") {
			p.Hops = append(p.Hops, link.PathHop{Hop: rapid.IntRange(0, len(s.Hops)-1).Draw(t, "hop"),
				Private: rapid.Bool().Draw(t, "private")})
		}
		s.Paths = append(s.Paths, p)
	}
	if rapid.Bool().Draw(t, "table") {
		s.Table = link.ParetoTable()
	}
	return s
}

// Open accepts and reads back every file that Create makes.
func TestPropertyCreateThenOpen(t *testing.T) {
	d := newDir(t)
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		f, err := d.Create(s)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Remove(s.Name)
		f.Close()
		if f, err = d.Open(s.Name); err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		checkFile(t, f, s)
	})
}

// Nothing stays open or mapped when a file is refused or closed.
func TestNothingStaysOpen(t *testing.T) {
	d := newDir(t)
	f := create(t, d, twoNodes("t"))
	f.Close()
	bad := valid(t, newDir(t))
	bad.head().Version = 9
	if err := os.WriteFile(filepath.Join(d.Path, "bad"+Suffix), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	before := openThings(t, d.Path)
	for i := range 10 {
		if f, err := d.Open("t"); err == nil {
			f.Close()
		}
		d.Open("bad")
		d.Create(twoNodes("t"))
		s := twoNodes(fmt.Sprint(i))
		s.Hops[0].Spec.MTU = 0
		d.Create(s)
		d.Names()
	}
	if after := openThings(t, d.Path); after != before {
		t.Errorf("%d descriptors and mappings before, %d after", before, after)
	}
}

// openThings counts the descriptors and mappings of this process for path.
func openThings(t *testing.T, path string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n := strings.Count(string(maps), path)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, path) {
			n++
		}
	}
	return n
}

// A fabric of 256 NICs fits, with a place for one job; on the kernel datapath also with that of all traffic. A path can
// name its last hop.
func TestManyNICs(t *testing.T) {
	const nics = 256
	s := twoNodes("t")
	s.Nodes, s.NICsPerNode, s.Hops, s.Paths = nics, 1, nil, nil
	spec := family(1)
	for n := range uint32(nics) {
		s.Hops = append(s.Hops, HopSpec{link.TxPort, n, n, spec}, HopSpec{link.RxPort, n, n, spec})
	}
	for src := range nics {
		for dst := range nics {
			if src != dst {
				s.Paths = append(s.Paths,
					PathSpec{src, dst, []link.PathHop{{Hop: 2 * src}, {Hop: len(s.Hops), Private: true},
						{Hop: 2*dst + 1}}})
				s.Hops = append(s.Hops, HopSpec{link.Link, uint32(src), uint32(dst), spec})
			}
		}
	}
	for kernel, jobs := range map[bool]uint32{false: 1, true: 2} {
		s.Kernel = kernel
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		h, err := s.header(1)
		if err != nil {
			t.Fatal(err)
		}
		if h.Jobs != jobs || !h.plausible() || h.FileSize > uint64(jobs)*300<<20 {
			t.Errorf("kernel %v: %d jobs, plausible %v, %d MiB", kernel, h.Jobs, h.plausible(), h.FileSize>>20)
		}
	}
	s.Kernel = false
	f := create(t, newDir(t), s)
	last := len(s.Hops) - 1
	if path := f.Path(nics-1, nics-2); len(path) != 3 || path[1].Hop != last {
		t.Errorf("the last path is %v, want hop %d in it", path, last)
	}
}
