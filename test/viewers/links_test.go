// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// trunks is a fabric of two leaves with two nodes each, whose links mark packets above 64 KiB.
const trunks = `base: ndr400
name: trunks
nodes: 4
transport: %s
link: {bandwidth: 100Gbps, latency: 2us, ecn: 64K}
topology: {kind: leaf-spine, leaves: 2, spines: 1, trunk: {bandwidth: 50Gbps, latency: 1us, ecn: 64K}}
`

// counted is what a link or port counted while a job ran.
type counted struct {
	From, To  string // switches or nodes, of a link
	NIC       string // of a port
	Direction string
	Bytes     uint64
	Marked    uint64 `json:"ecn_marked"`
}

// recordCounted runs a benchmark on a fabric that is up, and returns the folder of its ledgers and the counters by the
// names of links and ports.
func recordCounted(t *testing.T, transport string, args ...string) (dir string, marks map[string]uint64) {
	t.Helper()
	work := t.TempDir()
	file := filepath.Join(work, "trunks.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(trunks, transport)), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		cmd := exec.Command(built.Path(t, "bin", "ddlemu"), args...)
		cmd.Env = append(built.Environ(), "DDLEMU_DIR="+filepath.Join(work, "fabrics"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("ddlemu %q: %v", args, err)
		}
		return out
	}
	run("up", "-f", file, "--clock", "virtual")
	defer run("down", "--fabric", "trunks")
	dir = filepath.Join(work, "t")
	run(append([]string{"bench"}, append(args, "--fabric", "trunks", "--trace", dir)...)...)
	var got struct{ Links, Ports []counted }
	if err := json.Unmarshal(run("status", "--fabric", "trunks", "--json"), &got); err != nil {
		t.Fatal(err)
	}
	marks = map[string]uint64{}
	for _, l := range got.Links {
		marks[l.From+":"+l.To] = l.Marked
	}
	for _, p := range got.Ports {
		marks[p.NIC+" "+p.Direction] = p.Marked
	}
	return dir, marks
}

// captureOf writes the packets of a trace.
func captureOf(t *testing.T, dir string, args ...string) *wireshark {
	t.Helper()
	w := &wireshark{t, filepath.Join(t.TempDir(), "x.pcapng"), filepath.Join(t.TempDir(), "ddlemu.lua")}
	ddlemu(t, "capture", "--dissector", "-o", w.dissector)
	ddlemu(t, append([]string{"capture", dir, "-o", w.file}, args...)...)
	if n := w.count("_ws.malformed"); n != 0 {
		t.Errorf("%d malformed packets", n)
	}
	return w
}

// fields are the values of fields in the packets that a display filter finds.
func (w *wireshark) fields(filter string, names ...string) (rows [][]string) {
	w.Helper()
	args := []string{"-Y", filter, "-T", "fields"}
	for _, name := range names {
		args = append(args, "-e", name)
	}
	for line := range strings.Lines(w.tshark(args...)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// number reads a value.
func (w *wireshark) number(text string) uint64 {
	w.Helper()
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// marksOf are the ECN marks of packets by interface.
func (w *wireshark) marksOf() map[string]uint64 {
	w.Helper()
	sums := map[string]uint64{}
	for _, row := range w.fields("ddlemu.marked", "frame.interface_name", "ddlemu.marked") {
		sums[row[0]] += w.number(row[1])
	}
	return sums
}

// messagesIn is how many messages have packets.
func (w *wireshark) messagesIn() int {
	w.Helper()
	found := map[string]bool{}
	for _, row := range w.fields(`ddlemu.kind == "data"`, "ip.src", "udp.srcport", "tcp.srcport", "ddlemu.message") {
		found[strings.Join(row, " ")] = true
	}
	return len(found)
}

// The marks in captures are those that the links counted while the job ran: at each link, and together at the NICs.
// Marked packets have CE behind the hop that marks them. A sender sees marks only if the transport reacts to them.
func TestTsharkSeesMarks(t *testing.T) {
	for name, transport := range map[string]string{"rdma": "{kind: rdma}", "tcp": "{kind: tcp}",
		"reno": "{kind: tcp, congestion: reno}"} {
		t.Run(name, func(t *testing.T) {
			dir, marks := recordCounted(t, transport, "alltoall", "--ranks", "4", "-b", "4M", "-e", "4M", "-n", "2",
				"-w", "1")
			sent := messagesOf(t, dir)
			w := captureOf(t, dir)
			together, all := uint64(0), uint64(0)
			for _, n := range w.marksOf() {
				together += n
			}
			for _, n := range marks {
				all += n
			}
			if together != all || all == 0 || w.messagesIn() != len(sent) {
				t.Errorf("%d marks, the links counted %d; %d messages of %d", together, all, w.messagesIn(), len(sent))
			}
			ece, cwr := w.count("tcp.flags.ece == 1 && tcp.flags.syn == 0"),
				w.count("tcp.flags.cwr == 1 && tcp.flags.syn == 0")
			if ce := w.count("ip.dsfield.ecn == 3"); ce != 0 || (ece > 0) != (name == "reno") ||
				(cwr > 0) != (name == "reno") || ece < cwr {
				t.Errorf("%d packets with CE at their senders, %d with ECE, %d with CWR", ce, ece, cwr)
			}
			w = captureOf(t, dir, "--link", "all")
			at := w.marksOf()
			for hop, n := range marks {
				if at[hop] != n {
					t.Errorf("%s: %d marks, counted %d", hop, at[hop], n)
				}
			}
			if w.messagesIn() != len(sent) {
				t.Errorf("%d messages of %d", w.messagesIn(), len(sent))
			}
			w.checkMarksStay()
		})
	}
}

// checkMarksStay checks that a packet has CE from the first hop that marks it on, and not before. With tcp a segment
// may be two packets at one time, and the first one tells its marks.
func (w *wireshark) checkMarksStay() {
	w.Helper()
	marked := map[string]bool{}
	before, last := "", ""
	for _, row := range w.fields(`ddlemu.kind == "data"`, "ip.dsfield.ecn", "ddlemu.marked", "ddlemu.hop",
		"frame.time_epoch", "ip.src", "infiniband.bth.destqp", "tcp.srcport", "infiniband.bth.psn", "tcp.seq") {
		segment, packet := strings.Join(row[2:7], " "), strings.Join(row[4:], " ")
		marked[packet] = marked[packet] || row[1] != "" || segment == before && marked[last]
		if (row[0] == "3") != marked[packet] {
			w.Fatalf("%q: marked before: %t", row, marked[packet])
		}
		before, last = segment, packet
	}
}

// checkOneByOne checks that the link of 50 Gb/s from leaf0 to spine0 sends one segment after the other at its rate, and
// that some have to wait. A segment of tcp may be two packets.
func (w *wireshark) checkOneByOne() {
	w.Helper()
	end, waits, last := uint64(0), 0, ""
	for _, row := range w.fields(`ddlemu.kind == "data"`, "frame.time_epoch", "frame.len", "ddlemu.wait",
		"frame.interface_name", "tcp.srcport") {
		at, duration := w.number(strings.Replace(row[0], ".", "", 1)), 8*w.number(row[1])/50
		if segment := row[0] + " " + row[4]; segment != last || row[4] == "" {
			if at < end {
				w.Fatalf("%q begins before %d, when what is before it has left the link", row, end)
			}
			end, last = at, segment
		}
		if end += duration; w.number(row[2]) > 0 {
			waits++
		}
		if row[3] != "leaf0:spine0" {
			w.Fatalf("%q", row)
		}
	}
	if waits == 0 {
		w.Error("nothing waits for a link of half the rate")
	}
}

// A link has the messages that cross it, in one segment after the other at its rate, and tshark finds nothing wrong.
func TestTsharkSeesLinks(t *testing.T) {
	for name, transport := range map[string]string{"rdma": "{kind: rdma}", "tcp": "{kind: tcp, congestion: cubic}"} {
		t.Run(name, func(t *testing.T) {
			dir, _ := recordCounted(t, transport, "alltoall", "--ranks", "4", "-b", "4M", "-e", "4M", "-n", "2", "-w",
				"1")
			up := 0
			for _, m := range messagesOf(t, dir) {
				if m.Sender < 2 && m.Receiver >= 2 {
					up++
				}
			}
			w := captureOf(t, dir, "--link", "leaf0>spine0")
			if n := w.messagesIn(); n != up || up == 0 {
				t.Errorf("%d messages, %d were sent to the other leaf", n, up)
			}
			if name == "rdma" {
				if n := w.count(`ddlemu.kind == "data" && infiniband.bth.opcode in {6, 11}`); n != up {
					t.Errorf("%d messages begin, %d were sent", n, up)
				}
			}
			w.checkOneByOne()
			for _, filter := range []string{"tcp.analysis.out_of_order", "tcp.analysis.lost_segment",
				"tcp.analysis.retransmission", "tcp.analysis.ack_lost_segment"} {
				if n := w.count(filter); n != 0 {
					t.Errorf("%d packets with %s", n, filter)
				}
			}
		})
	}
}
