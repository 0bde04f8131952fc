// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
)

// Classes of ddlemu's variables that describe no fabric, in ddlemu.tsv.
const (
	always   = "used"
	onSoft   = "soft"   // only with the software CUDA
	onKernel = "kernel" // only on datapath kernel
	onClock  = "clock"  // only on a virtual clock
)

// testPrefix begins the variables of the project's tests.
const testPrefix = "DDLEMU_TEST_"

// ofDDLEMU is the line about a variable of ddlemu, "" if it is used.
func ofDDLEMU(s *Situation, set Setting) string {
	if strings.HasPrefix(set.Name, testPrefix) {
		return ""
	}
	var names []string
	for _, setting := range configs.Settings() {
		names = append(names, setting.Env)
		if setting.Env == set.Name {
			return ofFabric(s, set)
		}
	}
	for _, name := range []string{configs.ProfileEnv, configs.FileEnv} {
		names = append(names, name)
		if name == set.Name {
			return ofFabric(s, set)
		}
	}
	for _, fields := range rows(ddlemuText) {
		names = append(names, fields[0])
		if fields[0] != set.Name {
			continue
		}
		switch class := fields[1]; {
		case class == onSoft && !s.Soft:
			return noEffect(set, "it is for the software CUDA")
		case class == onKernel && !s.Kernel:
			return noEffect(set, "it is for datapath kernel")
		case class == onClock && !s.Timeless:
			return noEffect(set, "it is for a virtual clock")
		}
		return ""
	}
	return unknown(set, names, "ddlemu has no such variable")
}

// ofFabric is the line about a variable that describes the fabric.
func ofFabric(s *Situation, set Setting) string {
	if s.Fabric == "" || set.Name == configs.NCCLViewEnv {
		return ""
	}
	return noEffect(set, fmt.Sprintf("fabric %s is up, and `ddlemu shape` changes it", s.Fabric))
}
