// SPDX-License-Identifier: Apache-2.0

package configs

import "embed"

//go:embed profiles/*.yaml
var profileFiles embed.FS

var builtInProfiles = builtIn{profileFiles, "profiles", "profile"}

// ProfileNames are the names of the built-in profiles in alphabetical order.
func ProfileNames() []string { return builtInProfiles.names() }

// Profile is the built-in profile of this name. For a name that does not exist the
// error is an *Error that lists similar names.
func Profile(name string) (*Fabric, error) { return decodeBuiltIn(&builtInProfiles, name, Decode) }

// Profiles are the built-in profiles in the order of ProfileNames.
func Profiles() ([]*Fabric, error) { return allBuiltIn(&builtInProfiles, Profile) }
