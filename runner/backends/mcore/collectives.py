"""The collectives that Megatron's groups will use, tested before they are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from runner.backends.mcore import parallel
from runner.collectives import SelfTest, require_right

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from certify.records import Collective
    from certify.runspec import RunSpec
    from runner.callpoints import Fault
    from runner.device import Device


def self_test(
    spec: RunSpec, device: Device, fault: Fault, write: Callable[[Collective], None]
) -> None:
    """Test every operation of a layout and write a record of each; one rank uses none.

    Raises InfrastructureError after the last test when one was wrong.
    """
    if spec.world_size > 1:
        require_right(_outcomes(spec, device, fault), write)


def _outcomes(spec: RunSpec, device: Device, fault: Fault) -> Iterator[Any]:
    f32, i64, u8 = torch.float32, torch.int64, torch.uint8
    here, p = device.torch_device, spec.parallel
    tests = {name: SelfTest(group, here, fault) for name, group in parallel.groups().items()}
    used: list[tuple[str, torch.dtype, tuple[str, ...]]] = [
        ("world", f32, ("all_reduce_sum", "all_reduce_max")),
        ("world", u8, ("all_gather",)),
        ("tp", f32, ("all_reduce_sum", "all_reduce_max", "all_gather")),
        ("pp", f32, ("send_receive",)),
    ]
    for name in ("dp", "edp") if p.ep_size > 1 else ("dp",):
        # The distributed optimizer divides the sum of the gradients and gathers parameters.
        reduced = ("reduce_scatter_sum", "all_gather") if p.distributed_optimizer else ()
        used.append((name, f32, ("all_reduce_sum", *reduced)))
    if p.moe_dispatcher == "alltoall":
        used += [("ep", dtype, ("all_to_all_uneven",)) for dtype in (f32, i64)]
    else:
        used.append(("ep", f32, ("all_gather", "reduce_scatter_sum")))
    for name, dtype, operations in used:
        test = tests[name]
        for operation in operations if test.ranks > 1 else ():
            yield operation, name, dtype, getattr(test, operation)(dtype)
