"""Published weights of model types without a class in transformers, remapped to a stock class.

``python -m runner.stand_ins SOURCE TARGET`` writes a Hugging Face folder of the stock class.
Which types have one, and its configuration, is `certify.recipes.stand_ins`; the tests hold the
two together.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_USAGE, CertifyError, UsageError
from runner.complaint import complain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    Tensors = dict[str, torch.Tensor]

# Tensors that some checkpoints carry and no class loads: they follow from the configuration.
_DERIVED = re.compile(r".*\.rotary_emb\.inv_freq|.*\.attn\.masked_bias|.*\.attn\.bias")


def _same_names(config: Mapping[str, Any], tensors: Tensors) -> Tensors:
    return dict(tensors)


def _renamed(tensors: Tensors, table: Mapping[str, str]) -> Tensors:
    """table: regular expression of a whole name -> its replacement."""
    found = {}
    for name, tensor in tensors.items():
        hits = [re.sub(old, new, name) for old, new in table.items() if re.fullmatch(old, name)]
        if not hits:
            raise UsageError(
                f"no stock tensor for {name}",
                where="the published weights",
                expected="the tensors of the published model type",
            )
        found[hits[0]] = tensor
    return found


def _internlm2(config: Mapping[str, Any], tensors: Tensors) -> Tensors:
    """Queries, keys and values are one matrix: for each group its query heads, key and value."""
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    divided: Tensors = {}
    for name, tensor in tensors.items():
        if not name.endswith(".attention.wqkv.weight"):
            divided[name] = tensor
            continue
        width = tensor.shape[0] // (heads + 2 * groups)
        parts = tensor.view(groups, heads // groups + 2, width, -1)
        stem = name.removesuffix("wqkv.weight")
        for part, rows in (("q", parts[:, :-2]), ("k", parts[:, -2]), ("v", parts[:, -1])):
            divided[f"{stem}{part}.weight"] = rows.reshape(-1, tensor.shape[1])
    layer = r"model\.layers\.(\d+)\."
    ours = r"model.layers.\1."
    return _renamed(
        divided,
        {
            r"model\.tok_embeddings\.weight": "model.embed_tokens.weight",
            r"output\.weight": "lm_head.weight",
            r"model\.norm\.weight": "model.norm.weight",
            layer + r"attention\.([qkv])\.weight": ours + r"self_attn.\2_proj.weight",
            layer + r"attention\.wo\.weight": ours + "self_attn.o_proj.weight",
            layer + r"feed_forward\.w1\.weight": ours + "mlp.gate_proj.weight",
            layer + r"feed_forward\.w3\.weight": ours + "mlp.up_proj.weight",
            layer + r"feed_forward\.w2\.weight": ours + "mlp.down_proj.weight",
            layer + r"attention_norm\.weight": ours + "input_layernorm.weight",
            layer + r"ffn_norm\.weight": ours + "post_attention_layernorm.weight",
        },
    )


def _qwen(config: Mapping[str, Any], tensors: Tensors) -> Tensors:
    """One matrix for queries, keys and values in that order; w2 is the gate and w1 is gated."""
    divided: Tensors = {}
    for name, tensor in tensors.items():
        if ".attn.c_attn." not in name:
            divided[name] = tensor
            continue
        for part, rows in zip("qkv", tensor.chunk(3), strict=True):
            divided[name.replace("c_attn", part)] = rows
    layer = r"transformer\.h\.(\d+)\."
    ours = r"model.layers.\1."
    return _renamed(
        divided,
        {
            r"transformer\.wte\.weight": "model.embed_tokens.weight",
            r"transformer\.ln_f\.weight": "model.norm.weight",
            r"lm_head\.weight": "lm_head.weight",
            layer + r"attn\.([qkv])\.(weight|bias)": ours + r"self_attn.\2_proj.\3",
            layer + r"attn\.c_proj\.weight": ours + "self_attn.o_proj.weight",
            layer + r"mlp\.w2\.weight": ours + "mlp.gate_proj.weight",
            layer + r"mlp\.w1\.weight": ours + "mlp.up_proj.weight",
            layer + r"mlp\.c_proj\.weight": ours + "mlp.down_proj.weight",
            layer + r"ln_1\.weight": ours + "input_layernorm.weight",
            layer + r"ln_2\.weight": ours + "post_attention_layernorm.weight",
        },
    )


REMAPS: dict[str, Callable[[Mapping[str, Any], Tensors], Tensors]] = {
    "aquila": _same_names,
    "internlm": _same_names,
    "internlm2": _internlm2,
    "qwen": _qwen,
}


def remapped(config: Mapping[str, Any], tensors: Tensors) -> Tensors:
    """Published tensors under the names and in the shapes of the stock class.

    config: the published configuration. Raises UsageError for a type without a stand-in and for
    a tensor that the published model does not have.
    """
    model_type = str(config.get("model_type"))
    if model_type not in REMAPS:
        raise UsageError(
            f"no stock class stands in for model type {model_type!r}",
            where="config.json: model_type",
            expected=f"one of {', '.join(REMAPS)}",
        )
    kept = {name: t for name, t in tensors.items() if not _DERIVED.fullmatch(name)}
    found = REMAPS[model_type](config, kept)
    return {name: tensor.contiguous() for name, tensor in found.items()}


def convert(source: Path, target: Path, stock_config: Mapping[str, Any]) -> None:
    """Write a folder of the stock class. stock_config: `certify.recipes.stand_ins.stand_in`."""
    from safetensors.torch import save_file

    from runner.weights import Weights

    config = json.loads((source / "config.json").read_text("utf-8"))
    weights = Weights(str(source))
    tensors = remapped(config, {name: weights.read(name) for name in sorted(weights.names)})
    target.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(target / "model.safetensors"), metadata={"format": "pt"})
    text = json.dumps(dict(stock_config), indent=1, sort_keys=True)
    (target / "config.json").write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """SOURCE TARGET STOCK_CONFIG.json; returns the exit code."""
    if len(arguments) != 3:
        print("usage: python -m runner.stand_ins SOURCE TARGET STOCK_CONFIG.json", file=sys.stderr)
        return EXIT_USAGE
    try:
        stock = json.loads(Path(arguments[2]).read_text("utf-8"))
        convert(Path(arguments[0]), Path(arguments[1]), stock)
    except CertifyError as error:
        complain(error)
        return error.exit_code
    except (OSError, ValueError) as error:
        complain(UsageError(f"cannot convert: {error}", where=" ".join(arguments)))
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
