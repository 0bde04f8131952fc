# SPDX-License-Identifier: Apache-2.0
"""One command that trains one model by DDP, FSDP and tensor parallel, each on several fabrics, and prints a table.

The table has the bytes that crossed each link and the network time. It starts `ddlemu run` itself, for 2 ranks on 2
nodes. The model is that of tensor_pipeline.py, and all three ways train on the same images.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import torch
from common import progress, version

WAYS, PROFILES = ["ddp", "fsdp", "tp"], ["ndr400", "roce100", "eth10"]
WORDS = """Bytes per link: payload of all messages of the job: its start and {steps} training steps.
Network time: from the first message to the last byte, exact, on the virtual clock. Computation takes no time, so this
is not a step time. Bytes and times are those of NCCL with the calls that PyTorch makes for CPU tensors."""


def parallel(model, way):
    """Return the model, parallel in one of the ways, and whether each rank has its own part of the batch."""
    import by_hand
    from tensor_pipeline import Block

    blocks = [block for block in model if isinstance(block, Block)]
    if way == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model), True
    if way == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        cpu = torch.device("cpu")
        return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=cpu), True
    for block in blocks:
        if version() < (2, 6):
            block.up, block.down = by_hand.Columns(block.up, None), by_hand.Rows(block.down, None)
        else:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

            plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
            parallelize_module(block, init_device_mesh("cpu", (2,)), plan)
    return model, False


def rank_main(args):
    """Train, on each rank."""
    import torch.distributed as dist
    from cnn_ddp import digits
    from common import join, leave, mean, say
    from tensor_pipeline import BATCH, stages

    join("ddlemu")
    torch.manual_seed(1)
    model, divided = parallel(torch.nn.Sequential(*[layer for stage in stages() for layer in stage]), args.way)
    mine = slice(dist.get_rank(), None, 2) if divided else slice(None)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.002)
    loss = torch.tensor(float("nan"))
    for step in range(args.steps):
        images, labels = digits(BATCH, step)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
        loss.backward()
        optimiser.step()
    say(f"last loss {mean(loss):.5f}")
    leave()


def measure(args, way, profile):
    """Run a job. Return a line of the table, and whether it is valid."""
    with tempfile.TemporaryDirectory() as folder:
        job = [args.ddlemu, "run", "--profile", profile, "--nodes", "2", "--clock", "virtual", "--compute-hold", "1m",
               "--trace", folder, *(["--nccl", args.nccl] if args.nccl else []), "--",
               sys.executable, "-m", "ddlemu_torch.launch", "--nproc-per-node", "1",
               os.path.abspath(__file__), "--way", way, "--steps", str(args.steps)]
        ran = subprocess.run(job, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{shlex.join(job)}: exit status {ran.returncode}\n{ran.stdout}{ran.stderr}")
        report = json.loads(subprocess.check_output([args.ddlemu, "report", folder, "--json"]))
    result = report["outcomes"][0]["result"]
    payload = {link["link"]: link["bytes"] for link in result["links"]}
    loss = re.search(r"last loss (\S+)", ran.stdout).group(1)
    line = (f"{way:<5} {profile:<9} {payload['node0:node1']:>12} {payload['node1:node0']:>12} "
            f"{report['span_ns'] / 1000:>16.3f} {loss:>10} {result['verdict']:>8}")
    return line, result["verdict"] == "VALID"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="training steps (default: %(default)s)")
    parser.add_argument("--profiles", nargs="+", default=PROFILES, help="fabrics (default: %(default)s)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="(default: %(default)s)")
    parser.add_argument("--nccl", metavar="VERSION", help="of NCCL, 2.22 or 2.29 (default: as ddlemu run)")
    parser.add_argument("--ddlemu", default="ddlemu", metavar="FILE", help="the program ddlemu (default: on PATH)")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)  # of a rank
    args = parser.parse_args()
    if args.way:
        rank_main(args)
        return
    ways = [way for way in args.ways if way != "fsdp" or version() >= (2, 2)]
    jobs = [(way, profile) for way in ways for profile in args.profiles]
    lines, valid = zip(*[measure(args, *job) for job in progress(jobs, "jobs")])
    print(f"{'way':<5} {'fabric':<9} {'node0:node1':>12} {'node1:node0':>12} {'network time us':>16} {'last loss':>10} "
          f"{'verdict':>8}")
    print("\n".join(lines))
    if ways != args.ways:
        print(f"skipped: FSDP on the CPU needs torch 2.2 or later, and this is torch {torch.__version__}")
    print(WORDS.format(steps=args.steps))
    sys.exit(0 if all(valid) else 1)


if __name__ == "__main__":
    main()
