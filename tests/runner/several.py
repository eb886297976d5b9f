"""Trains several specs one after another in one process: ``several SPEC.json ...``.

The exit code is that of the last one that failed. All are tried, in one process group: making
another under the same torchrun is a race between ranks.
"""

from __future__ import annotations

import os
import sys

import torch.distributed as dist

from runner.__main__ import main
from runner.leaving import leave

if __name__ == "__main__":
    if shared := os.environ.get("CERTIFY_STORE"):
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group(
            "gloo", store=dist.FileStore(shared, ranks), rank=rank, world_size=ranks
        )
    elif "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    code = 0
    for path in sys.argv[1:]:
        code = main([path]) or code
    leave(code)
