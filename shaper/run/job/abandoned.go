// SPDX-License-Identifier: Apache-2.0

package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/daemon"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// joinTime is longer than a job needs from making its fabric to joining it.
const joinTime = 10 * time.Second

// RemoveAbandoned removes the fabrics in dir that nobody can use any more and calls removed for each. A fabric that
// cannot be removed does not keep it from removing the others.
func RemoveAbandoned(dir *state.Dir, removed func(name, why string)) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		why, err := takeDownAbandoned(dir, name)
		if err == nil && why != "" {
			err = dir.Remove(name)
		}
		if err != nil {
			errs = append(errs, err)
		} else if why != "" {
			removed(name, why)
		}
	}
	return errors.Join(errs...)
}

// takeDownAbandoned takes the fabric called name down if nobody can use it, so that its file can be removed, and says
// why; "" if somebody can.
func takeDownAbandoned(dir *state.Dir, name string) (why string, err error) {
	file, err := dir.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil // another process removed it meanwhile
	case errors.Is(err, state.ErrNotUsable):
		return err.Error(), nil
	case err != nil:
		return "", err
	}
	defer file.Close()
	fab, err := fabricfile.Read(file)
	if errors.Is(err, state.ErrNotUsable) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	why = Abandoned(file, fab)
	if why != "" && fab.Config.OnKernel() {
		file.TakeDown()
		return why, daemon.CleanUp(dir, file)
	}
	return why, nil
}

// Abandoned says why nobody can use a fabric any more, "" if somebody can. A fabric that a user brought up on the shm
// datapath is never abandoned.
func Abandoned(file *state.File, fab *fabric.Fabric) string {
	name := file.Name()
	switch {
	case fab.Config.OnKernel() && !file.Served() && !file.InUse():
		return "its daemon is gone"
	case strings.HasPrefix(name, state.AdHocPrefix) && unused(file):
		return "its job is gone"
	case strings.HasPrefix(name, state.JobPrefix) && !file.InUse() && unused(file):
		return "the command that made it is gone"
	}
	return ""
}

// unused says whether no process uses a fabric that a job made for itself, or is about to.
func unused(file *state.File) bool {
	file.Reap()
	if file.LiveRanks() > 0 {
		return false
	}
	joined := false
	for _, j := range file.Jobs() {
		if j.Traffic() {
			continue // the daemon's, which ends with the fabric
		}
		s := j.Status()
		if s.Joined > 0 && s.Running {
			return false
		}
		joined = joined || s.Joined > 0
	}
	return joined || time.Duration(state.Now()-file.Fixed().Created) > joinTime
}

// RemoveNamespaces removes the network namespaces of fabrics in the folder dir whose files are gone, and calls removed
// for each.
func RemoveNamespaces(dir string, removed func(namespace string)) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find folder %s: %w", dir, err)
	}
	all, err := netns.List(netns.DirPrefix(abs))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range all {
		fabric, ok := netns.FabricOf(abs, name)
		if !ok {
			continue
		}
		if _, err := os.Lstat(filepath.Join(abs, fabric+state.Suffix)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := nodes.RemoveNamespace(name); err != nil {
			errs = append(errs, err)
			continue
		}
		removed(name)
	}
	return errors.Join(errs...)
}
