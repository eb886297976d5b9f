"""Tiny checkpoint folders, written without any library."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from certify.weights.safetensors import BITS
from certify.weights.shapes import expected_tensors

QWEN3_MOE: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 8,
    "intermediate_size": 16,
    "moe_intermediate_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "num_experts": 2,
    "vocab_size": 12,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
Shapes = dict[str, tuple[int, ...]]


def entries(shapes: Shapes, dtype: str = "BF16") -> dict[str, Any]:
    """The JSON of a header: tensors one after the other."""
    body, at = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape) * BITS[dtype] // 8
        body[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    return body


def write_shard(path: Path, body: Any, data_bytes: int | None = None) -> None:
    """A file of this header; data of zeros, as much as it describes unless told otherwise."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    if data_bytes is None:
        data_bytes = max((one["data_offsets"][1] for one in body.values()), default=0)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data_bytes))


def tokenizer_json(size: int) -> dict[str, Any]:
    return {
        "model": {"type": "BPE", "vocab": {f"t{n}": n for n in range(size - 1)}, "merges": []},
        "added_tokens": [{"id": size - 1, "content": "</s>", "special": True}],
    }


def checkpoint(
    folder: Path, config: dict[str, Any] | None = None, shards: int = 2, vocabulary: int = 10
) -> Path:
    """A folder without a fault."""
    config = QWEN3_MOE if config is None else config
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(vocabulary)))
    (folder / "tokenizer_config.json").write_text("{}")
    expected = expected_tensors(config)
    assert expected is not None
    names = list(expected.required)
    weight_map = {}
    for number in range(shards):
        shard = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        mine = names[number::shards]
        write_shard(folder / shard, entries({name: expected.required[name] for name in mine}))
        weight_map.update(dict.fromkeys(mine, shard))
    total = sum(math.prod(shape) * 2 for shape in expected.required.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
