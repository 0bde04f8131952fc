// SPDX-License-Identifier: Apache-2.0

// Command lab runs the tests of the kernel datapath's shapers on kernels of Debian that
// have fq and netem, whatever kernel this machine has:
//
//	go run ./test/lab -build build
//
// It downloads the kernels with the machine's own apt, boots each under qemu, without
// hardware's help, with the test binaries in its initial file system, and prints the
// lines of the tests. An emulated processor says nothing of speed: the tests ask what
// shapers do, not how fast. Exit status: 0 if all that could be run passed, or if
// nothing can be run here, which it says; 1 if a test failed.
package main
