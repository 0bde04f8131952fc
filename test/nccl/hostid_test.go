// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/test/built"
)

// The constructor in C gives NCCL the same node as Go's code, or none.
func TestConstructorAndGoAgreeOnTheNode(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "hostid")
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "testdata/hostid.c", "-o", bin,
		"-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := folder(t)
	manage := func(args ...string) {
		if out, err := ddlemu(t.Context(), t, dir, nil, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	manage("up", "--profile", "eth10", "--name", "two", "--nodes", "2")
	manage("up", "--profile", "eth10", "--name", "four-by-two", "--nodes", "4", "--set", "gpus_per_node=2")
	defer manage("down", "--all")
	shapes := map[string][2]int{"two": {2, 0}, "four-by-two": {4, 2}}
	for name, shape := range shapes {
		for _, env := range [][]string{
			{},
			{"RANK=0", "WORLD_SIZE=4"}, {"RANK=3", "WORLD_SIZE=4"}, {"RANK=1"}, {"RANK=3", "WORLD_SIZE=5"},
			{"RANK=x", "WORLD_SIZE=4"},
			{"RANK=7", "WORLD_SIZE=8"}, {"RANK=", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"},
			{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4"}, {"PMIX_RANK=1", "WORLD_SIZE=2"},
			{"PMI_RANK=3", "PMI_SIZE=4"}, {"SLURM_PROCID=1", "SLURM_NTASKS=4"},
			{"LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"}, {"RANK=2", "LOCAL_RANK=0", "WORLD_SIZE=4"},
			{"GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "RANK=0", "WORLD_SIZE=2"}, {"GROUP_RANK=0", "GROUP_WORLD_SIZE=1",
				"RANK=1", "WORLD_SIZE=2"},
			{"DDLEMU_NODE=1", "RANK=0", "WORLD_SIZE=2"}, {"DDLEMU_NODE=node1"}, {"DDLEMU_NODE=-1"}, {"DDLEMU_NODE=one"},
			{"NCCL_HOSTID=ddlemu-node0", "RANK=1", "WORLD_SIZE=2"}, {"NCCL_HOSTID=theirs", "RANK=1", "WORLD_SIZE=2"},
		} {
			t.Run(name+" "+strings.Join(env, " "), func(t *testing.T) {
				cmd := exec.Command(bin, built.Path(t, "lib", "libgoemu.so"))
				cmd.Env = append([]string{"DDLEMU_DIR=" + dir, "DDLEMU_FABRIC=" + name}, env...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				checkHostID(t, string(out), env, shape)
			})
		}
	}
	t.Run("a process that asks for decisions with NVLinks between nodes", func(t *testing.T) {
		cmd := exec.Command(bin, built.Path(t, "lib", "libgoemu.so"))
		cmd.Env = []string{"DDLEMU_DIR=" + dir, "DDLEMU_FABRIC=two", "RANK=1", "WORLD_SIZE=2", "DDLEMU_SOFT_NVLINK_DOMAIN=0"}
		out, err := cmd.CombinedOutput()
		if want := "ddlemu-node1 - 0 1\n"; err != nil || string(out) != want {
			t.Errorf("%v, %q, want %q", err, out, want)
		}
	})
	t.Run("child of a process that has it loaded", func(t *testing.T) {
		cmd := exec.Command(bin, built.Path(t, "lib", "libgoemu.so"), "1")
		cmd.Env = []string{"DDLEMU_DIR=" + dir, "DDLEMU_FABRIC=two", "RANK=0", "WORLD_SIZE=2"}
		out, err := cmd.CombinedOutput()
		if want := "ddlemu-node0 0 0 1\nddlemu-node1 0 0 1\n"; err != nil || string(out) != want {
			t.Errorf("%v, %q, want %q", err, out, want)
		}
	})
}

// checkHostID compares what the constructor printed, NCCL_HOSTID first, with the node that Go finds in env for a fabric
// of shape[0] nodes with shape[1] GPUs each.
func checkHostID(t *testing.T, out string, env []string, shape [2]int) {
	host := strings.Fields(out)[0]
	lookup := func(name string) string {
		for _, v := range env {
			if text, ok := strings.CutPrefix(v, name+"="); ok {
				return text
			}
		}
		return ""
	}
	place, err := fabric.NodeOf(lookup, shape[0], shape[1])
	switch users := lookup("NCCL_HOSTID"); {
	case users != "" && !strings.HasPrefix(users, "ddlemu-"):
		if host != users {
			t.Errorf("the user's NCCL_HOSTID became %s", host)
		}
	case err == nil:
		if want := fmt.Sprintf("ddlemu-node%d 0 0 1\n", place.Node); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	default:
		// Go refuses this environment. Whatever the constructor printed, netInit fails with Go's error.
		t.Logf("%s: %v", host, err)
	}
}
