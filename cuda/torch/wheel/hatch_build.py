# SPDX-License-Identifier: Apache-2.0
"""Gives the wheel the tag of its programs and libraries. It works with each version of Python."""

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Hook(BuildHookInterface):
    """Called by hatchling."""

    def initialize(self, version, build_data):
        """Set the tag. build.sh has written the platform: the glibc that the programs and libraries need."""
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + Path(self.root, "platform").read_text().strip()
