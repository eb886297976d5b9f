"""The random generators of one process: seeded, captured and restored together."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from runner.device import Device


def seed_all(seed: int, rank: int) -> None:
    """Seed python, numpy, torch and the device's generator with seed + rank.

    Ranks differ, so that one rank's state restored on another shows. torch.manual_seed seeds
    the generators of all devices too.
    """
    own = seed + rank
    random.seed(own)
    np.random.seed(own % 2**32)
    torch.manual_seed(own)


def advance(device: Device) -> None:
    """Draw one number from every generator and drop it. Called once in every training step.

    A model without dropout draws nothing: its generators would stay as they were seeded, and a
    checkpoint that does not bring them back could not be told from one that does. The cost is
    constant and no number of the training depends on it.
    """
    random.random()
    np.random.random()
    torch.rand(())
    if device.name != "cpu":
        torch.rand((), device=device.torch_device)


def capture(device: Device) -> bytes:
    """All states as JSON text: nothing in it is executed when it is read back."""
    version, internal, gauss = random.getstate()
    legacy: Any = np.random.get_state()
    name, keys, position, has_gauss, cached = legacy
    device_state = device.get_rng_state()
    state = {
        "python": [version, list(internal), gauss],
        "numpy": [str(name), keys.tolist(), int(position), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
        "device": None if device_state is None else device_state.cpu().numpy().tobytes().hex(),
    }
    return json.dumps(state, sort_keys=True).encode()


def restore(blob: bytes, device: Device) -> None:
    """Restore what `capture` returned."""
    state = json.loads(blob)
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.asarray(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(_bytes_tensor(state["torch"]))
    if state["device"] is not None:
        device.set_rng_state(_bytes_tensor(state["device"]))


def _bytes_tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(bytes.fromhex(text)), dtype=torch.uint8)
