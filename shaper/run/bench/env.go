// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// launcherVariables are variables by which launchers tell a process its rank. If the bench itself was started by a
// launcher, such as SLURM, it must not pass its rank to its ranks.
var launcherVariables = []string{
	"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
	"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
	"SLURM_PROCID", "SLURM_LOCALID",
}

// lookup returns the last value of a variable in env.
func lookup(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value, true
		}
	}
	return "", false
}

// rankEnv returns a rank's environment: base without the variables of other launchers, then the rank, then extra. All
// ranks are on one real host, so LOCAL_RANK is the rank. If neither base nor extra sets NCCL_DEBUG, NCCL logs to a file
// in the folder logs, whose path is returned. Otherwise the user's setting is kept and the path is empty.
func rankEnv(base, extra []string, rank, ranks int, logs string) (env []string, logFile string) {
	env = slices.DeleteFunc(slices.Clone(base), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(launcherVariables, name)
	})
	n := strconv.Itoa(rank)
	env = append(env, "RANK="+n, "LOCAL_RANK="+n, "WORLD_SIZE="+strconv.Itoa(ranks))
	env = append(env, extra...)
	if level, found := lookup(env, "NCCL_DEBUG"); found && level != "" {
		return env, ""
	}
	logFile = filepath.Join(logs, "rank"+n+".log")
	return append(env,
		"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING,NET",
		"NCCL_DEBUG_FILE="+strings.ReplaceAll(logFile, "%", "%%"), // NCCL expands %h and %p
	), logFile
}
