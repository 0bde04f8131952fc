// SPDX-License-Identifier: Apache-2.0

package main

/*
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// recordEnv names the folder for ledgers of a job that runs on its own network, with this library as its profiler only.
const recordEnv = "DDLEMU_RECORD"

var recordOnce sync.Once

// netRecord makes the ledger of a process that only records, when NCCL makes its first communicator: of so many ranks,
// or 0 if NCCL does not say, and with this rank in it.
//
//export netRecord
func netRecord(ranks, rank C.int) {
	var ignored C.int
	defer guard(&ignored)
	recordOnce.Do(func() {
		if err := record(int(ranks), int(rank)); err != nil {
			fmt.Fprintf(os.Stderr, "ddlemu: this rank is not recorded: %v\n", err)
			logLine(C.NET_LOG_WARN, fmt.Sprintf("this rank is not recorded: %v", err))
		}
	})
}

func record(ranks, rank int) error {
	p, err := fabric.RankOf(getenv)
	if err != nil {
		return err
	}
	switch {
	case p.Rank < 0 && rank < 0:
		return fmt.Errorf("no launcher's variable gives its rank: set RANK and WORLD_SIZE")
	case p.Rank < 0:
		p.Rank, p.World = rank, ranks
	case p.World == 0:
		p.World = ranks
	}
	dir := getenv(recordEnv)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%s: %w", recordEnv, err)
	}
	l, err := ledger.Create(ledger.Path(dir, p.Rank, os.Getpid()), ledgerRecords, ledger.Info{
		Rank: uint32(p.Rank), Node: uint32(hostOf()), World: uint32(p.World), PID: uint32(os.Getpid()), TimeScale: 1,
		Begun: state.Now(), BegunRealtime: time.Now().UnixNano(), NCCL: int(C.net_nccl_version()),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", recordEnv, err)
	}
	next, records, mask := l.View()
	C.net_set_ledger(next, records, C.uint64_t(mask), nil)
	used, names, lost := l.Ranges()
	C.net_set_ranges(used, names, lost)
	checkInjection()
	logLine(C.NET_LOG_INFO, fmt.Sprintf("rank %d of %d is recorded in %s", p.Rank, p.World, dir))
	return nil
}

// hostOf is a number of this host, in place of a node of a fabric.
func hostOf() uint64 {
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	return hashOf(name+"\x00"+getenv(hostIDEnv)) >> 33
}
