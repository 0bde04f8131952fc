# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that writes how each test ends to a file as soon as it ends, one JSON object per line.

So the results of the tests that have ended are there if a later one hangs or ends the process. RESULTS is the file.
"""

import json
import os


def name(nodeid):
    """Return Class.test, or file.test for a test without a class."""
    group, test = nodeid.split("::")[-2:]
    return f"{os.path.basename(group).removesuffix('.py')}.{test}"


def write(nodeid, state, text=""):
    with open(os.environ["RESULTS"], "a") as file:
        file.write(json.dumps({"name": name(nodeid), "state": state, "text": text}) + "\n")


def pytest_collectreport(report):
    if report.failed:  # a file that cannot be imported
        write(f"{report.nodeid}::collection", "failed", str(report.longrepr))


def pytest_runtest_logstart(nodeid, location):
    write(nodeid, "started")


def pytest_runtest_logreport(report):
    """A test has three reports: of its setup, of itself, and of its teardown. Any may say that it fails."""
    if report.failed:
        write(report.nodeid, "failed", str(report.longrepr))
    elif report.skipped:
        write(report.nodeid, "skipped", str(report.longrepr))
    elif report.when == "call":
        write(report.nodeid, "passed")
