// SPDX-License-Identifier: Apache-2.0

// Package statetest gives tests a fabric that is up, in a folder of its own that goes
// with the test.
package statetest

import (
	"os"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// New is the file of fab, up as name.
func New(t testing.TB, fab *fabric.Fabric, name string) *state.File {
	t.Helper()
	spec, err := live.Spec(fab, name)
	if err != nil {
		t.Fatal(err)
	}
	return Of(t, spec)
}

// Of is the file of the fabric that spec describes.
func Of(t testing.TB, spec state.Spec) *state.File {
	t.Helper()
	path, err := os.MkdirTemp("", "ddlemu-test-") // with mode 0700, which t.TempDir has not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(path) })
	dir, err := state.OpenDir(path, os.Getuid(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	file, err := dir.Create(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}
