// SPDX-License-Identifier: Apache-2.0

// Package kernel has the tests of fabrics of the kernel datapath as a user has them,
// by the ddlemu command. They need root, and make nothing outside of namespaces of
// their own.
package kernel
