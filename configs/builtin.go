// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// builtIn are YAML files that are part of the program.
type builtIn struct {
	files  embed.FS
	folder string
	what   string // of what each file is one, for messages
}

// names are the names of the files, without folder and extension, in alphabetical order.
func (b *builtIn) names() []string {
	files, err := fs.Glob(b.files, b.folder+"/*.yaml")
	if err != nil {
		panic("configs: " + err.Error()) // the pattern is constant and good
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(file, b.folder+"/"), ".yaml")
	}
	slices.Sort(names)
	return names
}

// decodeBuiltIn decodes the file of this name. For a name that does not exist the error is an *Error that lists similar
// names.
func decodeBuiltIn[T any](b *builtIn, name string, decode func(file string, text []byte) (*T, error)) (*T, error) {
	file := b.folder + "/" + name + ".yaml"
	data, err := b.files.ReadFile(file)
	if err != nil {
		return nil, &Error{Err: Unknown(b.what, name, b.names())}
	}
	return decode(file, data)
}

// allBuiltIn are the files in the order of names; one decodes the file of a name.
func allBuiltIn[T any](b *builtIn, one func(name string) (*T, error)) ([]*T, error) {
	var all []*T
	for _, name := range b.names() {
		v, err := one(name)
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", b.what, name, err)
		}
		all = append(all, v)
	}
	return all, nil
}
