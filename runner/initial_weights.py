"""Initial weights: drawn by the model's own stock initialisation, kept as a published checkpoint.

Both sides of a campaign load this folder, so neither side's initialisation is part of the
comparison. The stock rule is used unchanged (norm weights exactly 1, matrices normal with
``initializer_range``), because a pass should speak about the model as people train it; what such
a start hides (a norm weight that is never applied, say) shows from the first update on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from certify.records import root_digest, tensor_digest
from runner import own

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

VOCAB_MULTIPLE = 64


def final_config(
    hf_config: dict[str, Any], tokenizer_size: int, end_of_text: int, keep_vocab_size: bool
) -> dict[str, Any]:
    """The configuration with vocabulary and token ids set from the tokenizer.

    The vocabulary is padded to a multiple of 64: Megatron-LM pads to a multiple of 128 times the
    tensor-parallel size unless told otherwise, FSDP and tensor-parallel shards want equal rows,
    and matrix units want aligned ones. Padded rows are never a label; both sides carry them in
    the softmax. pad_token_id is dropped: transformers would zero and freeze that row of the
    embedding, Megatron-LM would not, and packed samples hold no padding.
    """
    padded = -(-tokenizer_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
    config = dict(hf_config)
    if not keep_vocab_size or "vocab_size" not in hf_config:
        config["vocab_size"] = padded
    config["bos_token_id"] = config["eos_token_id"] = end_of_text
    config["pad_token_id"] = None
    config.pop("dtype", None)
    config["torch_dtype"] = "float32"
    return config


def draw(config: dict[str, Any], seed: int, folder: Path) -> str:
    """Draw the weights with a seed and write the checkpoint; return the name of the model class.

    Raises UsageError when transformers cannot build a model from the configuration.
    """
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM

    transformers.utils.logging.disable_progress_bar()
    own.register(str(config.get("model_type")))
    body = {key: value for key, value in config.items() if key != "model_type"}
    try:
        known = AutoConfig.for_model(config.get("model_type", ""), **body)
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(known, dtype=torch.float32)
    except Exception as error:
        # A wrong value surfaces as whatever its first use in the model raises.
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"transformers {transformers.__version__} cannot build the model: {first}",
            where=f"hf_config: model_type {config.get('model_type')!r}",
            expected="a configuration that AutoModelForCausalLM.from_config accepts",
        ) from error
    # save_pretrained writes the published, per-expert names whatever the class holds in memory.
    model.save_pretrained(str(folder))
    published = {"architectures": [type(model).__name__], **config}
    write_json(folder / "config.json", published)
    return type(model).__name__


def write_json(path: Path, body: Any) -> None:
    """Write JSON whose text depends on the values only."""
    text = json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def tensors(folder: Path) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    """(name, full tensor) of a float checkpoint folder, one at a time."""
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(str(file), framework="np") as checkpoint:
            # safetensors offers keys() only, and is not a mapping.
            for name in checkpoint.keys():  # noqa: SIM118
                yield name, checkpoint.get_tensor(name)


def describe(folder: Path) -> tuple[str, int, int]:
    """(weights digest, number of parameters, number of those in tensors of two or more
    dimensions, which are the ones that weight decay applies to) of a float32 checkpoint folder."""
    digests: dict[str, str] = {}
    count = in_matrices = 0
    for name, array in tensors(folder):
        digests[name] = tensor_digest(str(array.dtype), array.shape, array.tobytes())
        count += array.size
        in_matrices += array.size if array.ndim >= 2 and array.dtype.kind == "f" else 0
    return root_digest(digests), count, in_matrices
