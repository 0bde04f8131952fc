// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/ddlemu/ddlemu/intercept/capture/roce"
	"github.com/ddlemu/ddlemu/test/needs"
)

// wireshark is a capture file, read by tshark with the dissector that ddlemu ships.
type wireshark struct {
	*testing.T
	file, dissector string
}

func (w *wireshark) tshark(args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), needs.Optional(w, "tshark"),
		append([]string{"-r", w.file, "-X", "lua_script:" + w.dissector}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+w.TempDir()) // no settings of the user's
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("tshark %q: %v", args, err)
	}
	return string(out)
}

// count is how many packets a display filter finds.
func (w *wireshark) count(filter string) int { return strings.Count(w.tshark("-Y", filter), "\n") }

// capture records a job and writes its packets. again is how many ddlemu says it sent again.
func capture(t *testing.T, args ...string) (w *wireshark, sent []message, again int) {
	t.Helper()
	dir := record(t, args...)
	w = &wireshark{t, filepath.Join(t.TempDir(), "x.pcapng"), filepath.Join(t.TempDir(), "ddlemu.lua")}
	ddlemu(t, "capture", "--dissector", "-o", w.dissector)
	out := ddlemu(t, "capture", dir, "-o", w.file)
	m := regexp.MustCompile(`(\d+) packets of (\d+) messages, (\d+) sent again`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("%s", out)
	}
	again, _ = strconv.Atoi(m[3])
	return w, messagesOf(t, dir), again
}

// tshark finds every message once, and as many losses as there were.
func TestTsharkReadsRoCE(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		coll  string
		lossy bool
	}{
		"alltoall": {[]string{"alltoall", "--profile", "ndr400", "--ranks", "4", "-b", "1M", "-e", "1M"},
			"AllToAll", false},
		"go-back-N": {[]string{"allreduce", "--profile", "ndr400", "--set", "link.loss=0.5%", "--ranks", "3", "-b", "64K",
			"-e", "4M", "-f", "64"}, "AllReduce", true},
		"selective repeat": {[]string{"allreduce", "-F", "selective.yaml", "--ranks", "2", "-b", "4M", "-e", "4M"},
			"AllReduce", true},
	} {
		t.Run(name, func(t *testing.T) {
			for i, arg := range tc.args {
				if arg == "selective.yaml" {
					tc.args[i] = filepath.Join(t.TempDir(), arg)
					if err := os.WriteFile(tc.args[i],
						[]byte(
							"base: ndr400\nnodes: 2\nlink:\n  loss: 0.5%\ntransport:\n  kind: rdma\n  recovery: selective-repeat\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			w, sent, again := capture(t, append(tc.args, "-n", "3", "-w", "1")...)
			if n := w.count("_ws.malformed"); n != 0 {
				t.Errorf("%d malformed packets", n)
			}
			if n := w.count(fmt.Sprintf(`ddlemu.coll == "%s" && ddlemu.kind == "data" && infiniband.bth.opcode == 11`,
				tc.coll)); n != len(sent) {
				t.Errorf("%d messages, %d were sent", n, len(sent))
			}
			if n := w.count(`ddlemu.kind == "ack" && infiniband.aeth.syndrome.opcode == 0`); n != len(sent) {
				t.Errorf("%d acknowledgements of %d messages", n, len(sent))
			}
			naks, repeats := w.count(`infiniband.aeth.syndrome.opcode == 3`), w.count(`ddlemu.kind == "repeat"`)
			if repeats != again || (again > 0) != tc.lossy || (naks > 0) != tc.lossy || naks > repeats {
				t.Errorf("%d NAKs, %d packets again, ddlemu says %d", naks, repeats, again)
			}
			setups := strings.Count(w.tshark(), "CM: ConnectRequest")
			if setups == 0 || setups != strings.Count(w.tshark(), "CM: ConnectReply") ||
				setups != strings.Count(w.tshark(), "CM: ReadyToUse") {
				t.Errorf("%d connections are set up", setups)
			}
			bytes := uint64(0)
			for _, m := range sent {
				bytes += m.Bytes
			}
			lengths := uint64(0)
			for _, field := range strings.Fields(w.tshark("-Y", "infiniband.reth.dmalen", "-T", "fields", "-e",
				"infiniband.reth.dmalen")) {
				n, err := strconv.ParseUint(field, 0, 64)
				if err != nil {
					t.Fatal(err)
				}
				lengths += n
			}
			if lengths != bytes {
				t.Errorf("%d bytes, %d were sent", lengths, bytes)
			}
		})
	}
}

// tshark's analysis of TCP finds as many retransmissions as there were, and nothing else that is wrong.
func TestTsharkReadsTCP(t *testing.T) {
	for name, loss := range map[string]string{"lossless": "0%", "lossy": "0.5%"} {
		t.Run(name, func(t *testing.T) {
			w, sent, again := capture(t, "allreduce", "--profile", "eth10", "--clock", "virtual", "--set", "link.loss="+loss,
				"--ranks", "3", "-b", "1M", "-e", "1M", "-n", "3", "-w", "1")
			for _, filter := range []string{"_ws.malformed", "tcp.analysis.out_of_order", "tcp.analysis.lost_segment",
				"tcp.analysis.ack_lost_segment", "tcp.analysis.window_full", "tcp.analysis.spurious_retransmission",
				"tcp.checksum.status == 0"} {
				if n := w.count(filter); n != 0 {
					t.Errorf("%d packets with %s", n, filter)
				}
			}
			if n := w.count("tcp.analysis.retransmission"); n != again || (again > 0) != (name == "lossy") {
				t.Errorf("%d retransmissions, ddlemu says %d", n, again)
			}
			found := map[string]bool{}
			payload := uint64(0)
			for _, line := range strings.Split(strings.TrimSpace(w.tshark("-Y", `ddlemu.kind == "data"`, "-T", "fields",
				"-e", "tcp.stream", "-e", "ddlemu.message", "-e", "tcp.len")), "\n") {
				f := strings.Fields(line)
				found[f[0]+" "+f[1]] = true
				n, _ := strconv.ParseUint(f[2], 10, 64)
				payload += n
			}
			bytes := uint64(0)
			for _, m := range sent {
				bytes += m.Bytes
			}
			if len(found) != len(sent) || payload != bytes {
				t.Errorf("%d messages with %d bytes, sent were %d with %d", len(found), payload, len(sent), bytes)
			}
			if syn := w.count("tcp.flags.syn == 1 && tcp.flags.ack == 0"); syn == 0 ||
				w.count("tcp.flags.syn == 1") != 2*syn {
				t.Errorf("%d connections", syn)
			}
		})
	}
}

// gopacket reads the files, with the layer of RoCEv2; times do not go back, and sequence numbers go on.
func TestGopacketReadsCaptures(t *testing.T) {
	w, sent, _ := capture(t, "alltoall", "--profile", "ndr400", "--ranks", "3", "-b", "256K", "-e", "256K", "-n", "2")
	f, err := os.Open(w.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	next := map[uint32]uint32{} // PSN by queue pair
	writes := 0
	for last := int64(0); ; {
		data, info, err := r.ReadPacketData()
		if err != nil {
			break
		}
		if now := info.Timestamp.UnixNano(); now < last {
			t.Fatalf("%s comes after %d", info.Timestamp, last)
		} else {
			last = now
		}
		p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default)
		if e := p.ErrorLayer(); e != nil {
			t.Fatal(e.Error())
		}
		x, ok := p.Layer(roce.LayerType).(*roce.Packet)
		if !ok {
			t.Fatalf("no RoCEv2: %s", p)
		}
		if x.Opcode == roce.WriteOnlyImmediate {
			if x.PSN < next[x.DestQP] || x.Length == 0 {
				t.Fatalf("%+v, expected is PSN %d or more", x, next[x.DestQP])
			}
			next[x.DestQP] = x.PSN + 1
			writes++
		}
	}
	if writes != len(sent) || r.NInterfaces() != 3 {
		t.Errorf("%d writes of %d messages, %d interfaces", writes, len(sent), r.NInterfaces())
	}
}
