// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"

	"github.com/ddlemu/ddlemu/shaper/nccl/debuglog"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/chakra"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/nsys"
)

// Signs of text formats in the first bytes of a file. The first line of SimAI and ASTRA-sim names a parallelism, the
// second is a number of layers.
var (
	signNative = regexp.MustCompile(`"format"\s*:\s*"` + regexp.QuoteMeta(workload.Format))
	signET     = regexp.MustCompile(`"schema"\s*:\s*"[0-9]`)
	signKineto = regexp.MustCompile(`"(traceEvents|schemaVersion|deviceProperties|distributedInfo|ph)"\s*:`)
	signFlight = regexp.MustCompile(
		`"(entries|pg_config|pg_status|collective_seq_id|profiling_name|(nccl|comm_lib)_version)"\s*:`)
	signPickled = regexp.MustCompile(`entries|pg_config|profiling_name`)
	signInspect = regexp.MustCompile(`"(inspector_output_format_version|coll_perf|p2p_perf)"\s*:`)
	signNCCLEvt = regexp.MustCompile(
		`"cat"\s*:\s*"(GROUP_API|GROUP|COLL_API|COLL|P2P_API|P2P|PROXY|NET|KERNEL_LAUNCH)"|\A\[\s*\{\}\s*\]`)
	signGOAL  = regexp.MustCompile(`(?m)^\s*num_ranks\s+\d+`)
	signSimAI = regexp.MustCompile(`\A\s*[A-Z][A-Z_]+\b[^\r\n]*\r?\n\s*\d+\s*\r?\n`)
	signAICB  = regexp.MustCompile(`(?m)^comm_type,comm_group\b`)
	signOpCSV = regexp.MustCompile(
		`(?mi)\A(\s*#[^\n]*\n)*\s*(op\s*,\s*count\s*,\s*root|[a-z_]+\s*,\s*\d+\s*,\s*-?\d+)\s*$`)
	signNCCLLog = regexp.MustCompile(`(?m)NCCL INFO .*opCount [0-9a-f]+ .*count \d+ datatype \d+`)
)

// detect finds the format by the first bytes of a file, "" if it is none.
func detect(head []byte) Kind {
	text := bytes.TrimSpace(head)
	plain := []byte(debuglog.Plain(string(head)))
	switch {
	case len(text) == 0:
		return ""
	case nsys.Like(head):
		return Nsys
	case bytes.HasPrefix(text, []byte(debuglog.Wrapped)) && bytes.Contains(text, []byte(" NCCL INFO ")):
		return NCCLLog
	// a line of a log may begin with [ too
	case text[0] == '{' || text[0] == '[' && (signKineto.Match(text) || signNCCLEvt.Match(text)):
		switch {
		case signNative.Match(text):
			return Native
		case chakra.LikeJSON(text):
			return Chakra
		case signInspect.Match(text):
			return Inspector
		case signNCCLEvt.Match(text):
			return Profiler
		case signKineto.Match(text):
			return Kineto
		case signET.Match(text):
			return PyTorchET
		case chakra.Like(head): // its first message has 123 bytes
			return Chakra
		case text[0] == '{' && signFlight.Match(text):
			return FlightRec
		}
		return ""
	case pickled(head) && signPickled.Match(head):
		return FlightRec
	case signGOAL.Match(text):
		return GOAL
	case signSimAI.Match(head):
		return SimAI
	case signAICB.Match(head):
		return AICB
	case signOpCSV.Match(head):
		return OpCSV
	case signNCCLLog.Match(plain):
		return NCCLLog
	case chakra.Like(head):
		return Chakra
	case bytes.Contains(plain, []byte(" NCCL INFO ")):
		return NCCLLog
	}
	return ""
}

// detectLater finds the format by the keys of a JSON object and by what follows them, "" if it is none.
func detectLater(f input.File) Kind {
	in, err := f.Open()
	if err != nil {
		return ""
	}
	defer in.Close()
	d := in.JSON()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for n := 0; d.More() && n < searched; n++ {
		t, err := d.Token()
		name, isName := t.(string)
		if err != nil || !isName {
			return ""
		}
		key := fmt.Appendf(nil, "{%q", name)
		if detect(append(key, ':')) != "" {
			head := make([]byte, sniffed)
			n, _ := io.ReadFull(io.MultiReader(d.Buffered(), in), head)
			return detect(append(key, head[:n]...))
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return ""
		}
		if k := detect(append(append(key, ':'), value[:min(len(value), sniffed)]...)); k != "" {
			return k
		}
	}
	return ""
}

// pickled tells whether a file begins as a pickle of Python, of protocol 2 or later.
func pickled(head []byte) bool {
	return len(head) > 1 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5
}
