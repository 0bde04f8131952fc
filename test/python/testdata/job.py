# SPDX-License-Identifier: Apache-2.0
"""A job of two ranks, from init to the interpreter's end."""

import goemu

with goemu.job() as (plugin, link):
    p = plugin.properties()
    if (p.ptr_support, p.port, p.latency, p.max_recvs, p.device_type) != (goemu.PTR_HOST, 0, 0, 1, 0) or not p.name.startswith(b"goemu") or p.speed <= 0:
        raise AssertionError([(f, getattr(p, f)) for f, _ in p._fields_])
    link.exchange(1, 127, 129, 65535, 65537, goemu.MAX_MESSAGE)
    if not any("rank 0 is on node0" in line for line in plugin.log):
        raise AssertionError(plugin.log)
print("ok")
