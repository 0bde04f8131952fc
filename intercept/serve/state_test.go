// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

const rankOf = "SERVE_TEST_RANK_OF" // a folder of fabrics: this process is a rank of a job on the fabric f there

func TestMain(m *testing.M) {
	if dir := os.Getenv(rankOf); dir != "" {
		if err := beRank(dir); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beRank joins a job, says so, and stays until it is killed.
func beRank(dir string) error {
	d, err := state.OpenDir(dir, os.Getuid(), false)
	if err != nil {
		return err
	}
	file, err := d.Open("f")
	if err != nil {
		return err
	}
	job, err := file.JoinJob(1)
	if err != nil {
		return err
	}
	if _, err := file.Join(job, state.Rank{World: 2}); err != nil {
		return err
	}
	fmt.Println("joined")
	select {}
}

// bringUp brings up a fabric called f.
func bringUp(t *testing.T, dir, config string) *state.File {
	t.Helper()
	c, err := configs.Decode("test", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := fabricfile.Describe(fab, "f")
	if err != nil {
		t.Fatal(err)
	}
	d, err := state.OpenDir(dir, os.Getuid(), true)
	if err != nil {
		t.Fatal(err)
	}
	file, err := d.Create(spec)
	d.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func read(t *testing.T, file *state.File) *State {
	t.Helper()
	s, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shape(t *testing.T, file *state.File, pattern string, p configs.LinkPatch) {
	t.Helper()
	if _, err := fabricfile.Shape(file, pattern, p); err != nil {
		t.Fatal(err)
	}
}

func hopNamed(t *testing.T, s *State, name string) ShownHop {
	t.Helper()
	for _, h := range s.Hops {
		if h.Name == name {
			return h
		}
	}
	t.Fatalf("there is no %s in %+v", name, s.Hops)
	return ShownHop{}
}

// A state has the drawing, and how each hop is set now.
func TestRead(t *testing.T) {
	file := bringUp(t, t.TempDir()+"/fabrics", "name: test\nbase: eth10\nnodes: 3\nclock: virtual\n")
	file.Event("up")
	down := false
	shape(t, file, "node0>node1", configs.LinkPatch{Up: &down})
	s := read(t, file)
	if s.Format != Format || s.Name != "f" || s.Clock != "virtual" || s.TimeScale != 1 || s.Time != 0 ||
		len(s.Jobs) != 0 || len(s.Drawing.Vertices) != 4 {
		t.Errorf("%+v", s)
	}
	if len(s.Hops) != 3*2+3*2 {
		t.Errorf("%d hops: want 6 ports and 6 links", len(s.Hops))
	}
	h := hopNamed(t, s, "node0:node1")
	want := report.Line{Name: "node0:node1", From: 0, To: 1, Bandwidth: 1e10, Latency: 25_000, Down: true}
	if diff := cmp.Diff(want, h.Line); diff != "" || h.Link != "node0>node1" || !h.Changed {
		t.Errorf("%+v: %s", h, diff)
	}
	for i, p := range Params() {
		if want := map[string]string{"bw": "10Gbps", "lat": "25µs", "loss": "none"}[p.Flag]; want != "" &&
			h.Set[i] != want {
			t.Errorf("%s is %q, want %q", p.Flag, h.Set[i], want)
		}
	}
	if h := hopNamed(t, s, "node1:node0"); h.Down || h.Changed || h.From != -1 {
		t.Errorf("the other direction: %+v", h)
	}
	if h := hopNamed(t, s, "node2 tx"); h.Link != "" || h.From != 2 || h.To != 3 {
		t.Errorf("a port: %+v", h)
	}
	if len(s.Events) != 1 || s.Events[0].Text != "up" || s.Events[0].At <= 0 {
		t.Errorf("events: %v", s.Events)
	}
}

// Of a large fabric only the links with something to show are there.
func TestReadLargeFabric(t *testing.T) {
	file := bringUp(t, t.TempDir()+"/fabrics", fmt.Sprintf("name: test\nbase: eth10\nnodes: %d\n", smallFabric+1))
	if s := read(t, file); len(s.Hops) != 2*(smallFabric+1) {
		t.Errorf("%d hops, want only the ports", len(s.Hops))
	}
	loss, err := configs.ParseLoss("1%")
	if err != nil {
		t.Fatal(err)
	}
	shape(t, file, "node0:node16", configs.LinkPatch{Loss: &loss})
	if s := read(t, file); len(s.Hops) != 2*(smallFabric+1)+2 || !hopNamed(t, s, "node16:node0").Loss {
		t.Errorf("%d hops, want the ports and the 2 links that are changed", len(s.Hops))
	}
}

// A job whose ranks were killed has ended.
func TestReadKilledJob(t *testing.T) {
	dir := t.TempDir() + "/fabrics"
	file := bringUp(t, dir, "name: test\nbase: eth10\nnodes: 2\n")
	rank := exec.CommandContext(t.Context(), os.Args[0])
	rank.Env = append(os.Environ(), rankOf+"="+dir)
	out, err := rank.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := rank.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "joined\n" {
		t.Fatalf("the rank says %q (%v)", line, err)
	}
	if jobs := read(t, file).Jobs; len(jobs) != 1 || !jobs[0].Running || jobs[0].Joined != 1 || jobs[0].Died != 0 {
		t.Errorf("a job that runs: %+v", jobs)
	}
	if err := rank.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = rank.Wait() // it was killed
	jobs := read(t, file).Jobs
	if len(jobs) != 1 || jobs[0].Running || jobs[0].Died != 1 ||
		!slices.Equal(jobs[0].Reasons, state.PeerDied.Words()) {
		t.Errorf("a job that was killed: %+v", jobs)
	}
}
