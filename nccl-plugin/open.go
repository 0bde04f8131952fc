// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// open opens the fabric that DDLEMU_FABRIC names, else the only one that is up, else an
// ad-hoc fabric for this job.
func (m *member) open(key uint64) (err error) {
	path := cmp.Or(getenv(dirEnv), state.DefaultDir(os.Getuid()))
	name := getenv(fabricEnv)
	if m.dir, err = state.OpenDir(path, os.Getuid(), name == ""); err != nil {
		return err
	}
	if name == "" {
		if name, err = m.dir.Shared(); err != nil {
			return err
		}
	}
	if name != "" {
		m.file, err = m.dir.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf(
				"fabric %s is not up in %s: bring it up with `ddlemu up --profile eth10 --name %[1]s`, or unset %[3]s",
				name, path, fabricEnv)
		}
		return err
	}
	m.adHoc = true
	return m.openAdHoc(fmt.Sprintf("%s%016x", state.AdHocPrefix, key))
}

// openAdHoc opens or makes the fabric of this job alone, from DDLEMU_PROFILE and the other
// variables. Without them its links have no limits.
func (m *member) openAdHoc(name string) error {
	c, err := configs.Load(configs.Source{Default: "loopback", Getenv: getenv})
	if err != nil {
		return err
	}
	if c.GPUsPerNode, c.Nodes, err = adHocShape(c); err != nil {
		return err
	}
	fab, err := fabric.New(c)
	if err != nil {
		return err
	}
	spec, err := fabricfile.Describe(fab, name)
	if err != nil {
		return err
	}
	// All ranks try at the same time: one makes the fabric, the others open it.
	for range 10 {
		if m.file, err = m.dir.Open(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if m.file, err = m.dir.Create(spec); err == nil || !errors.Is(err, fs.ErrExist) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// adHocShape is the GPUs per node and the nodes of an ad-hoc fabric: what DDLEMU_NODES and
// DDLEMU_GPUS_PER_NODE say, else a node for each rank.
func adHocShape(c *configs.Fabric) (gpus, nodes int, err error) {
	world, err := fabric.WorldOf(getenv)
	if err != nil {
		return 0, 0, err
	}
	nodesGiven, gpusGiven := getenv("DDLEMU_NODES") != "", getenv("DDLEMU_GPUS_PER_NODE") != ""
	switch {
	case nodesGiven:
		return c.GPUsPerNode, c.Nodes, nil
	case world == 0:
		return 0, 0, fmt.Errorf(
			"no fabric is up, and no launcher's variable says how many ranks there are: bring one up with `ddlemu " +
				"up --profile eth10`, or set DDLEMU_NODES")
	case gpusGiven:
		return c.GPUsPerNode, (world + c.GPUsPerNode - 1) / c.GPUsPerNode, nil
	}
	return 1, world, nil
}

// removeUnused removes an ad-hoc fabric without participants.
func (m *member) removeUnused() {
	if m.adHoc && len(m.file.Participants()) == 0 {
		m.file.TakeDown()
		_ = m.dir.Remove(m.file.Name()) // the caller reports the failure that came before
	}
}

// jobKey identifies this process's job: it is the same for all ranks of a job, and differs
// between jobs on this host.
func jobKey() uint64 {
	known, text := false, ""
	for _, name := range []string{jobEnv, "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT",
		"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID", "NCCL_COMM_ID"} {
		if v := getenv(name); v != "" {
			known = true
			text += name + "=" + v + "\x00"
			if name == jobEnv {
				break
			}
		}
	}
	if !known {
		text = fmt.Sprintf("parent=%d", os.Getppid())
	}
	return hashOf(text)
}
