"""Trains several specs as `tests.runner.several`, and counts what each step's schedule sends.

For every spec a file ``counted-RANK.json`` is left in its run folder: for each step of training a
list of [kind, ranks of the group, bytes], in the terms of `certify.plan.communication`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist

from runner.leaving import leave

COUNTED: list[list[list[Any]]] = []
ON = [False]


def _count(kind: str, tensor: Any, group: Any) -> None:
    if ON[0]:
        size = tensor.numel() * tensor.element_size()
        COUNTED[-1].append([kind, dist.get_world_size(group), size])


def _watch() -> None:
    """Replace torch's functions before megatron takes them."""

    def wrap(name: str, kind: str, position: int, keyword: str) -> None:
        stock = getattr(dist, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            tensor = kwargs[keyword] if keyword in kwargs else args[position]
            _count(kind, tensor, kwargs.get("group"))
            return stock(*args, **kwargs)

        setattr(dist, name, counted)

    wrap("all_reduce", "all_reduce", 0, "tensor")
    wrap("reduce_scatter_tensor", "reduce_scatter", 1, "input")
    wrap("all_gather_into_tensor", "all_gather", 0, "output_tensor")
    wrap("all_to_all_single", "all_to_all", 1, "input")
    wrap("isend", "send", 0, "tensor")
    stock_batch = dist.batch_isend_irecv

    def batch(operations: list[Any]) -> Any:
        for operation in operations:
            if operation.op.__name__ in ("isend", "counted"):
                _count("send", operation.tensor, operation.group)
        before, ON[0] = ON[0], False
        try:
            return stock_batch(operations)
        finally:
            ON[0] = before

    dist.batch_isend_irecv = batch


def _count_steps() -> None:
    """Count within the schedule of a step. The loop is imported once the CPU is prepared."""
    from runner.backends.mcore import cpu

    prepare = cpu.apply

    def prepared() -> Any:
        result = prepare()
        from runner.backends.mcore import train

        stock = train.get_forward_backward_func

        def counted() -> Any:
            function = stock()

            def run(*args: Any, **kwargs: Any) -> Any:
                COUNTED.append([])
                ON[0] = True
                try:
                    return function(*args, **kwargs)
                finally:
                    ON[0] = False

            return run

        if stock.__module__ != __name__:
            train.get_forward_backward_func = counted
        return result

    cpu.apply = prepared


if __name__ == "__main__":
    _watch()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.environ["CERTIFY_STORE"], ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    _count_steps()
    code = 0
    for path in sys.argv[1:]:
        from runner.__main__ import main

        COUNTED.clear()
        code = main([path]) or code
        folder = Path(json.loads(Path(path).read_text(encoding="utf-8"))["run_dir"])
        (folder / f"counted-{rank}.json").write_text(json.dumps(COUNTED), encoding="utf-8")
    leave(code)
