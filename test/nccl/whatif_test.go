// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	recorded "github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/intercept/whatif"
)

// whatIf is what `ddlemu whatif --json` prints.
type whatIf struct {
	Notes   []string
	Advice  string
	Changes []struct {
		Change    string
		Kind      string
		Links     []string
		Advised   bool
		Gain      float64
		Functions []struct {
			Function string
			Calls    int
			Before   float64 `json:"before_ns"`
			After    float64 `json:"after_ns"`
			During   float64 `json:"after_during_ns"`
		}
	}
}

func whatIfOf(t *testing.T, args ...string) (got whatIf) {
	t.Helper()
	out, err := ddlemu(t.Context(), t, folder(t), nil, append([]string{"whatif", "--json"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// The sums of why and whatif are those of the steps that replay measures: the calls in which the ranks connect are apart.
func TestWarmupIsNotSummed(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`, `{"op":"coll","func":"AllReduce","count":262144,"type":"float32"}`,
		`{"op":"step"}`)
	dir := filepath.Join(t.TempDir(), "trace")
	const steps = 3
	r := replay(t, path, "--profile", "ndr400", "--steps", fmt.Sprint(steps), "--trace", dir)
	got := whatIfOf(t, dir)
	if all := got.Changes[0].Functions[0]; math.Abs(all.Before-1000*r.Time) > 1 || all.Calls != steps {
		t.Errorf("whatif has %d calls in %.0f ns, replay %d steps in %.3f us", all.Calls, all.Before, steps, r.Time)
	}
	out, err := ddlemu(t.Context(), t, folder(t), nil, "why", dir).Output()
	if want := fmt.Sprintf("\nAllReduce: %d calls, ", steps); err != nil || !strings.Contains(string(out), want) ||
		!strings.Contains(string(out), "\nnote: the sums are without 1 call before the first step") {
		t.Errorf("%v: no %q in\n%s", err, want, out)
	}
}

// Real NCCL takes the time that whatif says, on the changed fabric as on the one before: from a run on
// either, the other's is known. NCCL's choices are held.
func TestWhatIfIsWhatIs(t *testing.T) {
	t.Parallel()
	const slower, faster = "100Gbps", "4x"
	for _, tc := range []struct{ collective, algo, proto, nodes string }{
		{"allreduce", "Ring", "Simple", "4"},
		{"allreduce", "Ring", "LL128", "4"},
		{"allreduce", "Tree", "LL", "4"},
		{"allreduce", "Tree", "Simple", "2"},
		{"allgather", "Ring", "Simple", "4"},
		{"broadcast", "Ring", "Simple", "4"},
		{"alltoall", "Ring", "Simple", "4"},
		{"reducescatter", "Ring", "LL", "2"},
		{"allgather", "PAT", "Simple", "4"},
		{"reducescatter", "PAT", "Simple", "4"},
	} {
		t.Run(strings.Join([]string{tc.collective, tc.algo, tc.proto, tc.nodes}, " "), func(t *testing.T) {
			link := "node0:*" // NCCL does not see these, so its choices stay
			env := []string{"NCCL_ALGO=" + tc.algo, "NCCL_PROTO=" + tc.proto, "NCCL_MIN_NCHANNELS=2",
				"NCCL_MAX_NCHANNELS=2"}
			plain := []string{"base: ndr400", "nodes: " + tc.nodes, "link:", "  jitter: none"}
			run := func(lines ...string) (dir string) {
				dir = filepath.Join(t.TempDir(), "t")
				bench(t, folder(t), env, tc.collective, "--file", writeFabric(t, lines...), "--ranks", "4", "--nccl",
					"2.29", "-b", "1M", "-e", "1M", "-n", "3", "-w", "1", "--trace", dir)
				return dir
			}
			fast := run(plain...)
			slow := run(append(plain, "links:", "  - match: \""+link+"\"", "    bandwidth: "+slower)...)
			there, back := whatIfOf(t, fast, "--link", link, "--bw", slower), whatIfOf(t, slow, "--link", link, "--bw",
				faster)
			if len(there.Notes)+len(back.Notes) > 0 {
				t.Errorf("notes %q %q", there.Notes, back.Notes)
			}
			for i, f := range there.Changes[0].Functions {
				b := back.Changes[0].Functions[i]
				if f.After != b.Before || f.Calls == 0 {
					t.Errorf("%s: %.0f ns if the link were slower, %.0f ns if it is", f.Function, f.After, b.Before)
				}
				if b.After != f.Before {
					t.Errorf("%s: %.0f ns if the link were faster, %.0f ns if it is", f.Function, b.After, f.Before)
				}
			}
			if gain := there.Changes[0].Gain; gain < 0.01 {
				t.Errorf("the slower link changes nothing: %+v", there)
			}
		})
	}
}

// What ranks of a node pass to each other around a ring or in a tree is in the plan, although the fabric does not see
// it: from a run on either fabric, the other's time is known to the nanosecond.
func TestWhatIfWithinNodes(t *testing.T) {
	for _, tc := range []struct{ collective, algo, proto, ranks, version string }{
		{"allreduce", "Ring", "Simple", "4", "2.22"},
		{"allreduce", "Ring", "LL128", "6", "2.29"},
		{"allgather", "Ring", "Simple", "4", "2.29"},
		{"broadcast", "Ring", "Simple", "4", "2.29"},
		{"reduce", "Ring", "LL", "6", "2.22"},
		{"allreduce", "Tree", "Simple", "6", "2.22"},
		{"allreduce", "Tree", "LL", "4", "2.29"},
	} {
		t.Run(strings.Join([]string{tc.collective, tc.algo, tc.proto, tc.ranks}, " "), func(t *testing.T) {
			env := []string{"NCCL_ALGO=" + tc.algo, "NCCL_PROTO=" + tc.proto, "NCCL_MIN_NCHANNELS=2", "NCCL_MAX_NCHANNELS=2"}
			plain := []string{"base: ndr400", "nodes: 2", "link:", "  jitter: none"}
			run := func(lines ...string) (dir string) {
				dir = filepath.Join(t.TempDir(), "t")
				bench(t, folder(t), env, tc.collective, "--file", writeFabric(t, lines...), "--ranks", tc.ranks, "--nodes", "2",
					"--nccl", tc.version, "-b", "1M", "-e", "1M", "-n", "3", "-w", "1", "--trace", dir)
				return dir
			}
			fast := run(plain...)
			slow := run(append(plain, "links:", "  - match: \"node0:*\"", "    bandwidth: 100Gbps")...)
			there, back := whatIfOf(t, fast, "--link", "node0:*", "--bw", "100Gbps"),
				whatIfOf(t, slow, "--link", "node0:*", "--bw", "4x")
			if len(there.Notes)+len(back.Notes) > 0 {
				t.Errorf("notes %q %q", there.Notes, back.Notes)
			}
			if n := len(there.Changes[0].Functions); n == 0 || n != len(back.Changes[0].Functions) {
				t.Fatalf("%d and %d functions", n, len(back.Changes[0].Functions))
			}
			for i, f := range there.Changes[0].Functions {
				if b := back.Changes[0].Functions[i]; f.Calls == 0 || f.After != b.Before || b.After != f.Before || f.Before >= b.Before {
					t.Errorf("%s: %.0f ns, predicted %.0f; on the slow fabric %.0f, predicted %.0f", f.Function, f.Before,
						b.After, b.Before, f.After)
				}
			}
		})
	}
}

// What overlaps calls keeps its time. From a replay on either fabric, the other's time is known: exactly, because the
// software CUDA notes what streams compute; and without these notes between the two cases.
func TestWhatIfOfOverlap(t *testing.T) {
	t.Parallel()
	var hidden, part []string
	for i := 1; i <= 3; i++ {
		hidden = append(hidden, fmt.Sprintf(`{"op":"calc","ns":1000000,"stream":"compute","id":%d}`, i),
			fmt.Sprintf(`{"op":"coll","func":"AllReduce","count":328704,"type":"float32","stream":"nccl","after":[%d]}`, i))
		part = append(part, fmt.Sprintf(`{"op":"calc","ns":300000,"stream":"compute","id":%d}`, i),
			fmt.Sprintf(`{"op":"coll","func":"AllReduce","count":657408,"type":"float32","stream":"nccl","after":[%d]}`, i))
	}
	for name, ops := range map[string][]string{"hidden": hidden, "partly hidden": part} {
		t.Run(name, func(t *testing.T) {
			path := workloadFile(t, `"ranks":2`, append(ops, `{"op":"wait"}`, `{"op":"step"}`)...)
			run := func(rate string) (dir string) {
				dir = filepath.Join(t.TempDir(), "t")
				replay(t, path, "--profile", "eth25-tcp", "--bw", rate, "--set", "link.jitter=none", "--steps", "2", "--trace", dir)
				return dir
			}
			slow, fast := run("25Gbps"), run("50Gbps")
			for _, tc := range []struct {
				from, to string
				factor   float64
			}{{slow, fast, 2}, {fast, slow, 0.5}} {
				all := whatIfOf(t, tc.from, "--bw", fmt.Sprintf("%vx", tc.factor)).Changes[0]
				is := whatIfOf(t, tc.to, "--bw", "1x").Changes[0].Functions[0].Before
				if f := all.Functions[0]; math.Abs(f.After/is-1) > 1e-4 || f.During != f.After || f.Before == is {
					t.Errorf("x%v: %.0f ns, predicted %.0f and %.0f ns", tc.factor, is, f.After, f.During)
				}
				least, most := withoutComputations(t, tc.from, tc.factor)
				if least >= most || is < least*(1-1e-4) || is > most*(1+1e-4) {
					t.Errorf("x%v: %.0f ns, without computations predicted %.0f to %.0f ns", tc.factor, is, least, most)
				}
			}
		})
	}
}

// withoutComputations are the two times between which whatif expects all calls of a trace with faster links, if nothing
// is known of streams.
func withoutComputations(t *testing.T, dir string, faster float64) (least, most float64) {
	t.Helper()
	trace, err := messages.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	fabric, err := recorded.LoadFabric(dir, trace.Ranks[0].TimeScale)
	if err != nil {
		t.Fatal(err)
	}
	trace.Kernels = nil
	change := whatif.Change{Spec: whatif.Faster(faster)}
	for h := range fabric.Hops {
		change.Hops = append(change.Hops, h)
	}
	results, err := whatif.New(fabric, trace).Of([]whatif.Change{change})
	if err != nil {
		t.Fatal(err)
	}
	after, during := float64(results[0].After[0].Ns), float64(results[0].During[0].Ns)
	return min(after, during), max(after, during)
}

// Sends and receives of a program wait for each other as NCCL's proxy and kernels make them: on an oversubscribed
// fabric, behind one slow link, and in several batches of works, the predicted time is the real one to the nanosecond.
func TestWhatIfOfSends(t *testing.T) {
	t.Parallel()
	leafSpine := []string{"base: roce100", "nodes: 8", "link:", "  jitter: none", "topology:", "  kind: leaf-spine",
		"  leaves: 2", "  spines: 2", "  oversubscription: 4:1", "  trunk:", "    latency: 1us"}
	star := []string{"base: ndr400", "nodes: 4", "link:", "  jitter: none"}
	ten := []string{"base: ndr400", "nodes: 10", "link:", "  jitter: none"}
	for _, tc := range []struct {
		collective, ranks, size string
		lines                   []string
		link, slow, fast        string
	}{
		{"alltoall", "8", "1M", leafSpine, "leaf1:spine1", "25Gbps", "50Gbps"},
		{"alltoall", "8", "4M", leafSpine, "leaf1:spine1", "25Gbps", "50Gbps"},
		{"sendrecv", "8", "4M", leafSpine, "leaf1:spine1", "25Gbps", "50Gbps"},
		{"sendrecv", "4", "64K", star, "node1>node2", "100Gbps", "200Gbps"},
		{"sendrecv", "4", "1M", star, "node1>node2", "100Gbps", "200Gbps"},
		{"sendrecv", "4", "8M", star, "node1>node2", "100Gbps", "200Gbps"},
		{"alltoall", "4", "1M", star, "node1>node2", "100Gbps", "200Gbps"},
		{"hypercube", "4", "1M", star, "node1:*", "100Gbps", "200Gbps"},
		{"alltoall", "10", "256K", ten, "node1:*", "100Gbps", "200Gbps"},
	} {
		for _, version := range []string{"2.22", "2.29"} {
			t.Run(strings.Join([]string{tc.collective, tc.ranks, tc.size, version}, " "), func(t *testing.T) {
				run := func(rate string) (dir string) {
					dir = filepath.Join(t.TempDir(), "t")
					lines := append(slices.Clone(tc.lines), "links:", "  - match: \""+tc.link+"\"",
						"    bandwidth: "+rate)
					bench(t, folder(t), nil, tc.collective, "--file", writeFabric(t, lines...), "--ranks", tc.ranks,
						"--nccl", version, "-b", tc.size, "-e", tc.size, "-n", "4", "-w", "1", "--trace", dir)
					return dir
				}
				slow, fast := run(tc.slow), run(tc.fast)
				there, back := whatIfOf(t, slow, "--link", tc.link, "--bw", "2x"),
					whatIfOf(t, fast, "--link", tc.link, "--bw", "0.5x")
				if len(there.Notes)+len(back.Notes) > 0 {
					t.Errorf("notes %q %q", there.Notes, back.Notes)
				}
				for i, f := range there.Changes[0].Functions {
					b := back.Changes[0].Functions[i]
					if f.After != b.Before || b.After != f.Before || f.Before < 1.05*b.Before {
						t.Errorf("%s: %.0f ns, with the faster link %.0f ns: predicted %.0f ns; and back %.0f ns",
							f.Function, f.Before, b.Before, f.After, b.After)
					}
				}
			})
		}
	}
}

// Real NCCL takes the time that the list of upgrades says, on the fabric with the upgrade: that of the advised one, and
// that of one of its cables alone, which changes nothing. NCCL's choices are held.
func TestAdviceIsWhatIs(t *testing.T) {
	t.Parallel()
	leafSpine := func(nodes, spines string) []string {
		return []string{"base: roce100", "nodes: " + nodes, "link:", "  jitter: none", "topology:", "  kind: leaf-spine",
			"  leaves: 2", "  spines: " + spines, "  trunk:", "    bandwidth: 50Gbps", "    latency: 1us"}
	}
	ring := []string{"NCCL_ALGO=Ring", "NCCL_PROTO=Simple", "NCCL_MIN_NCHANNELS=2", "NCCL_MAX_NCHANNELS=2"}
	for _, tc := range []struct {
		name, collective, ranks string
		env, lines              []string
		advised                 []string
		rates                   map[string]string // of upgraded links, by how their names begin
		gain                    float64
	}{
		{"cables of one spine", "alltoall", "4", nil, leafSpine("4", "1"),
			[]string{"leaf0:spine0", "leaf1:spine0"}, map[string]string{"leaf": "100Gbps"}, -0.4},
		{"cables of two spines", "alltoall", "8", nil, leafSpine("8", "2"),
			[]string{"leaf0:spine0", "leaf0:spine1", "leaf1:spine0", "leaf1:spine1"},
			map[string]string{"leaf": "100Gbps"}, -0.3},
		{"slow NIC", "allreduce", "4", ring, []string{"base: roce100", "nodes: 4", "link:", "  jitter: none", "nccl:",
			"  speed: 100Gbps", "links:", "  - match: node2", "    bandwidth: 25Gbps"}, []string{"node2"},
			map[string]string{"node": "50Gbps"}, -0.4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			trace := func(links ...string) (dir string) {
				dir = filepath.Join(t.TempDir(), "t")
				lines := slices.Clone(tc.lines)
				if len(links) > 0 && !slices.Contains(lines, "links:") {
					lines = append(lines, "links:")
				}
				for _, l := range links {
					lines = append(lines, "  - match: \""+l+"\"", "    bandwidth: "+tc.rates[l[:4]])
				}
				bench(t, folder(t), tc.env, tc.collective, "--file", writeFabric(t, lines...), "--ranks", tc.ranks, "--nccl",
					"2.29", "-b", "4M", "-e", "4M", "-n", "2", "-w", "1", "--trace", dir)
				return dir
			}
			got := whatIfOf(t, trace())
			tried := 0
			for _, c := range got.Changes {
				links := slices.Sorted(slices.Values(c.Links))
				alone := len(links) == 1 && slices.Contains(tc.advised, links[0]) && !c.Advised
				if c.Advised && (!slices.Equal(links, tc.advised) || c.Gain > tc.gain) ||
					alone && math.Abs(c.Gain) > 0.02 {
					t.Errorf("%s: advised %v, %v", c.Change, c.Advised, c.Gain)
				}
				if !c.Advised && (!alone || tried > 1) {
					continue
				}
				tried++
				is := whatIfOf(t, trace(links...), "--bw", "1x").Changes[0].Functions[0]
				if predicted := c.Functions[0]; math.Abs(predicted.After/is.Before-1) > 1e-4 || predicted.Calls != is.Calls {
					t.Errorf("%s: %.0f ns, predicted %.0f ns", c.Change, is.Before, predicted.After)
				}
			}
			if tried == 0 || len(tc.advised) > 1 && tried < 2 {
				t.Errorf("%d upgrades were tried: %+v", tried, got)
			}
		})
	}
}

// checkReportedUpgrades holds the list of a report against that of whatif.
func checkReportedUpgrades(t *testing.T, dir string, want whatIf) {
	t.Helper()
	out, err := ddlemu(t.Context(), t, folder(t), nil, "report", "--json", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got report.Data
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if u := got.Upgrades; u.Advice != want.Advice || len(u.List) != len(want.Changes) {
		t.Fatalf("report: %+v, whatif: %+v", u, want)
	}
	for i, c := range want.Changes {
		if u := got.Upgrades.List[i]; u.Name != c.Change || u.Gain != c.Gain || u.Advised != c.Advised ||
			float64(u.Before) != c.Functions[0].Before || float64(u.After) != c.Functions[0].After {
			t.Errorf("report: %+v, whatif: %+v", u, c)
		}
	}
}

// The slow link is the one that is worth most, and bad input is refused.
func TestWorthOfLinks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	slow := writeFabric(t, "base: ndr400", "nodes: 4", "links:", "  - match: node1:node2", "    bandwidth: 100Gbps")
	bench(t, folder(t), nil, "allreduce", "--file", slow, "--ranks", "4", "--nccl", "2.22", "-b", "1M", "-e", "1M",
		"-n", "2", "-w", "1", "--trace", dir)
	got := whatIfOf(t, dir)
	if len(got.Changes) < 3 || got.Changes[0].Change != "node1:node2 x2" || got.Changes[0].Gain > -0.3 ||
		!got.Changes[0].Advised || !strings.HasPrefix(got.Advice, "node1:node2 x2: -") {
		t.Fatalf("%+v", got)
	}
	for _, c := range got.Changes[1:] {
		if c.Gain < got.Changes[0].Gain-0.01 {
			t.Errorf("%s is worth more: %.2f", c.Change, c.Gain)
		}
	}
	checkReportedUpgrades(t, dir, got)
	if on := whatIfOf(t, dir, "--on", "ndr400").Changes[0]; math.Abs(on.Gain-got.Changes[0].Gain) > 0.3 || on.Gain > -0.3 {
		t.Errorf("on the profile: %+v", on)
	}
	for want, args := range map[string][]string{
		"is no factor":                {dir, "--bw", "-2x"},
		"say what changes":            {dir, "--link", "node0:node1"},
		"must be one of several jobs": {dir, "--without-job", "b"},
		"names node 9":                {dir, "--link", "node0:node1,node0:node9", "--bw", "2x"},
		"the other fabric has 2 NICs": {dir, "--on", writeFabric(t, "base: ndr400", "nodes: 2")},
		"no ledger in":                {t.TempDir()},
		"whatif takes the folders":    {},
		"--on: give no other change":  {dir, "--on", slow, "--bw", "2x"},
		"is no file and no profile":   {dir, "--on", "nowhere"},
	} {
		out, err := ddlemu(t.Context(), t, folder(t), nil, append([]string{"whatif"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("whatif %q: %v, want %q:\n%s", args, err, want, out)
		}
	}
}
