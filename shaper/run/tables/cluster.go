// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
)

// OneNode is the profile of a table of one node, whose traffic crosses no link.
const OneNode = "loopback"

// Domains is how many NVLink domains the table's nodes make: the nodes, unless the table says that domains span them.
func (t *Table) Domains() int {
	if t.NVLinkDomain <= t.GPUsPerNode {
		return t.Nodes
	}
	gpus := t.Nodes * t.GPUsPerNode
	return (gpus + t.NVLinkDomain - 1) / t.NVLinkDomain
}

// Profile is the profile that "fabric" names, of links or a system, with or without a remark after it; "" if
// the table does not say. With a kind of GPU, nodeTime takes the links of the system that has both, if there is one.
// The error says which profiles there are.
func (c *Cluster) Profile(nodes int, nodeTime bool) (string, error) {
	if c.Fabric == "" {
		if nodes == 1 {
			return OneNode, nil
		}
		return "", nil
	}
	name := strings.Trim(strings.Fields(c.Fabric + " ")[0], ",;:")
	if slices.Contains(configs.SystemNames(), name) {
		return name, c.checkSystem(name)
	}
	if slices.Contains(configs.ProfileNames(), name) {
		if system := configs.SystemOf(name, c.GPU, c.NVLink); nodeTime && system != "" {
			return system, nil
		}
		return name, nil
	}
	known := configs.AllProfileNames()
	near := configs.Nearest(name, known)
	if len(near) == 0 {
		near = known
	}
	return "", fmt.Errorf("the table's fabric is %q, for which there is no profile: give --profile with one such as %s",
		c.Fabric, strings.Join(near, ", "))
}

// checkSystem checks that the table says of the GPUs what the system has.
func (c *Cluster) checkSystem(name string) error {
	f, err := configs.Profile(name)
	if err == nil && c.GPU != "" && c.GPU != f.GPUName() {
		err = fmt.Errorf(
			"the table's fabric is the system %s, which has %s, and its gpu is %s: name the profile of its "+
				"links as fabric", name, f.GPUName(), c.GPU)
	}
	return err
}

// The two versions of NCCL for the software CUDA, and the first minor version that is nearer to the later one.
const (
	olderNCCL    = "2.22"
	newerNCCL    = "2.29"
	firstOfNewer = 23   // since 2.23 NCCL counts the steps between nodes of a ring as 2.29 does, and knows PAT
	firstOfC2C   = 27   // since 2.27 NCCL knows the path from a GPU to a NIC over NVLink-C2C, and uses LL128 on it
	yearOfNewer  = 2025 // NCCL 2.23 is of September 2024
	blackwell    = 100  // compute capability 10.0, which NCCL 2.22 does not know
)

var (
	ncclVersion = regexp.MustCompile(`^v?2\.([0-9]+)(\.[0-9]+)?`)
	year        = regexp.MustCompile(`\b20[0-9][0-9]\b`)
)

// NearestNCCL is the version of NCCL that stands for the table's: 2.22 for those before 2.23, else 2.29. If the table
// does not know the version, the year that it was measured in decides. If it does not know that either, it is 2.29 for
// GPUs that 2.22 does not know and those with NVLink-C2C, and 2.22 for all others: it is the nearer one of most
// versions since theirs came out.
func (c *Cluster) NearestNCCL() string {
	older := false
	if minor := c.minor(); minor > 0 {
		older = minor < firstOfNewer
	} else if y := year.FindString(c.NCCL); y != "" {
		n, err := strconv.Atoi(y)
		older = err == nil && n < yearOfNewer
	} else {
		gpu, err := configs.BuiltInGPU(c.GPU)
		older = err != nil || gpu.Capability < blackwell && !gpu.C2C.Has() || strings.Contains(c.NCCL, "old")
	}
	if older {
		return olderNCCL
	}
	return newerNCCL
}

// minor is the minor version of the table's NCCL, 0 if the table does not know it.
func (c *Cluster) minor() int {
	m := ncclVersion.FindStringSubmatch(c.NCCL)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1]) // too large for an int: not known
	return n
}

// StandIn are the variables with which NCCL 2.29 decides as the table's version did. Before 2.27 the path from a GPU to
// a NIC over NVLink-C2C was one through the CPU, and LL128 was not used on it (ncclTopoTuneModel, graph/tuning.cc).
// Most versions since GPUs of compute capability 9.0 have NVLink-C2C are before 2.27: so is one that nobody knows.
func (c *Cluster) StandIn() []string {
	gpu, err := configs.BuiltInGPU(c.GPU)
	if err != nil || !gpu.C2C.Has() || c.NearestNCCL() != newerNCCL {
		return nil
	}
	minor := c.minor()
	if minor >= firstOfC2C || minor == 0 && (gpu.Capability >= blackwell || year.MatchString(c.NCCL)) {
		return nil
	}
	return []string{"NCCL_LL128_C2C=0"}
}

// OtherNCCL says that the table was measured with another version of NCCL than the one here, or one that nobody knows;
// "" if it is the same, or the table says nothing.
func (c *Cluster) OtherNCCL(here string) string {
	m := ncclVersion.FindString(c.NCCL)
	switch {
	case c.NCCL == "" || here == "" || strings.TrimPrefix(m, "v") == here:
		return ""
	case m == "":
		return fmt.Sprintf("NCCL %s stands for one of unknown version", here)
	}
	return fmt.Sprintf("NCCL %s stands for %s", here, c.NCCL)
}

// NCCLRemark says that another version of NCCL stands for the table's, with the variables with which it does.
func (c *Cluster) NCCLRemark(nccl string) []string {
	text := c.OtherNCCL(nccl)
	if text == "" {
		return nil
	}
	return []string{strings.Join(append([]string{text}, c.StandIn()...), ", with ")}
}

// LaunchRemarks say how the launch and the variables of the measurement differ from the ones here.
func (t *Table) LaunchRemarks() (notes []string) {
	if t.RanksPerProcess > 1 {
		notes = append(notes, fmt.Sprintf(
			"launch: %d ranks in a process (%s): NCCL then connects them directly; here each rank is a process",
			t.RanksPerProcess, t.Launch))
	}
	for _, set := range []struct {
		text      string
		variables []string
	}{{"not set, because the fabric stands for that net: ", t.Unused},
		{"not set here, variables of the log: ", t.Others}} {
		if len(set.variables) > 0 {
			notes = append(notes, set.text+strings.Join(set.variables, " "))
		}
	}
	return notes
}
