# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that starts the ranks of PyTorch's tests by forks of a process that has imported PyTorch.

PyTorch's tests start new processes for each test, and the import of PyTorch takes each of them 1 to 3 s of CPU time: more
than most tests. The process that is forked has no group, no threads, and the environment of the test is given to its
children. Random numbers of numpy and of Python's random begin with the same seed on all ranks.
"""

import multiprocessing
import os
import sys

from torch.testing._internal import common_distributed

context = multiprocessing.get_context("forkserver")


def run(environment, target, args, kwargs):
    """Run a rank with the environment of the test: a child has that of the process it was forked from."""
    os.environ.clear()
    os.environ.update(environment)
    target(*args, **kwargs)


def process(target, name, args, kwargs):
    return context.Process(target=run, name=name, args=(dict(os.environ), target, args, kwargs))


def start_ranks(test):
    test._start_processes(process)


def pytest_collection_finish(session):
    """Let the process that is forked import the tests too."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    context.set_forkserver_preload(sorted({item.module.__name__ for item in session.items}))
    common_distributed.MultiProcessTestCase._spawn_processes = start_ranks
