// SPDX-License-Identifier: Apache-2.0

// Package install tests what `make dist` packs, on a Debian that has neither Go nor a compiler.
package install
