// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/record"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/launch"
	"github.com/ddlemu/ddlemu/shaper/kernel/wire"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// NewGCCommand is `ddlemu gc`.
func NewGCCommand(g *cli.Global) *cobra.Command {
	ncclFiles := false
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove what killed jobs left behind",
		Long: cli.Long("docs/failures.md", `
Remove fabrics that nobody can use any more: those of jobs and commands that have ended, damaged
files, files from another boot or version, and what is left of the kernel datapath and in $TMPDIR.
Fabrics that a user brought up stay. With --nccl-files, also remove files of NCCL in /dev/shm that
are the user's, that no process uses, and that are older than a minute. They may be of other jobs.`),
		Example: `  ddlemu gc
  ddlemu gc --nccl-files`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return runGC(g, ncclFiles) },
	}
	cmd.Flags().BoolVar(&ncclFiles, "nccl-files", false,
		"also remove files of NCCL in /dev/shm that no process uses")
	return cmd
}

// runGC removes what nobody uses any more.
func runGC(g *cli.Global, ncclFiles bool) error {
	uid, err := g.UID()
	if err != nil {
		return err
	}
	count := 0
	removed := func(what, why string) {
		fmt.Fprintf(g.Stdout, "removed %s: %s\n", what, why)
		count++
	}
	err = errors.Join(removeFabrics(g, removed),
		job.RemoveNamespaces(g.DirPath(uid),
			func(name string) { removed("network namespace "+name, "its fabric is gone") }),
		removeTemporary(removed), removeFloors(removed), removeNCCLFiles(g, ncclFiles, uid, removed))
	if err == nil && count == 0 {
		fmt.Fprintln(g.Stdout, "nothing to remove")
	}
	return err
}

func removeFabrics(g *cli.Global, removed func(what, why string)) error {
	dir, err := g.OpenDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(job.RemoveAbandoned(dir, removed), dir.Close())
}

// removeTemporary removes the temporary folders of commands that were killed.
func removeTemporary(removed func(what, why string)) error {
	var errs []error
	for _, left := range []func() ([]string, error){bench.LeftLogs, record.LeftFolders, launch.LeftMountPoints} {
		dirs, err := left()
		errs = append(errs, err)
		for _, dir := range dirs {
			if err := os.RemoveAll(dir); err != nil {
				errs = append(errs, err)
				continue
			}
			removed(dir, "its command was killed")
		}
	}
	return errors.Join(errs...)
}

// removeFloors removes the fabrics with which killed commands measured this host: first the file, then the namespaces
// that have no file, and then the folder, by which the namespaces are found.
func removeFloors(removed func(what, why string)) error {
	dirs, err := wire.LeftFloors()
	errs := []error{err}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*"+state.Suffix)) // the pattern is right
		for _, file := range files {
			errs = append(errs, os.Remove(file))
		}
		err := job.RemoveNamespaces(dir,
			func(name string) { removed("network namespace "+name, "its command was killed") })
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if errs = append(errs, err); err == nil {
			removed(dir, "its command was killed")
		}
	}
	return errors.Join(errs...)
}

// removeNCCLFiles removes files of NCCL that no process uses if the user has asked for it. Else it says what there is.
func removeNCCLFiles(g *cli.Global, ncclFiles bool, uid int, removed func(what, why string)) error {
	files, err := job.OrphanedNCCLFiles(job.NCCLFolder, uint32(uid), time.Now().Add(-job.NCCLFileAge))
	if err != nil {
		return err
	}
	var errs []error
	bytes := int64(0)
	for _, file := range files {
		bytes += file.Bytes
		if !ncclFiles {
			continue
		}
		if err := os.Remove(file.Path); err != nil {
			errs = append(errs, err)
			continue
		}
		removed(file.Path, "no process uses it")
	}
	if len(files) > 0 && !ncclFiles {
		fmt.Fprintf(g.Stderr,
			"%d files of NCCL in %s, %s together, are used by no process: `ddlemu gc --nccl-files` removes them\n",
			len(files), job.NCCLFolder, units.Size(bytes))
	}
	return errors.Join(errs...)
}
