// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"bytes"
	"cmp"
	"embed"
	"slices"
)

//go:embed profiles/*.yaml
var profileFiles embed.FS

//go:embed systems/*.yaml
var systemFiles embed.FS

var (
	builtInProfiles = builtIn{profileFiles, "profiles", "profile"}
	builtInSystems  = builtIn{systemFiles, "systems", "system"}
)

// ProfileNames are the names of the built-in profiles of links alone, in alphabetical order.
func ProfileNames() []string { return builtInProfiles.names() }

// SystemNames are the names of the built-in systems, in alphabetical order. A system is a profile of links, GPUs, NICs
// and the time of nodes together.
func SystemNames() []string { return builtInSystems.names() }

// AllProfileNames are all names that Profile knows: ProfileNames, then SystemNames.
func AllProfileNames() []string { return slices.Concat(ProfileNames(), SystemNames()) }

// Profile is the built-in profile or system of this name. For a name that does not exist the
// error is an *Error that lists similar names.
func Profile(name string) (*Fabric, error) {
	switch {
	case slices.Contains(SystemNames(), name):
		return decodeBuiltIn(&builtInSystems, name, Decode)
	case slices.Contains(ProfileNames(), name):
		return decodeBuiltIn(&builtInProfiles, name, Decode)
	}
	return nil, &Error{Err: Unknown(builtInProfiles.what, name, AllProfileNames())}
}

// SystemOf is the name of the built-in system that has the links of a profile, a kind of GPU, and NVLinks that connect
// the GPUs of a node in this way; "" if there is none. nvlink is as in Fabric.NVLink.
func SystemOf(links, gpu, nvlink string) string {
	base := []byte("\nbase: " + links + "\n") // a line of its own in each system's file
	for _, name := range SystemNames() {
		text, err := systemFiles.ReadFile(builtInSystems.folder + "/" + name + ".yaml")
		if err != nil || !bytes.Contains(text, base) {
			continue
		}
		f, err := Profile(name)
		if err == nil && f.GPUName() == gpu && f.NodeNVLink().Connection == cmp.Or(nvlink, f.GPU.NVLink.Connection) {
			return name
		}
	}
	return ""
}

// Profiles are the built-in profiles of links alone in the order of ProfileNames.
func Profiles() ([]*Fabric, error) { return allBuiltIn(&builtInProfiles, Profile) }

// Systems are the built-in systems in the order of SystemNames.
func Systems() ([]*Fabric, error) { return allBuiltIn(&builtInSystems, Profile) }
