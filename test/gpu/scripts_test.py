#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the scripts that check the results of GPU runs. They need no GPU and no PyTorch."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import unittest

import benchjson
import losses
import nccllog
import slowdown
import verdict

HERE = os.path.dirname(os.path.abspath(__file__))
LOGS = os.path.join(HERE, "..", "..", "shaper", "nccl", "nccllog", "testdata")


def options(**given):
    o = dict(net="Socket", world=4, ranks_per_node=2, comms=0, only_net=False, no_net=False, direct=False)
    o.update(given)
    return argparse.Namespace(**o)


class RealLogs(unittest.TestCase):
    """Four ranks on two nodes, connected by NCCL's sockets."""

    def logs(self, version):
        folder = os.path.join(LOGS, "2x2-" + version)
        return nccllog.read(os.path.join(folder, "rank%d.log" % r) for r in range(4))

    def test_counts(self):
        for version in ("2.22", "2.29"):
            with self.subTest(version):
                self.assertEqual(dict(nccllog.count(self.logs(version))), {"NET/Socket": 16, "P2P/IPC": 8})

    def test_checks(self):
        cases = (
            (options(), ""),
            (options(direct=True, comms=1), ""),
            (options(net="goemu"), "NCCL uses network Socket, not goemu"),
            (options(world=2), "there are 4 logs of NCCL for 2 ranks"),
            (options(ranks_per_node=1), "NCCL counted 2 nodes, there are 4"),
            (options(only_net=True), "8 connections via P2P/IPC"),
            (options(no_net=True), "a connection crosses the network, and none should"),
            (options(comms=2), "a rank made 1 communicators, not 2"),
        )
        for version in ("2.22", "2.29"):
            for o, want in cases:
                with self.subTest(version=version, want=want):
                    self.assertEqual(nccllog.find_error(self.logs(version), o), want)


class SyntheticLogs(unittest.TestCase):
    """Log lines that are not in the real logs."""

    def log(self, *lines):
        log = nccllog.Log()
        for line in lines:
            log.line("host:1:2 [0] NCCL INFO " + line)
        return log

    def test_starts_of_all_versions(self):
        for line in (
            "comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init START",  # 2.18
            "ncclCommInitRankConfig comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init START",  # 2.26
            "[Rank 0] ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init START",  # 2.29
        ):
            self.assertEqual([c.ranks for c in self.log(line).comms], [2], line)

    def test_transports(self):
        log = self.log(
            "Channel 00/1 : 0[0] -> 1[0] [send] via NET/goemu/0/Shared",
            "Channel 01/0 : 0[0] -> 1[0] [send] via NET/goemu/0(1)",
            "Channel 00 : 1[1] -> 0[0] via SHM/direct/direct",
            "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer",
            "NVLS comm 0x55 headRank 0 nHeads 2 buffSize 1 nvlsPerRankSize 2 nvlsTotalSize 3",
        )
        self.assertEqual(dict(nccllog.count([log])), {"NET/goemu": 2, "SHM/direct/direct": 1, "P2P/direct": 1, "NVLS": 1})

    def test_bypass(self):
        start = "ncclCommInitRank comm 0x55 rank %d nranks 2 cudaDev 0 commId 0x1 - Init START"
        net = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/goemu/0"
        shm = "Channel 01 : 0[0] -> 1[0] via SHM/direct/direct"
        logs = [self.log(start % 0, net, shm), self.log(start % 1, net)]
        o = options(net="goemu", world=2, ranks_per_node=1)
        self.assertEqual(nccllog.find_error(logs, o), "ranks 0 and 1 are on different nodes, and connected via SHM/direct/direct")

    def test_second_communicator_does_not_use_the_net(self):
        start = "ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 commId 0x1 - Init START"
        net = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/goemu/0"
        logs = [self.log("Using network goemu", start, net, start) for _ in range(2)]
        o = options(net="goemu", world=2, ranks_per_node=1, comms=2)
        self.assertEqual(nccllog.find_error(logs, o), "communicator 1 of a rank has no connection via NET/goemu")


class Verdicts(unittest.TestCase):
    SHARED = "several ranks share one GPU without MPS: they are time-sliced, so timing means nothing"
    LATE = "node0:node1, messages <= 4 KiB: 17 of 17 were later than max(1 us, 2 % of their time)"

    def test_text(self):
        text = "ddlemu: fabric x is up\nrank 0: fine\n| table |\nddlemu: one\nddlemu: two\nverdict: INVALID\n"
        self.assertEqual(verdict.from_text(text), ("INVALID", ["one", "two"]))
        self.assertEqual(verdict.from_text("table\nverdict: VALID\n"), ("VALID", []))
        self.assertEqual(verdict.from_text("Traceback\n"), ("", []))

    def test_json(self):
        self.assertEqual(verdict.from_json('{"fabric": "a", "verdict": "VALID", "reasons": []}'), ("VALID", []))
        self.assertEqual(verdict.from_json('{"error": "no job"}'), ("", []))

    def test_find_error(self):
        for word, reasons, ranks, gpus, mps, want in (
            ("VALID", [], 2, 2, False, ""),
            ("INVALID", [self.LATE], 2, 2, False, ""),
            ("INVALID", [self.LATE, self.SHARED], 2, 1, False, ""),
            ("VALID", [], 2, 1, True, ""),
            ("VALID", [], 2, 1, False, "VALID, although 2 ranks share 1"),
            ("INVALID", [self.LATE], 2, 1, False, "no reason says that 2 ranks share 1"),
            ("INVALID", [], 2, 2, False, "without a reason"),
            ("", [], 2, 2, False, "no verdict"),
            ("INVALID", ["no rank took part: nothing was emulated"], 2, 2, False, "must not be"),
            ("INVALID", [self.SHARED, "a rank died"], 2, 1, False, "must not be"),
        ):
            with self.subTest(word=word, reasons=reasons):
                got = verdict.find_error(word, reasons, ranks, gpus, mps)
                self.assertTrue(want in got and (want or not got), got)

    def test_reasons_are_in_the_source(self):
        """The texts that verdict.py searches for are in ddlemu's source."""
        with open(os.path.join(HERE, "..", "..", "shaper", "fabric", "state", "job.go")) as f:
            source = f.read()
        for text in (verdict.SHARED, "NOT emulated", "not emulated", "went around", "NCCL_HOSTID", "died",
                     "could not be reserved", "LL128"):
            self.assertIn(text, source)


class Rows(unittest.TestCase):
    def document(self, **row):
        r = dict(size=1 << 20, inplace=False, wrong=0, time_us=10.0, expected_us=9.0)
        r.update(row)
        return {"header": {"cuda": "gpu", "nccl": "2.27.5", "time_scale": 1}, "rows": [r], "verdict": "VALID", "reasons": []}

    def test_rows(self):
        self.assertEqual(benchjson.find_error(self.document(), "gpu"), "")
        self.assertIn("3 wrong", benchjson.find_error(self.document(wrong=3), "gpu"))
        self.assertIn("not checked", benchjson.find_error(self.document(wrong=None), "gpu"))
        self.assertIn("no time", benchjson.find_error(self.document(time_us=0), "gpu"))
        self.assertIn("'gpu', not 'soft'", benchjson.find_error(self.document(), "soft"))
        self.assertIn("no rows", benchjson.find_error({"header": {"cuda": "gpu"}}, "gpu"))


class Slowdown(unittest.TestCase):
    def test_rate(self):
        link = {"bandwidth_bps": 100e6, "mtu": 1500, "header": 40, "framing": 38}
        self.assertAlmostEqual(slowdown.payload_rate(link), 94.93e6, delta=1e4)

    def test_times(self):
        fast, slow = [5.0] * 8, [355.0] * 5
        good = fast + slow + fast
        self.assertEqual(slowdown.find_error(good, 8, 13, 353.5), "")
        self.assertIn("did not slow down", slowdown.find_error(fast * 3, 8, 13, 0))
        self.assertIn("stayed slow", slowdown.find_error(fast + slow * 4, 8, 13, 353.5))
        self.assertIn("needs 353.5 ms", slowdown.find_error(fast + [355.0] * 3 + [300.0] * 2 + fast, 8, 13, 353.5))
        self.assertIn("too few", slowdown.find_error(good, 8, 9, 353.5))


class Losses(unittest.TestCase):
    def test_difference(self):
        a = [{"losses": [(2.0).hex(), (1.5).hex()], "parameters": "x"}] * 2
        self.assertEqual(losses.difference(a, a), "")
        b = [a[0], {"losses": [(2.0).hex(), (1.5 + 2 ** -50).hex()], "parameters": "x"}]
        self.assertIn("rank 1, step 1", losses.difference(a, b))
        self.assertIn("but not the parameters", losses.difference(a, [dict(r, parameters="y") for r in a]))
        self.assertIn("steps", losses.difference([dict(r, losses=[]) for r in a], a))


class Guard(unittest.TestCase):
    def guard(self, seconds, script):
        start = time.monotonic()
        done = subprocess.run([sys.executable, os.path.join(HERE, "guard.py"), "--timeout", str(seconds), "--", "bash", "-c", script],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return done.returncode, done.stdout.decode(), time.monotonic() - start

    def alive(self, pid):
        try:
            with open("/proc/%d/stat" % pid) as f:
                return f.read().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def test_status(self):
        self.assertEqual(self.guard(30, "exit 7")[0], 7)
        self.assertEqual(self.guard(30, "kill -9 $$")[0], 137)

    def test_ends_processes_of_other_sessions(self):
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "pid")
            script = "setsid bash -c 'trap \"\" TERM; echo $$ >%s; sleep 300' & while [[ ! -s %s ]]; do sleep 0.05; done; %s"
            for rest, seconds, want in (("exit 3", 30, 3), ("sleep 300", 2, 124)):
                with self.subTest(rest):
                    status, out, took = self.guard(seconds, script % (name, name, rest))
                    with open(name) as f:
                        pid = int(f.read())
                    os.remove(name)
                    self.assertEqual(status, want, out)
                    self.assertFalse(self.alive(pid), out)
                    self.assertLess(took, 25)


if __name__ == "__main__":
    unittest.main()
