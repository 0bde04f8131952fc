// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// participant is the program of a test rank: participant FABRIC RANK joins the fabric's only job and creates the file
// joined.RANK. When a file called leave appears, it leaves the job.
func participant() {
	if err := participate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func participate(name, rank string) error {
	r, err := strconv.Atoi(rank)
	if err != nil {
		return err
	}
	dir, err := state.OpenDir(os.Getenv(cli.DirEnv), os.Getuid(), false)
	if err != nil {
		return err
	}
	file, err := dir.Open(name)
	if err != nil {
		return err
	}
	key := uint64(1)
	if id := os.Getenv(job.JobEnv); id != "" {
		key = job.Key(id)
	}
	j, err := file.JoinJob(key)
	if err != nil {
		return err
	}
	p, err := file.Join(j, state.Rank{Rank: r, Node: r, World: 2, Budget: 256 << 20})
	if err != nil {
		return err
	}
	p.Reserve(3 << 20)
	if err := os.WriteFile("joined."+rank, nil, 0o600); err != nil {
		return err
	}
	for !exists("leave") {
		pause()
	}
	p.Leave()
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
