// SPDX-License-Identifier: Apache-2.0

// Package install tests versions and what `make dist wheel` packs, in a Debian that has neither Go nor a compiler, and
// README's commands in a Debian that has what README asks for.
package install
