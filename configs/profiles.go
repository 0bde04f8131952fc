// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed profiles/*.yaml
var profileFiles embed.FS

// ProfileNames are the names of the built-in profiles in alphabetical order.
func ProfileNames() []string {
	files, err := fs.Glob(profileFiles, "profiles/*.yaml")
	if err != nil {
		panic("configs: " + err.Error()) // the pattern is constant and good
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(file, "profiles/"), ".yaml")
	}
	slices.Sort(names)
	return names
}

// Profile is the built-in profile of this name. For a name that does not exist the
// error is an *Error that lists similar names.
func Profile(name string) (*Fabric, error) {
	data, err := profileFiles.ReadFile("profiles/" + name + ".yaml")
	if err != nil {
		return nil, &Error{Err: Unknown("profile", name, ProfileNames())}
	}
	return Decode("profiles/"+name+".yaml", data)
}

// Profiles are the built-in profiles in the order of ProfileNames.
func Profiles() ([]*Fabric, error) {
	var all []*Fabric
	for _, name := range ProfileNames() {
		f, err := Profile(name)
		if err != nil {
			return nil, fmt.Errorf("read profile %s: %w", name, err)
		}
		all = append(all, f)
	}
	return all, nil
}
