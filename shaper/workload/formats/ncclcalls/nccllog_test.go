// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
)

// initLine is NCCL's line of a communicator; pid is the process.
func initLine(pid int, comm string, rank, size int, id string) string {
	return fmt.Sprintf(
		"h:%d:9 [%d] NCCL INFO ncclCommInitRank comm %s rank %d nranks %d cudaDev %d nvmlDev %d busId 1b000 commId %s - Init COMPLETE\n",
		pid, pid%8, comm, rank, size, pid%8, pid%8, id)
}

// callLine is NCCL's line of a call. op is a redop, root a root or a peer.
func callLine(pid int, name string, opCount, count, typ, op, root int, comm string, size int, stream string) string {
	return fmt.Sprintf(
		"h:%d:%d [%d] NCCL INFO %s: opCount %x sendbuff 0x7f0 recvbuff 0x7f1 count %d datatype %d op %d root %d comm %s [nranks=%d] stream %s\n",
		pid, pid, pid%8, name, opCount, count, typ, op, root, comm, size, stream)
}

// job is the log of two ranks, of which the second one comes first.
func job() string {
	s := "unrelated line\n"
	for _, r := range []int{1, 0} {
		pid := 10 + 7*(1-r) // rank 0 has the larger pid
		s += initLine(pid, "0x55a", r, 2, "0xabc")
		s += callLine(pid, "AllReduce", 0, 1024, 7, 0, 0, "0x55a", 2, "0x1")
		s += callLine(pid, "Broadcast", 1, 8, 4, 0, 1, "0x55a", 2, "0x2")
		s += callLine(pid, "Send", 2, 3, 9, 0, 1-r, "0x55a", 2, "0x1")
		s += callLine(pid, "Recv", 2, 3, 9, 0, 1-r, "0x55a", 2, "0x1")
		s += callLine(pid, "ReduceScatter", 3, 16, 6, 2, 0, "0x55a", 2, "0x1")
	}
	return s
}

func read(o input.Options, texts ...string) (*workload.Workload, error) {
	var files []input.File
	for i, text := range texts {
		files = append(files, input.Bytes(fmt.Sprintf("log%d", i), []byte(text)))
	}
	return Read(files, o)
}

func TestRead(t *testing.T) {
	w, err := read(input.Options{}, job())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	lists, err := perranktest.Split(w)
	if err != nil {
		t.Fatal(err)
	}
	for r, got := range lists {
		want := []workload.Op{
			{Kind: workload.Coll, Comm: "comm0", Func: workload.AllReduce, Count: 1024, Type: "float32",
				Stream: "nccl0"},
			{Kind: workload.Coll, Comm: "comm0", Func: workload.Broadcast, Count: 8, Type: "int64", Root: 1,
				Stream: "nccl1"},
			{Kind: workload.Group, Stream: "nccl0", Ops: []workload.Op{
				{Kind: workload.Send, Comm: "comm0", Count: 3, Type: "bfloat16", Peer: 1 - r},
				{Kind: workload.Recv, Comm: "comm0", Count: 3, Type: "bfloat16", Peer: 1 - r},
			}},
			{Kind: workload.Coll, Comm: "comm0", Func: workload.ReduceScatter, Count: 16, Type: "float16", RedOp: "max",
				Stream: "nccl0"},
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("rank %d: %s", r, d)
		}
	}
}

// A communicator of some ranks has the ranks of the processes that made it, by its id.
func TestSubgroups(t *testing.T) {
	var logs []string
	for r := range 4 {
		s := initLine(r, "0x1", r, 4, "0xa") + callLine(r, "AllReduce", 0, 1, 7, 0, 0, "0x1", 4, "0x0")
		s += initLine(r, "0x2", (3-r)/2, 2, fmt.Sprintf("0xb%d", r%2)) + callLine(r, "AllGather", 0, 1, 7, 0, 0, "0x2",
			2, "0x0")
		logs = append(logs, s)
	}
	w, err := read(input.Options{}, logs...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range w.Head.Comms {
		got = append(got, c.Name+" "+fmt.Sprint([]int(c.Ranks)))
	}
	if text := strings.Join(got, ","); text != "comm0 [0 1 2 3],comm1 [2 0],comm2 [3 1]" {
		t.Errorf("communicators: %s", text)
	}
	if _, err := read(input.Options{}, strings.ReplaceAll(strings.Join(logs, ""), "Init COMPLETE", ""),
		""); err != nil {
		t.Errorf("%v", err)
	}
	onlyCalls := ""
	for _, line := range strings.SplitAfter(strings.Join(logs, ""), "\n") {
		if strings.Contains(line, "opCount") {
			onlyCalls += line
		}
	}
	if _, err := read(input.Options{}, onlyCalls); err == nil ||
		!strings.Contains(err.Error(), "NCCL_DEBUG_SUBSYS=INIT,COLL") {
		t.Errorf("without INIT: %v", err)
	}
}

// Times with a fraction of a second give the time between calls.
func TestTimes(t *testing.T) {
	line := callLine(0, "AllReduce", 0, 1, 7, 0, 0, "0x1", 2, "0x0")
	w, err := read(input.Options{OneForAll: true}, "[2025-01-02 10:00:00.500] "+line+"[2025-01-02 10:00:00.750] "+line)
	if err != nil {
		t.Fatal(err)
	}
	if o := w.Ops[1]; len(w.Ops) != 3 || o.Kind != workload.Calc || o.Nanos != 250e6 || w.Ops[2].After[0] != o.ID {
		t.Errorf("%+v", w.Ops)
	}
	w, err = read(input.Options{OneForAll: true}, "[2025-01-02 10:00:00] "+line+"[2025-01-02 10:00:01] "+line)
	if err != nil || len(w.Ops) != 2 ||
		!strings.HasPrefix(w.Head.Source.Missing[0], "no computation between the calls is known") {
		t.Errorf("whole seconds: %v %+v", err, w)
	}
}

// NCCL logs the variables that it takes. Those of the cluster are left out.
func TestVariables(t *testing.T) {
	text := "h:0:0 [0] NCCL INFO NCCL_ALGO set by environment to Ring\nh:0:0 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n" +
		"h:0:0 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 1048576.\nh:0:0 [0] NCCL INFO NCCL_PROTO set by environment to fast\n"
	w, err := read(input.Options{OneForAll: true}, text+callLine(0, "AllReduce", 0, 1, 7, 0, 0, "0x1", 2, "0x0"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.Head.NCCLEnv(), " "); got != "NCCL_ALGO=Ring NCCL_BUFFSIZE=1048576" {
		t.Errorf("variables: %s", got)
	}
	if got := strings.Join(w.Head.Source.Notes, ";"); !strings.HasPrefix(got,
		`a variable was left out: NCCL_PROTO=fast: "fast" is no value`) {
		t.Errorf("notes: %s", got)
	}
}

func TestRefused(t *testing.T) {
	one := callLine(0, "AllReduce", 0, 1, 7, 0, 0, "0x1", 3, "0x0")
	for name, test := range map[string]struct {
		text string
		o    input.Options
		want string
	}{
		"nothing": {"a\nb\n", input.Options{}, "no call of NCCL"},
		"no process": {strings.TrimPrefix(one, "h:0:0 "), input.Options{},
			"all 1 line of calls are cut, or have no host:pid:tid before NCCL INFO"},
		"Ray": {strings.Replace(one, "\n", " [repeated 15x across cluster]\n", 1),
			input.Options{OneForAll: true}, "Ray left out calls (1 line with"},
		"two jobs": {one + strings.ReplaceAll(one, "h:0", "h:1") + strings.ReplaceAll(one, "h:0", "h:2") +
			strings.ReplaceAll(one, "h:0", "h:3"), input.Options{},
			"has 3 ranks and the log has calls of 4: give the log of one job"},
		"not for all": {one, input.Options{}, "the log is of one of 3 ranks"},
		"not the same": {one + strings.ReplaceAll(strings.ReplaceAll(one, "h:0", "h:1"), "count 1", "count 2"),
			input.Options{OneForAll: true},
			"the log has calls of 2 of 3 ranks, and those of h:0 and h:1 differ"},
		"nothing in common": {one + strings.ReplaceAll(strings.ReplaceAll(one, "h:0", "h:1"), "opCount 0", "opCount 1"),
			input.Options{OneForAll: true},
			"no call is in the logs of all 2 ranks that were recorded, of 3"},
		"a part of the ranks": {strings.ReplaceAll(one+strings.ReplaceAll(one, "h:0", "h:1"), "AllReduce", "Send"),
			input.Options{OneForAll: true}, "has 3 ranks and the log has calls of 2"},
		"a group": {one + strings.ReplaceAll(one, "h:0:0", "h:8:8") +
			callLine(8, "AllReduce", 0, 1, 7, 0, 0, "0x2", 2, "0x0"), input.Options{OneForAll: true},
			"has 3 ranks and the log has calls of 2"},
		"missing": {one + strings.ReplaceAll(one, "h:0", "h:1"), input.Options{},
			"a communicator has 3 ranks and the log has calls of 2: give the logs of all ranks, or the log of one alone, or the whole log if it was cut"},
		"type": {strings.Replace(one, "datatype 7", "datatype 70", 1), input.Options{OneForAll: true},
			"log0:1: AllReduce: datatype 70"},
		"no peer": {strings.Replace(strings.Replace(one, "AllReduce", "Send", 1), "root 0", "root -1", 1),
			input.Options{OneForAll: true}, "log0:1: Send: root -1 of 3 ranks"},
		"no root": {strings.Replace(strings.Replace(one, "AllReduce", "Reduce", 1), "root 0", "root -1", 1),
			input.Options{OneForAll: true}, "log0:1: Reduce: root -1 of 3 ranks"},
		"ranks": {strings.Replace(one, "nranks=3", "nranks=0", 1), input.Options{OneForAll: true},
			"a communicator of 0 ranks"},
		"function": {strings.Replace(one, "AllReduce", "Jump", 1), input.Options{OneForAll: true},
			`"Jump" is no collective`},
		"sends": {strings.Replace(one, "AllReduce", "Send", 1), input.Options{OneForAll: true},
			"the log has calls of one of 3 ranks, and with sends and receives the ranks do not do the same: give the logs of all ranks, or the whole log if this one was cut"},
	} {
		if _, err := read(test.o, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	w, err := read(input.Options{OneForAll: true}, one+one[:90]+"\n")
	if err != nil || len(w.Head.Source.Notes) != 1 ||
		w.Head.Source.Notes[0] != "1 line: left out, cut or mixed with another one" {
		t.Errorf("a cut line: %v %+v", err, w)
	}
}

// A log of some of the ranks, such as that of one node, is of all if all calls are collectives of all ranks, and the
// same. The lines are of the form of a job of 4 nodes, one GPU each, of which a log was cut on three (FSDP, NCCL 2.21).
func TestSomeRanks(t *testing.T) {
	one := func(label, host string, opCount int, name string, count int, comm string) string {
		return fmt.Sprintf(
			"%s: %s:278:278 [0] NCCL INFO %s: opCount %x sendbuff 0x93 recvbuff 0x96 count %d datatype 7 op 0 root 0 comm %s [nranks=4] stream 0x55\n", label, host, name, opCount, count, comm)
	}
	text := "2: node-0:309:309 [0] NCCL INFO AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008\n"
	for i, host := range []string{"node-3", "node-1", "node-2"} {
		for n := range 2 {
			text += one(fmt.Sprint(i+1), host, 0x1606+n, "AllGather", 2359808, "0x5"+fmt.Sprint(i))
		}
	}
	text += one("1", "node-3", 0x1608, "Broadcast", 3145, "0x50")
	w, err := read(input.Options{OneForAll: true}, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(w.Head.Ranks, " ", len(w.Ops), " ", w.Ops[1].Func, " ",
		w.Ops[1].Count); got != "4 2 AllGather 2359808" || w.Ops[0].Ranks != nil {
		t.Error(got)
	}
	missing, notes := strings.Join(w.Head.Source.Missing, "; "), strings.Join(w.Head.Source.Notes, "; ")
	if !strings.Contains(missing, "only 3 of 4 ranks were recorded: all 4 ranks are taken to do the same") ||
		notes != "communicator comm0: calls of opCount 1608 of rank 1 are not in its log: left out on all ranks; communicator comm0: calls of opCount 1608 of rank 2 are not in its log: left out on all ranks" {
		t.Errorf("%s; %s", missing, notes)
	}
	if _, err := read(input.Options{}, text); err == nil || !strings.Contains(err.Error(), "calls of 3") {
		t.Errorf("%v", err)
	}
}

// A process calls for all GPUs of its host, in one thread, and the other host was not recorded: each communicator is
// that of a rank. A rank with two communicators calls different things on them.
func TestSomeRanksOfOneProcess(t *testing.T) {
	text := func(counts ...int) (s string) {
		for n := range 2 {
			for comm, count := range counts {
				s += callLine(0, "AllReduce", n, count, 7, 0, 0, fmt.Sprintf("0xa%d", comm), 4,
					fmt.Sprintf("0x5%d", comm))
			}
		}
		return s
	}
	for _, tc := range []struct {
		counts  []int
		ops     int
		missing string
	}{
		{[]int{8, 8}, 2,
			"which communicators are of one rank: those of a thread that have the same calls are taken to be of different ranks; only 2 of 4 ranks"},
		{[]int{8, 9}, 4, "only one rank was recorded"},
	} {
		w, err := read(input.Options{OneForAll: true}, text(tc.counts...))
		if err != nil {
			t.Fatal(err)
		}
		if missing := strings.Join(w.Head.Source.Missing, "; "); len(w.Ops) != tc.ops ||
			!strings.Contains(missing, tc.missing) {
			t.Errorf("%v: %d operations; %s", tc.counts, len(w.Ops), missing)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(job())
	f.Add("[2025-01-02 10:00:00.500] " + callLine(0, "AllReduce", 0, 1, 7, 9, 0, "0x1", 2, "0x0"))
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(input.Options{OneForAll: true}, text)
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}

// Warnings of NCCL are counted: what they are about may be missing.
func TestWarnings(t *testing.T) {
	line := "h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x9 count 8 datatype 7 op 0 root 0 comm 0xa00 [nranks=1] stream 0x5\n"
	w, err := Read([]input.File{input.Bytes("x", []byte(line+"h:1:1 [0] init.cc:12 NCCL WARN no memory\n"))},
		input.Options{OneForAll: true})
	if err != nil || !slices.Contains(w.Head.Source.Notes, "1 line: a warning of NCCL; see the log") {
		t.Errorf("%v, %+v", err, w)
	}
}

// A communicator of one rank is that of its caller, also without a line of INIT, with several of them, and in the log
// of one rank for all.
func TestCommunicatorOfOneRank(t *testing.T) {
	var logs []string
	for r := range 2 {
		logs = append(logs, initLine(r, "0x1", r, 2, "0xa")+callLine(r, "AllReduce", 0, 4, 7, 0, 0, "0x1", 2, "0x0")+
			callLine(r, "AllReduce", 0, 5, 7, 0, 0, "0x2", 1, "0x0")+callLine(r, "AllGather", 0, 6, 7, 0, 0, "0x3", 1,
			"0x0"))
	}
	// NCCL may give the parts of a split the same id.
	sameID := strings.Join(logs, "")
	for r := range 2 {
		sameID = initLine(r, "0x2", 0, 1, "0xb") + sameID
	}
	withoutLargest := strings.ReplaceAll(strings.Join(logs, ""), "[nranks=2]", "[nranks=1]")
	withoutLargest = strings.Join(slices.DeleteFunc(strings.SplitAfter(withoutLargest, "\n"),
		func(l string) bool { return strings.Contains(l, "Init COMPLETE") }), "")
	for name, test := range map[string]struct {
		o     input.Options
		files []string
		want  string // communicators, or the end of an error
	}{
		"all ranks":   {input.Options{}, logs, "comm0 [0 1],comm1 [0],comm2 [0],comm3 [1],comm4 [1]"},
		"the same id": {input.Options{}, []string{sameID}, "comm0 [0],comm1 [0 1],comm2 [0],comm3 [1],comm4 [1]"},
		"one rank for all": {input.Options{OneForAll: true}, logs[1:],
			"comm0 [0 1],comm1 [0],comm1 [1],comm2 [0],comm2 [1]"},
		"one process": {input.Options{}, []string{callLine(3, "AllReduce", 0, 5, 7, 0, 0, "0x2", 1, "0x0")},
			"comm0 [0]"},
		"only such": {input.Options{}, []string{withoutLargest},
			"2 processes or GPUs have communicators of one rank and no other, so each is a job of its own: give the log of one"},
	} {
		w, err := read(test.o, test.files...)
		if err != nil {
			if !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var got []string
		for _, c := range w.Head.Comms {
			got = append(got, c.Name+" "+fmt.Sprint([]int(c.Ranks)))
		}
		if text := strings.Join(got, ","); text != test.want {
			t.Errorf("%s: communicators: %s", name, text)
		}
		if err := w.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.Index(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
