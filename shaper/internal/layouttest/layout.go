// SPDX-License-Identifier: Apache-2.0

// Package layouttest compares the layout of a struct in Go with the layout of its twin in C, field by
// field, so that a field that one of them lacks fails a test.
package layouttest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// CompareAll is [Compare] for several structs in Go, each with its twin in C.
func CompareAll(twins [][2]reflect.Type) (err error) {
	for _, t := range twins {
		err = errors.Join(err, Compare(t[0], t[1]))
	}
	return err
}

// Compare says where c, a C struct as cgo has it, differs from g: every field must have its
// twin, of the same name but for case and underscores, at the same offset and of the same
// size. Fields named _ in Go and unused... in C need none. Fields of an embedded struct count as fields of g.
func Compare(g, c reflect.Type) error {
	if g.Size() != c.Size() {
		return fmt.Errorf("%v has %d bytes, %v has %d", g, g.Size(), c, c.Size())
	}
	inGo, inC := fields(g), fields(c)
	for name, f := range inC {
		if _, ok := inGo[name]; !ok {
			return fmt.Errorf("%v lacks the field %s of %v", g, f.Name, c)
		}
	}
	for name, f := range inGo {
		twin, ok := inC[name]
		switch {
		case !ok:
			return fmt.Errorf("%v lacks the field %s of %v", c, f.Name, g)
		case f.Offset != twin.Offset || f.Type.Size() != twin.Type.Size():
			return fmt.Errorf("%v.%s is %d bytes at %d, in %v %d bytes at %d", g, f.Name, f.Type.Size(), f.Offset, c,
				twin.Type.Size(), twin.Offset)
		case f.Type.Kind() == reflect.Struct && twin.Type.Kind() == reflect.Struct:
			if err := Compare(f.Type, twin.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

func fields(t reflect.Type) map[string]reflect.StructField {
	out := map[string]reflect.StructField{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" || strings.HasPrefix(strings.ToLower(f.Name), "unused") || strings.HasPrefix(f.Name, "_cgo") ||
			strings.HasPrefix(f.Name, "pad_cgo") {
			continue
		}
		if f.Anonymous {
			for name, inner := range fields(f.Type) {
				inner.Offset += f.Offset
				out[name] = inner
			}
			continue
		}
		out[strings.ToLower(strings.ReplaceAll(f.Name, "_", ""))] = f
	}
	return out
}
