// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/nccl-plugin/internal/tcp"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Variables that the plugin reads, besides the variables that select and describe the fabric.
const (
	dirEnv      = "DDLEMU_DIR"
	fabricEnv   = "DDLEMU_FABRIC"
	jobEnv      = "DDLEMU_JOB"
	memoryEnv   = "DDLEMU_MEMORY"
	togetherEnv = "DDLEMU_FAIL_TOGETHER"
	abortEnv    = "DDLEMU_ABORT_ON_ERROR"
	exitEnv     = "DDLEMU_EXPECT_EXIT"
	hostIDEnv   = "NCCL_HOSTID"
	protoEnv    = "NCCL_PROTO"

	// For the kernel datapath.
	streamsEnv    = "DDLEMU_STREAMS"
	ipv6Env       = "DDLEMU_IPV6"
	completionEnv = "NCCL_NET_OPTIONAL_RECV_COMPLETION"
)

// defaultStreams is the number of TCP streams of a connection on the kernel datapath.
// More streams are not faster, see docs/performance.md.
const defaultStreams = 1

// The most shared memory for connections, in bytes: of this process, and of all ranks of a job.
const (
	defaultMemory = 256 << 20
	jobMemory     = 4 << 30
)

// settings are what the variables of this process ask for.
type settings struct {
	memory   units.Size // the most for the connections of this process
	together bool       // the death of a rank fails all ranks of its job, see rankdeath.go
	abort    bool       // an error ends the process
	streams  int        // of a connection on the kernel datapath
	ipv6     bool       // on the kernel datapath
}

// readSettings reads the variables. The job has so many ranks, or 0 if that is not known.
func readSettings(getenv func(string) string, ranks int) (s settings, err error) {
	s = settings{memory: units.Size(min(defaultMemory, jobMemory/max(ranks, 1))), streams: defaultStreams}
	if text := getenv(memoryEnv); text != "" {
		if s.memory, err = units.ParseSize(text); err != nil {
			return s, fmt.Errorf("%s: %w", memoryEnv, err)
		}
	}
	if text := getenv(streamsEnv); text != "" {
		if s.streams, err = configs.ParseInt(text); err != nil || s.streams < 1 || s.streams > tcp.MaxStreams {
			return s, fmt.Errorf("%s: %q is not a number of streams: must be 1 to %d", streamsEnv, text, tcp.MaxStreams)
		}
	}
	for _, v := range []struct {
		name string
		set  *bool
	}{{togetherEnv, &s.together}, {abortEnv, &s.abort}, {ipv6Env, &s.ipv6}} {
		if *v.set, err = readSwitch(v.name, getenv(v.name)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// expectedExit is the place of a rank, from 1, in the list of ranks whose exit is expected; 0 if it is not there.
func expectedExit(getenv func(string) string, rank int) (place int, err error) {
	text := getenv(exitEnv)
	if text == "" {
		return 0, nil
	}
	list := strings.Split(text, ",")
	if len(list) > state.MaxExits {
		return 0, fmt.Errorf("%s: %d ranks: at most %d", exitEnv, len(list), state.MaxExits)
	}
	for i, one := range list {
		n, err := configs.ParseInt(one)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s: %q is not a rank: write numbers with commas, such as 1,3", exitEnv, one)
		}
		if n == rank && place == 0 {
			place = i + 1
		}
	}
	return place, nil
}

// readSwitch reads the text of a variable that is on or off.
func readSwitch(name, text string) (bool, error) {
	switch text {
	case "", "0":
		return false, nil
	case "1":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %q is neither 0 nor 1", name, text)
	}
}
