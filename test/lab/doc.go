// SPDX-License-Identifier: Apache-2.0

// Command lab runs the tests of the kernel datapath's shapers on kernels of Debian, which have fq and netem. It does
// not depend on the kernel of this machine:
//
//	go run ./test/lab -build build
//
// It downloads the kernels with this machine's apt, boots each in qemu without hardware virtualization, with the test
// binaries in the initial file system, and prints the output of the tests. Nothing about speed can be measured on an
// emulated processor, so only the tests of what the shapers do are run. Exit status: 0 if all tests passed that could
// be run, or if none can be run here, which it prints; 1 if a test failed.
package main
