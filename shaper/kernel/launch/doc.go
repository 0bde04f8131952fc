// SPDX-License-Identifier: Apache-2.0

// Package launch starts programs on emulated nodes of the kernel datapath:
//
//	account.go      the user that a program runs as
//	environment.go  the environment of a program
//	exec.go         replace this process by a program on a node
//	gpus.go         which of the host's GPUs each node gets
//	group.go        run the programs of one job together
//	lines.go        merge the output of several programs, line by line
//	ssh.go          parse a command line of ssh, as launchers write it
package launch
