# SPDX-License-Identifier: Apache-2.0
"""Gives the wheel the tag of the machine that it is built on. It has programs, but works with each version of Python."""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    """Called by hatchling."""

    def initialize(self, version, build_data):
        """Set the tag. The programs are linked to this machine's libc, so no tag of manylinux is promised."""
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
