"""What each layer of stock classes saves for its backward pass: JSON in, JSON out.

A process of its own: tracing replaces parts of transformers and of the runner.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from certify.runspec import ModelSpec
from runner import models, plan_trace


def saved_by_layer(config: dict[str, Any], tokens: int) -> list[int]:
    """Bytes of the storages that each layer of the stock class saves, bfloat16, fused kernels."""
    spec = ModelSpec(config, "", "", "bfloat16", plan_trace.ATTENTION)
    model: Any = models.build(spec, config)
    plan_trace._fuse_delta(model)
    seen: dict[int, tuple[int, int, Any]] = {}
    inside: list[int] = []

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if inside and storage._cdata not in weights and storage._cdata not in seen:
            seen[storage._cdata] = (inside[-1], storage.nbytes(), tensor)
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True):
        models.materialise(model, torch.device("cpu"))
        weights = {p.untyped_storage()._cdata for p in model.parameters()}
        for index, layer in enumerate(model.get_decoder().layers):
            layer.register_forward_pre_hook(lambda *_, index=index: inside.append(index))
            layer.register_forward_hook(lambda *_: inside.clear())
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            ids = torch.zeros((1, tokens), dtype=torch.int64)
            model(input_ids=ids, use_cache=False)
    found = [0] * config["num_hidden_layers"]
    for index, size, _ in seen.values():
        found[index] += size
    return found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    plan_trace._prepare()
    found = {
        name: saved_by_layer(config, asked["tokens"]) for name, config in asked["configs"].items()
    }
    print(json.dumps(found))
