// SPDX-License-Identifier: Apache-2.0

// Package formats reads and writes workloads in the formats of other tools. Each format is a package below.
package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/nsys"
)

// Kind is a format.
type Kind string

// The formats that can be read.
const (
	Kineto    Kind = "kineto"    // traces of PyTorch's profiler
	PyTorchET Kind = "pytorchet" // execution traces of PyTorch
	Chakra    Kind = "chakra"
	GOAL      Kind = "goal"
	SimAI     Kind = "simai" // text of SimAI, AICB and ASTRA-sim 1
	AICB      Kind = "aicb"  // AICB's CSV of calls
	OpCSV     Kind = "opcsv" // op,count,root
	NCCLLog   Kind = "nccllog"
	Nsys      Kind = "nsys"         // exports of Nsight Systems
	FlightRec Kind = "flightrec"    // dumps of PyTorch's flight recorder
	Inspector Kind = "inspector"    // records of NCCL Inspector
	Profiler  Kind = "ncclprofiler" // traces of NCCL's example profiler
)

// Kinds are all formats that can be read.
func Kinds() []Kind {
	return []Kind{
		Kineto, PyTorchET, FlightRec, Chakra, GOAL, SimAI, AICB, OpCSV, NCCLLog, Inspector, Profiler, Nsys,
	}
}

// Native is the format of ddlemu itself.
const Native Kind = "ddlemu"

// ErrUnknown is the error of Detect for a content that is of no known format.
var ErrUnknown = errors.New("the format is not known")

// sniffed is the number of bytes that Detect looks at, and searched the number of keys of a JSON object that begins
// with something long. The formats have fewer.
const (
	sniffed  = 1 << 14
	searched = 100
)

// Detect finds the format of a file by its content. It is Native for the format of ddlemu.
func Detect(f input.File) (Kind, error) {
	in, err := f.Open()
	if err != nil {
		return "", err
	}
	defer in.Close()
	head := make([]byte, sniffed)
	n, err := io.ReadFull(in, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%s: %w", f.Name, err)
	}
	if k := detect(head[:n]); k != "" {
		return k, nil
	}
	if n == sniffed {
		if k := detectLater(f); k != "" {
			return k, nil
		}
	}
	what := "it is none of " + list() + ": --from names it"
	if n == 0 {
		what = "it is empty"
	} else if pickled(head[:n]) {
		what = "it is a pickle of Python, and none of PyTorch's flight recorder"
	} else if bytes.Contains(head[:n], []byte("nccl_algorithm_bandwidth_gbs{")) {
		what = "it is NCCL Inspector's file for Prometheus, which has the last values only: record without " +
			"NCCL_INSPECTOR_PROM_DUMP"
	} else if n > 262 && string(head[257:262]) == "ustar" {
		what = "it is a tar archive: unpack it first"
	} else if report := nsys.Foreign(head[:n]); report != "" {
		what = report
	}
	return "", fmt.Errorf("%s: %w: %s", f.Name, ErrUnknown, what)
}

func list() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
