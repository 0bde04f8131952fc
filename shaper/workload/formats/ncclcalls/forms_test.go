// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// inOneProcess is the log of a process with n GPUs whose one thread makes all calls: the device in brackets is that
// which is current, which is the first one, later the last one.
func inOneProcess(n int, init bool) string {
	var b strings.Builder
	for r := range n {
		if init {
			fmt.Fprintf(&b,
				"h:10:%d [%d] NCCL INFO ncclCommInitAll comm 0xa%d rank %d nranks %d cudaDev %d nvmlDev %d busId 7000 commId 0x54fe - Init START\n", 20+r, r, r, r, n, r, r)
			fmt.Fprintf(&b,
				"h:10:%d [%d] NCCL INFO ncclCommInitAll comm 0xa%d rank %d nranks %d cudaDev %d nvmlDev %d busId 7000 commId 0x54fe - Init COMPLETE\n", 20+r, r, r, r, n, r, r)
		}
	}
	for opCount := range 2 {
		for r := range n {
			fmt.Fprintf(&b,
				"h:10:10 [%d] NCCL INFO AllReduce: opCount %x sendbuff 0x7 recvbuff 0x9 count %d datatype 7 op 0 root 0 comm 0xa%d [nranks=%d] stream 0x5%d\n",
				opCount*(n-1), opCount, 100+opCount, r, n, r)
		}
	}
	return b.String()
}

func TestOneProcessWithManyGPUs(t *testing.T) {
	const each = "comm0:AllReduce100 comm0:AllReduce101"
	for name, text := range map[string]string{"INIT": inOneProcess(4, true),
		"no INIT": strings.ReplaceAll(inOneProcess(4, false), "[3]", "[0]")} {
		got, notes := callsOf(t, text)
		if d := cmp.Diff([]string{each, each, each, each}, got); d != "" || notes != "" {
			t.Errorf("%s: %q %s", name, notes, d)
		}
	}
	// Two hosts with two GPUs each, in one process each.
	two := inOneProcess(2, true)
	four := strings.ReplaceAll(strings.ReplaceAll(two, "nranks 2", "nranks 4"), "nranks=2", "nranks=4")
	other := strings.NewReplacer("h:10:", "g:10:", "rank 0", "rank 2", "rank 1", "rank 3").Replace(four)
	got, notes := callsOf(t, four+other)
	if d := cmp.Diff([]string{each, each, each, each}, got); d != "" || notes != "" {
		t.Errorf("two hosts: %q %s", notes, d)
	}
}

// Without a line of INIT, the current device tells the GPUs of a process apart if each has a thread.
func TestThreadPerGPU(t *testing.T) {
	text := strings.ReplaceAll(inOneProcess(2, false), "h:10:10 [1]", "h:10:10 [0]")
	text = strings.ReplaceAll(text,
		"h:10:10 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x9 count 100 datatype 7 op 0 root 0 comm 0xa1", "h:10:11 [1] NCCL INFO AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x9 count 100 datatype 7 op 0 root 0 comm 0xa1")
	got, _ := callsOf(t, text)
	if d := cmp.Diff([]string{"comm0:AllReduce100 comm0:AllReduce101", "comm0:AllReduce100 comm0:AllReduce101"},
		got); d != "" {
		t.Error(d)
	}
}

// The parts of a line may come with those of others: nccl-tests prints a row without its end, and two ranks write to
// one standard output.
func TestMixedLines(t *testing.T) {
	call := func(pid, opCount int) string {
		return strings.TrimSuffix(callLine(pid, "AllReduce", opCount, 8, 7, 0, 0, fmt.Sprintf("0x55%d", pid), 2,
			"0x5a0"), "\n")
	}
	init := initLine(0, "0x550", 0, 2, "0xabc") + initLine(1, "0x551", 1, 2, "0xabc")
	cutAt := func(line, at string) (string, string) { i := strings.Index(line, at); return line[:i], line[i:] }
	begin, rest := cutAt(call(0, 2), "vbuff")
	for name, tc := range map[string]struct {
		text, note string
	}{
		"row before": {"     8388608       2097152     float     sum      -1" + call(0, 0) + "\n" + call(1, 0) +
			"\n    83.33  100.66  100.66      0" + call(0, 1) + "\n" + call(1, 1) + "\n" + call(0, 2) + "\n" +
			call(1, 2) + "\n", ""},
		"two in a line": {call(0, 0) + call(1, 0) + "\n\n" + call(0, 1) + "\n" + call(1, 1) + "\n" + call(0, 2) +
			"\n" + call(1, 2) + "\n", ""},
		"within another": {call(0, 0) + "\n" + call(1, 0) + "\n" + call(0, 1) + "\n" + call(1, 1) + "\n" + begin +
			call(1, 2) + "\n" + rest + "\n", ""},
		"launchers": {"0: " + call(0, 0) + "\n1: " + call(1, 0) + "\n(W pid=1, ip=1.2.3.4) " + call(0, 1) +
			"\n2024-09-18T10:00:00.1Z " + call(1, 1) + "\n[1,0]<stdout>:" + call(0, 2) + "\nnode1 | " + call(1, 2) +
			"\n", ""},
		"RCCL": {
			strings.ReplaceAll(strings.ReplaceAll(call(0, 0)+"\n"+call(1, 0)+"\n"+call(0, 1)+"\n"+call(1, 1)+"\n"+
				call(0, 2)+"\n"+call(1, 2)+"\n", "INFO ", "INFO [2] "), "0x5a0", "0x5a0 task 0 globalrank 0"), ""},
		"2.4 and acc": {strings.ReplaceAll(call(0, 0)+"\n"+call(1, 0)+"\n"+call(0, 1)+"\n"+call(1, 1)+"\n"+
			call(0, 2)+"\n"+call(1, 2)+"\n", " count", " acc (nil) count"), ""},
		"lost": {call(0, 0) + "\n" + call(1, 0) + "\n" + call(0, 1) + "\n" + call(1, 1) + "\n" + call(0, 2) +
			"\n" + call(1, 2) + "\n" + begin + "\nhello\n",
			"1 line: left out, cut or mixed with another one; 1 line: not of NCCL"},
	} {
		const each = "comm0:AllReduce8 comm0:AllReduce8 comm0:AllReduce8"
		got, notes := callsOf(t, init+tc.text)
		if d := cmp.Diff([]string{each, each}, got); d != "" || notes != tc.note {
			t.Errorf("%s: %q %s", name, notes, d)
		}
	}
}

// An address is used again when a communicator was destroyed.
func TestAddressUsedAgain(t *testing.T) {
	var texts []string
	for r := range 2 {
		s := initLine(r, "0x55a", r, 2, "0xa") + callLine(r, "AllReduce", 0, 1, 7, 0, 0, "0x55a", 2, "0x1")
		s += fmt.Sprintf("h:%d:9 [0] NCCL INFO comm 0x55a rank %d nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n",
			r, r)
		s += initLine(r, "0x55a", r, 2, "0xb") + callLine(r, "AllReduce", 0, 2, 7, 0, 0, "0x55a", 2, "0x1")
		texts = append(texts, s)
	}
	got, notes := callsOf(t, texts...)
	if d := cmp.Diff([]string{"comm0:AllReduce1 comm1:AllReduce2", "comm0:AllReduce1 comm1:AllReduce2"},
		got); d != "" || notes != "" {
		t.Errorf("%q %s", notes, d)
	}
}

// If the line of its end or that of the new one is lost, the other one tells.
func TestAddressUsedAgainWithLostLines(t *testing.T) {
	for _, lost := range []string{"Destroy COMPLETE", "commId 0xb "} {
		var texts []string
		for r := range 2 {
			s := initLine(r, "0x55a", r, 2, "0xa") + callLine(r, "AllReduce", 0, 1, 7, 0, 0, "0x55a", 2, "0x1")
			s += fmt.Sprintf(
				"h:%d:9 [0] NCCL INFO comm 0x55a rank %d nranks 2 cudaDev 0 busId 1b000 - Destroy COMPLETE\n", r, r)
			s += initLine(r, "0x55a", r, 2, "0xb") + callLine(r, "AllReduce", 0, 2, 7, 0, 0, "0x55a", 2, "0x1")
			text := ""
			for line := range strings.Lines(s) {
				if !strings.Contains(line, lost) {
					text += line
				}
			}
			texts = append(texts, text)
		}
		got, notes := callsOf(t, texts...)
		if d := cmp.Diff([]string{"comm0:AllReduce1 comm1:AllReduce2", "comm0:AllReduce1 comm1:AllReduce2"},
			got); d != "" || notes != "" {
			t.Errorf("without %s: %q %s", lost, notes, d)
		}
	}
}

// split is the line of NCCL 2.26 to 2.30 of a part of a communicator: it has no id.
func split(pid int, comm string, rank, size int, parent string, number, color int) string {
	return fmt.Sprintf(
		"h:%d:9 [0] NCCL INFO ncclCommSplit comm %s rank %d nranks %d cudaDev %d nvmlDev 0 busId 1b000 parent %s splitCount %d color %d key 0 - Init COMPLETE\n",
		pid, comm, rank, size, pid%8, parent, number, color)
}

func TestSplits(t *testing.T) {
	var logs, sameID []string
	for r := range 4 {
		world := initLine(r, "0x1", r, 4, "0xa") + callLine(r, "AllReduce", 0, 1, 7, 0, 0, "0x1", 4, "0x0")
		s := world + split(r, "0x2", r/2, 2, "0x1", 1, r%2) + callLine(r, "AllGather", 0, 2, 7, 0, 0, "0x2", 2, "0x0")
		s += split(r, "0x3", r%2, 2, "0x1", 2, r/2) + callLine(r, "AllGather", 0, 3, 7, 0, 0, "0x3", 2, "0x0")
		logs = append(logs, s)
		s = world + initLine(r, "0x2", r/2, 2, fmt.Sprintf("0xc%d", r%2)) + callLine(r, "AllGather", 0, 2, 7, 0, 0,
			"0x2", 2, "0x0")
		s += initLine(r, "0x3", r%2, 2, fmt.Sprintf("0xc%d", r/2)) + callLine(r, "AllGather", 0, 3, 7, 0, 0, "0x3", 2,
			"0x0")
		sameID = append(sameID, s)
	}
	var late []string // without the lines of INIT of the whole
	for _, text := range logs {
		_, rest, _ := strings.Cut(text, "\n")
		late = append(late, rest)
	}
	for name, logs := range map[string][]string{"whole": logs, "late": late} {
		w, err := read(input.Options{}, logs...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range w.Head.Comms {
			got = append(got, c.Name+" "+fmt.Sprint([]int(c.Ranks)))
		}
		if text := strings.Join(got, ","); text != "comm0 [0 1 2 3],comm1 [0 2],comm2 [0 1],comm3 [1 3],comm4 [2 3]" {
			t.Errorf("%s: communicators: %s", name, text)
		}
	}
	if _, err := read(input.Options{}, sameID[0], sameID[1]); err == nil {
		t.Error("two of four logs were enough")
	}
}

// A rank whose log has no call of a communicator has none that the others have.
func TestNoCallsOfAPart(t *testing.T) {
	var logs []string
	for r := range 4 {
		s := initLine(r, "0x1", r, 4, "0xa") + initLine(r, "0x2", r/2, 2, fmt.Sprintf("0xb%d", r%2)) +
			callLine(r, "AllReduce", 0, 1, 7, 0, 0, "0x1", 4, "0x0")
		if r != 2 {
			s += callLine(r, "AllGather", 0, 2, 7, 0, 0, "0x2", 2, "0x0")
		}
		logs = append(logs, s)
	}
	got, notes := callsOf(t, logs...)
	want := []string{"comm0:AllReduce1", "comm0:AllReduce1 comm2:AllGather2", "comm0:AllReduce1",
		"comm0:AllReduce1 comm2:AllGather2"}
	if d := cmp.Diff(want, got); d != "" ||
		notes != "communicator comm1: calls of opCount 0 of rank 2 are not in its log: left out on all ranks" {
		t.Errorf("%q %s", notes, d)
	}
}

// Without the line of INIT of a rank, that rank is the one that is left; a note says so. A call of another function is
// counted.
func TestWithoutInit(t *testing.T) {
	second := callLine(1, "Broadcast", 0, 1, 7, 0, 0, "0x1", 2, "0x0") + callLine(1, "PutSignal", 0, 1, 7, 0, 0, "0x1",
		2, "0x0")
	first := initLine(0, "0x1", 0, 2, "0xa") + callLine(0, "Broadcast", 0, 1, 7, 0, 0, "0x1", 2, "0x0")
	w, err := read(input.Options{}, second, first)
	if err != nil {
		t.Fatal(err)
	}
	missing := strings.Join(w.Head.Source.Missing, "; ")
	if notes := strings.Join(w.Head.Source.Notes,
		"; "); notes != "1 call of PutSignal: left out, no collective, send or receive" ||
		!strings.HasSuffix(missing,
			"; the rank of 1 process: no line of INIT says it, so they are in the order of the log") {
		t.Errorf("%s; %s", notes, missing)
	}
}

// Without a line of INIT, ranks are the numbers of the GPUs where these tell the processes of one host apart; else
// they are in the order of the log. Two ranks that have messages are those that are not each other's peers.
func TestRanksWithoutInit(t *testing.T) {
	const form = "%s:%d:%d [%d] NCCL INFO %s: opCount 0 sendbuff 0x7f recvbuff 0x9f count %d datatype 7 op 0 root %d comm 0x%d [nranks=%d] stream 0x1\n"
	// three are processes on GPUs of hosts. The first one sends to the second one, which are the ranks from and to.
	three := func(hosts string, devices [3]int, from, to int) (text string) {
		for i, device := range devices {
			text += fmt.Sprintf(form, hosts[i:i+1], i, i, device, "Gather", 5, 0, 1, 3)
		}
		return text + fmt.Sprintf(form, hosts[:1], 0, 0, devices[0], "Send", 4, to, 1, 3) +
			fmt.Sprintf(form, hosts[1:2], 1, 1, devices[1], "Recv", 4, from, 1, 3)
	}
	for _, test := range []struct {
		name, text, want, how string
	}{
		{"GPUs in another order", three("hhh", [3]int{2, 1, 0}, 2, 1),
			"comm0:Gather5 | comm0:Gather5 comm0:recv4@2 | comm0:Gather5 comm0:send4@1",
			"so it is the number of its GPU"},
		{"on several hosts", three("abc", [3]int{1, 0, 2}, 0, 1),
			"comm0:Gather5 comm0:send4@1 | comm0:Gather5 comm0:recv4@0 | comm0:Gather5",
			"so they are in the order of the log"},
		{"the same GPU", three("hhh", [3]int{0, 0, 0}, 0, 1),
			"comm0:Gather5 comm0:send4@1 | comm0:Gather5 comm0:recv4@0 | comm0:Gather5",
			"so they are in the order of the log"},
		{"one thread for two GPUs", fmt.Sprintf(form, "h", 1, 1, 1, "Send", 4, 0, 1, 2) +
			fmt.Sprintf(form, "h", 1, 1, 1, "Recv", 4, 1, 2, 2),
			"comm0:recv4@1 | comm0:send4@0", "so it is the one that its messages do not go to"},
		{"messages against the numbers of the GPUs", fmt.Sprintf(form, "h", 1, 1, 0, "Recv", 4, 0, 1, 2) +
			fmt.Sprintf(form, "h", 2, 2, 1, "Send", 4, 1, 1, 2),
			"comm0:send4@1 | comm0:recv4@0", "so it is the one that its messages do not go to"},
		{"messages to itself too", fmt.Sprintf(form, "h", 1, 1, 0, "Send", 4, 0, 1, 2) +
			fmt.Sprintf(form, "h", 1, 1, 0, "Recv", 4, 0, 1, 2) +
			fmt.Sprintf(form, "h", 1, 1, 0, "Send", 4, 1, 1, 2) + fmt.Sprintf(form, "h", 1, 1, 0, "Recv", 4, 1, 1, 2) +
			fmt.Sprintf(form, "h", 2, 2, 1, "Send", 4, 0, 1, 2) + fmt.Sprintf(form, "h", 2, 2, 1, "Recv", 4, 0, 1, 2) +
			fmt.Sprintf(form, "h", 2, 2, 1, "Send", 4, 1, 1, 2) + fmt.Sprintf(form, "h", 2, 2, 1, "Recv", 4, 1, 1, 2),
			"comm0:send4@0 comm0:recv4@0 comm0:send4@1 comm0:recv4@1 | comm0:send4@0 comm0:recv4@0 comm0:send4@1 comm0:recv4@1",
			"so it is the number of its GPU"},
		{"RCCL says the rank", strings.ReplaceAll(fmt.Sprintf(form, "h", 1, 1, 0, "Send", 4, 0, 1, 2), "0x1\n",
			"0x1 task 0 globalrank 1\n") +
			strings.ReplaceAll(fmt.Sprintf(form, "h", 2, 2, 1, "Recv", 4, 1, 1, 2), "0x1\n",
				"0x1 task 0 globalrank 0\n"),
			"comm0:recv4@1 | comm0:send4@0", "they follow each other on their streams"},
	} {
		got, notes := callsOf(t, test.text)
		w, err := read(input.Options{}, test.text)
		if err != nil {
			t.Fatal(err)
		}
		if how := w.Head.Source.Missing[len(w.Head.Source.Missing)-1]; strings.Join(got, " | ") != test.want ||
			notes != "" || !strings.HasSuffix(how, test.how) {
			t.Errorf("%s: %s; %s; %s", test.name, strings.Join(got, " | "), notes, how)
		}
	}
}

// Up to 2.17 NCCL printed no id: the communicators of all ranks are told apart by their order.
func TestSeveralWithoutID(t *testing.T) {
	var logs []string
	for r := range 2 {
		s := ""
		for k := range 2 {
			s += fmt.Sprintf("h:%d:9 [0] NCCL INFO comm 0x%d rank %d nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE\n",
				r, k+1, r)
		}
		for n := range 2 {
			s += callLine(r, "AllReduce", n, 10+n, 7, 0, 0, "0x1", 2, "0x0") + callLine(r, "AllReduce", n, 20+n, 7, 0,
				0, "0x2", 2, "0x0")
		}
		logs = append(logs, s)
	}
	const each = "comm0:AllReduce10 comm1:AllReduce20 comm0:AllReduce11 comm1:AllReduce21"
	got, notes := callsOf(t, logs...)
	if d := cmp.Diff([]string{each, each}, got); d != "" || notes != "" {
		t.Errorf("%q %s", notes, d)
	}
}

// What a wrapper of lines puts behind the last value is not of it: the calls are on one stream.
func TestStream(t *testing.T) {
	const text = "AllReduce: opCount 0 sendbuff 0x7f recvbuff 0x9f count 8 datatype 7 op 0 root 0 comm 0xa0 [nranks=2] stream "
	for end, want := range map[string]string{
		"0xac": "0xac", "(nil)": "(nil)", `0xac", "time": "10:00:01"}`: "0xac",
		`0xac\n","stream":"stdout","time":"1"}`: "0xac", "0xac task 0 globalrank 1": "0xac",
		"0x": "", "": "",
	} {
		if c, ok := parseCall(text + end); c.stream != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", end, c.stream, ok)
		}
	}
}

// What launchers, RCCL, terminals and grep put around and into a line does not change the calls. The forms are those
// of logs in public issues and of the launchers' documentation.
func TestLaunchers(t *testing.T) {
	const line = "%s:%d:%d [%d] %sNCCL INFO AllReduce: opCount %x sendbuff 0x7f recvbuff 0x9f count %d datatype 7 op 0 root 0 comm %s [nranks=2] stream 0xac%s"
	job := func(prefix, stamp, ending string) string {
		var b strings.Builder
		for i := range 3 {
			for r, host := range []string{"nodea", "nodeb"} {
				before := strings.ReplaceAll(prefix, "%", fmt.Sprint(r))
				fmt.Fprintf(&b, before+line, host, 100+r, 100+r, r, stamp, i, 100+i, []string{"0xa0", "0xb0"}[r],
					strings.ReplaceAll(ending, "%", fmt.Sprint(r)))
			}
		}
		return b.String()
	}
	forms := map[string]string{
		"RCCL":            job("", "", " task 0 globalrank %\n"),
		"RCCL with times": job("", "1558545003174220 ", "\n"),
		"Windows":         job("", "", "\r\n"),
		"Docker":          job(`{"log":"`, "", `\n","stream":"stdout","time":"2024-09-18T10:00:00.12345678%Z"}`+"\n"),
		"quoted in JSON":  job(`{"message": "`, "", `", "time": "2024-09-18T10:00:00.12345678%Z"}`+"\n"),
		"grep --color":    strings.ReplaceAll(job("", "", "\n"), "AllReduce", "\x1b[01;31m\x1b[KAllReduce\x1b[m\x1b[K"),
		"colours":         strings.ReplaceAll(job("\x1b[32m", "", "\x1b[0m\n"), "INFO", "\x1b[1;34mINFO\x1b[0m"),
	}
	for name, prefix := range map[string]string{
		"mpirun --tag-output": "[1,%]<stdout>:", "mpirun 5": "[1,%]<stdout>: ",
		"mpirun --timestamp-output": "Thu Nov 26 18:00:00 2026[1,%]<stdout>:",
		"srun -l":                   " %: ", "pdsh": "node-%: ", "kubectl --prefix": "[pod/job-worker-%/pytorch] ",
		"compose":        "worker-%-1  | ",
		"torchrun --tee": "[default%]:", "Ray": "\x1b[36m(RayTrainWorker pid=61%, ip=10.72.7.6)\x1b[0m ",
		"CRI":       "2024-02-22T23:29:00.123456789Z stderr F ",
		"NCCL 2.28": "[2026-05-13 18:01:41] ", "quoted": "> ", "tab": "\t",
	} {
		forms[name] = job(prefix, "", "\n")
	}
	const each = "comm0:AllReduce100 comm0:AllReduce101 comm0:AllReduce102"
	for name, text := range forms {
		got, notes := callsOf(t, text)
		if d := cmp.Diff([]string{each, each}, got); d != "" || notes != "" {
			t.Errorf("%s: %q %s", name, notes, d)
		}
	}
}
