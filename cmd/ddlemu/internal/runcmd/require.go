// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// requireFlag is the flag with what a result must keep to, without the dashes.
const requireFlag = "require"

// requirements are the values of --require, each NAME=VALUE.
type requirements struct {
	values map[string]func(text string) error
	texts  []string
}

// require adds a name to --require, and the flag itself if fs does not have it. Its value is read by set.
func require(fs *pflag.FlagSet, name string, set func(text string) error, usage string) {
	f := fs.Lookup(requireFlag)
	if f == nil {
		all := &requirements{values: map[string]func(string) error{}}
		f = fs.VarPF(all, requireFlag, "", "`NAME=VALUE`; may be repeated: ")
	} else {
		f.Usage += "; "
	}
	f.Value.(*requirements).values[name] = set
	f.Usage += usage
}

func (r *requirements) String() string { return strings.Join(r.texts, " ") }

// Type names the flag's type for pflag.
func (r *requirements) Type() string { return "NAME=VALUE" }

// Set reads one requirement. A name has one value.
func (r *requirements) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	set := r.values[name]
	if !ok || set == nil {
		return fmt.Errorf("%q is not NAME=VALUE with one of the names %s", text,
			strings.Join(slices.Sorted(maps.Keys(r.values)), ", "))
	}
	if slices.ContainsFunc(r.texts, func(t string) bool { return t != text && strings.HasPrefix(t, name+"=") }) {
		return fmt.Errorf("%s is given twice: give one of them", name)
	}
	if err := set(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.texts = append(r.texts, text)
	return nil
}

// GetSlice returns all texts. It makes r a cobra.SliceValue, which may be given several times.
func (r *requirements) GetSlice() []string { return r.texts }
