// SPDX-License-Identifier: Apache-2.0

// Package kernel tests fabrics of the kernel datapath as a user runs them, with the ddlemu command. The tests need
// root. Everything that they create is in network namespaces of their own.
package kernel
