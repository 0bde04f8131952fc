// SPDX-License-Identifier: Apache-2.0

// Command make writes a big file of a format to standard output: go run ./test/bigfiles/make kineto 1073741824.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/ddlemu/ddlemu/test/bigfiles"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: make FORMAT BYTES; formats: %v", bigfiles.Formats())
	}
	size, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	return bigfiles.Make(args[0], os.Stdout, size)
}
