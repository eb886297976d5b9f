"""Checks a Hugging Face checkpoint folder with the standard library alone; downloads nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.weights import digests, shards, tokenizer
from certify.weights.files import CONFIG_LIMIT, BadFile, UnsafeFile, read_json
from certify.weights.findings import Finding, Findings, named, shown
from certify.weights.shapes import Expected, expected_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from certify.weights.safetensors import Tensor

CONFIG = "config.json"
# Number types of config.json -> those of safetensors.
_TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
_FLOATS = frozenset(_TYPES.values())
# What a recipe's model must agree in. Keys that a configuration may lack are compared if there.
_KEYS = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "intermediate_size", "moe_intermediate_size",
    "num_experts", "num_local_experts", "n_routed_experts", "vocab_size", "tie_word_embeddings",
)  # fmt: skip
_EMBEDDINGS = ("model.embed_tokens.weight", "transformer.wte.weight", "word_embeddings.weight")


@dataclass(frozen=True)
class Report:
    """What was looked at. vocabulary: of the tokenizer, None where it could not be read;
    shapes_checked: the model type is known; digests_equal: None without a list of digests."""

    model_type: str | None
    shards: int
    tensors: int
    file_bytes: int
    shapes_checked: bool
    vocabulary: int | None
    embedding_rows: int | None
    digests_equal: int | None
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(one.severity == "error" for one in self.findings)


def verify(
    folder: Path,
    published: Mapping[str, Any] | None = None,
    manifest: dict[str, str] | None = None,
) -> Report:
    """Check a folder.

    published: the public configuration of the recipe's model, to compare with; manifest: file
    name -> sha256. Raises BadFile when the folder cannot be listed.
    """
    found = Findings()
    present = shards.listing(folder)
    config = _config(folder, found)
    if published is not None and config:
        _same_model(config, published, found)
    weights = shards.check(folder, present, found)
    expected = _expected(config, found)
    if expected and (weights.tensors or weights.promised):
        _against(expected, config, weights, found)
    _types(config, weights.tensors, found)
    rows = _rows(weights.tensors, expected)
    vocabulary = _tokenizer(folder, present, rows, found)
    equal = None
    if manifest is not None:
        equal = digests.check(folder, manifest, present & set(weights.names), found)
    kind = config.get("model_type")
    return Report(
        model_type=shown(kind) if isinstance(kind, str) else None,
        shards=len(weights.headers),
        tensors=len(weights.tensors),
        file_bytes=weights.file_bytes,
        shapes_checked=expected is not None,
        vocabulary=vocabulary,
        embedding_rows=rows,
        digests_equal=equal,
        findings=tuple(found.items),
    )


def _config(folder: Path, found: Findings) -> dict[str, Any]:
    try:
        config = read_json(folder, CONFIG, CONFIG_LIMIT)
    except UnsafeFile as error:
        found.error("W02", CONFIG, str(error))
        return {}
    except BadFile as error:
        found.error("W09", CONFIG, str(error), hint="download it again")
        return {}
    if config is None:
        found.error("W09", CONFIG, "missing", "the configuration of the model")
        return {}
    return config


def _same_model(config: dict[str, Any], published: Mapping[str, Any], found: Findings) -> None:
    for key in _KEYS:
        here, there = config.get(key), published.get(key)
        if here is not None and there is not None and here != there:
            found.error("W13", f"{CONFIG}: {key}", shown(str(here)), f"{there}, as published")


def _expected(config: dict[str, Any], found: Findings) -> Expected | None:
    try:
        expected = expected_tensors(config)
    except BadFile as error:
        found.error("W09", CONFIG, shown(str(error)))
        return None
    if expected is None and config:
        kind = shown(str(config.get("model_type")))
        found.note("W09", CONFIG, f"model type {kind}: its shapes are not known here")
    return expected


def _quantised(config: dict[str, Any]) -> str | None:
    section = config.get("quantization_config")
    method = section.get("quant_method") if isinstance(section, dict) else None
    return str(method) if method else None


def _against(
    expected: Expected, config: dict[str, Any], weights: shards.Shards, found: Findings
) -> None:
    """Names and shapes against the configuration. Missing shards are not reported again."""
    method = _quantised(config)
    if method not in (None, "fp8"):
        found.note("W07", CONFIG, f"quantised by {shown(str(method))}: shapes were not checked")
        return
    there = {*weights.tensors, *weights.promised}
    if missing := [name for name in expected.required if name not in there]:
        found.error("W05", named(missing), f"{len(missing)} of {len(expected.required)} tensors")
    known = {**expected.required, **expected.optional}
    extra = sorted(name for name in there if name not in known)
    ignored = [name for name in extra if _ignored(name, expected, method)]
    if ignored:
        found.note("W06", named(ignored), f"{len(ignored)} tensors outside the main model")
    if unknown := sorted(set(extra) - set(ignored)):
        found.error("W06", named(unknown), f"{len(unknown)} tensors that it does not describe")
    wrong = [
        (name, tensor.shape)
        for name, tensor in weights.tensors.items()
        if name in known and tensor.shape != known[name]
    ]
    if wrong:
        name, shape = wrong[0]
        more = f" (and {len(wrong) - 1} more tensors)" if len(wrong) > 1 else ""
        found.error("W07", shown(name), f"{list(shape)}{more}", f"{list(known[name])} by {CONFIG}")


def _ignored(name: str, expected: Expected, method: str | None) -> bool:
    if method and name.endswith(("_scale_inv", "_scale")):
        return True
    return any(
        name.endswith(one[1:]) if one.startswith("*") else name.startswith(one)
        for one in expected.ignored
    )


def _types(config: dict[str, Any], tensors: Mapping[str, Tensor], found: Findings) -> None:
    """Matrices must have the number type of the configuration; vectors and routers may differ."""
    stated = config.get("dtype", config.get("torch_dtype"))
    wanted = _TYPES.get(stated.removeprefix("torch.")) if isinstance(stated, str) else None
    if wanted is None or not tensors:
        return
    others = {
        name: one.dtype
        for name, one in tensors.items()
        if one.dtype in _FLOATS and one.dtype != wanted
    }
    matrices = [
        name
        for name in others
        if len(tensors[name].shape) > 1 and not name.endswith(("gate.weight", "_scale_inv"))
    ]
    if matrices and _quantised(config) is None:
        kinds = Counter(others[name] for name in matrices)
        text = ", ".join(f"{count} tensors are {kind}" for kind, count in sorted(kinds.items()))
        found.error("W08", named(matrices), text, f"{wanted} by {CONFIG}")
    elif others:
        found.note("W08", named(list(others)), f"{len(others)} small tensors are not {wanted}")


def _rows(tensors: Mapping[str, Tensor], expected: Expected | None) -> int | None:
    """Rows of the embedding as stored, else as configured."""
    for name, tensor in tensors.items():
        if name.endswith(_EMBEDDINGS) and len(tensor.shape) == 2:
            return tensor.shape[0]
    return expected.vocab_size if expected else None


def _tokenizer(folder: Path, present: set[str], rows: int | None, found: Findings) -> int | None:
    """The vocabulary by the first tokenizer file that is there, against the embedding."""
    size, read = None, False
    for name, reader in tokenizer.READERS.items():
        if name not in present or read:
            continue
        read = True
        try:
            size = reader(folder)
        except UnsafeFile as error:
            found.error("W02", name, str(error))
        except BadFile as error:
            found.error("W10", name, shown(str(error)), hint="download it again")
        if size is not None and rows is not None and size > rows:
            found.error("W11", name, f"{size:,} ids", f"at most {rows:,}: rows of the embedding")
    if not read:
        expected = f"one of {', '.join(tokenizer.READERS)}"
        found.error("W10", "tokenizer", "no tokenizer file is here", expected)
    if "tokenizer_config.json" not in present:
        found.note("W10", "tokenizer_config.json", "missing: special tokens are not named")
    return size
