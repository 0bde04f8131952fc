// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a ledger the path of a message has one comparison for it and neither call nor store: all that writes the
// ledger is in the object's section of code that is rarely run, with the jumps to it.
func TestLedgerIsOffThePath(t *testing.T) {
	for source, entries := range map[string][]string{
		"send.c":    {"<sender_isend>:", "<sender_test>:"},
		"receive.c": {"<receiver_irecv>:", "<receiver_test>:"},
	} {
		object := filepath.Join(t.TempDir(), "object.o")
		if out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-fPIC", "-c", source, "-o",
			object).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		path, rare := disassemble(t, object, ".text"), disassemble(t, object, ".text.unlikely")
		for _, entry := range entries {
			if !strings.Contains(path, entry) {
				t.Errorf("%s: %s is not in the path's section", source, entry)
			}
		}
		for _, name := range []string{"record_call", "record_post", "record_return", "record_failure"} {
			if strings.Contains(path, name) {
				t.Errorf("%s: %s is called in the path's section", source, name)
			}
			if !strings.Contains(rare, name) {
				t.Errorf("%s: %s is not called in the section for code that is rarely run", source, name)
			}
		}
		if strings.Contains(path, "ddlemu_calls") {
			t.Errorf("%s: the path calls ddlemu_calls", source)
		}
	}
}

// disassemble returns the code of a section of an object, with the names of what it calls.
func disassemble(t *testing.T, object, section string) string {
	t.Helper()
	out, err := exec.Command("objdump", "--disassemble", "--reloc", "--section", section, object).CombinedOutput()
	if err != nil {
		t.Fatalf("objdump: %v\n%s", err, out)
	}
	return string(out)
}
