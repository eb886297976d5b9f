"""The words of ``certify resolve``: KEY=VERSION lists read and checked against the matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certify.errors import CannotJudgeError, UsageError
from certify.resolver.claims import claims_of
from certify.resolver.model import Context
from certify.resolver.view import line_of_number
from certify.versions import SpecError, from_free_text, parse, parse_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from certify.versions import Spec, Version
    from matrices.load import Matrix

_ARCHES = {"arm64": "aarch64", "amd64": "x86_64", "aarch64": "aarch64", "x86_64": "x86_64"}
# Driver and firmware are delivered as one HDK: one axis.
HDK = ("driver", "firmware", "hdk")
_PLACES = ("product", "arch", "model_type")
_NEAR = 4
# Layers that no command of a person changes.
_FIXED_LAYERS = ("hardware", "system", "derived")
# Packages that are published version by version: a range that covers a number does not know it.
_LISTED = ("torch", "torch_npu", "torchvision", "triton_ascend", "triton", "vllm_ascend")


def pairs_of(words: Iterable[str], option: str) -> list[tuple[str, str]]:
    """``a=1,b=2 c=3`` as pairs. Raises UsageError."""
    answer = []
    for word in (part for cell in words for part in cell.replace("，", ",").split(",")):
        key, equals, value = (part.strip() for part in word.partition("="))
        if not word.strip():
            continue
        if not (key and equals and value):
            raise UsageError(f"{word!r} is no KEY=VERSION", where=option, hint="cann=9.1.0")
        answer.append((key.replace("-", "_"), value))
    return answer


def versions_of(words: Iterable[str], matrix: Matrix, option: str) -> dict[str, str]:
    """Component -> version as its family spells it. Raises UsageError, also for a component that
    is given twice with different versions."""
    answer: dict[str, str] = {}
    for key, text in pairs_of(words, option):
        check_keys([key], matrix, option)
        value = text if _wildcard(matrix, key, text) else _spelled(matrix, key, text, option)
        if value != answer.setdefault(key, value):
            raise UsageError(f"{key} is given twice: {answer[key]} and {value}", where=option)
    return answer


def _spelled(matrix: Matrix, key: str, value: str, option: str) -> str:
    family = matrix.family(key)
    value = line_of_number(family, value)
    if key == "firmware":
        release = parse("hdk", value)
        family = "hdk" if release is not None and _named_as_hdk(release) else family
    if parse(family, value) is not None:
        return value
    found = from_free_text(family, value)
    if found is None:
        name = matrix.components[key]["name"]
        raise UsageError(f"{value!r} is no version of {name}", where=option)
    return found.raw


def _wildcard(matrix: Matrix, key: str, text: str) -> Spec | None:
    """The specification that a wildcard such as 8.3.RCX stands for."""
    if matrix.family(key) == "name" or text[-1:].lower() not in ("x", "*"):
        return None
    try:
        spec = parse_spec(matrix.family(key), text)
    except SpecError:
        return None
    return spec if not spec.values else None


def check_keys(keys: Iterable[str], matrix: Matrix, option: str) -> None:
    """Raises UsageError for a component that the matrix does not have."""
    for key in keys:
        if key not in matrix.components:
            from difflib import get_close_matches

            near = get_close_matches(key, matrix.components, n=3, cutoff=0.5)
            hint = f"did you mean: {', '.join(near)}?" if near else "certify matrix list"
            raise UsageError(f"no component {key!r}", where=option, hint=hint)


def check_product(text: str, matrix: Matrix, option: str = "--product") -> str:
    """The product as products.tsv names it. Raises UsageError when it does not."""
    names = [row["name"] for row in matrix.tables["products"]]
    name = claims_of(matrix).product_name(text)
    if name not in names:
        raise UsageError(f"no product {text!r}", where=option, expected=", ".join(names))
    return name or text


def installed(
    words: Iterable[str], matrix: Matrix, context: Context
) -> tuple[dict[str, str], Context]:
    """``--have``: the components, and the context with the product, arch and model type that
    stand among them. Raises UsageError."""
    have = versions_of(words, matrix, "--have")
    for key, value in have.items():
        if _wildcard(matrix, key, value):
            raise UsageError(f"{key}={value} is no installed version", where="--have")
    _one_hdk(have, "--have")
    seen = {key: have.pop(key) for key in _PLACES if key in have}
    if "product" in seen:
        seen["product"] = check_product(seen["product"], matrix, "--have")
    if "arch" in seen:
        arch = _ARCHES.get(seen["arch"].lower())
        if arch is None:
            raise UsageError(
                f"no architecture {seen['arch']!r}", where="--have", expected="aarch64, x86_64"
            )
        seen["arch"] = arch
    stated = {"product": context.product, "arch": context.arch, "model_type": context.model_type}
    for key, value in seen.items():
        if stated[key] not in (None, value) and key != "model_type":
            raise UsageError(
                f"{key} is given twice: {stated[key]} and {value}", where=f"--have, --{key}"
            )
        stated[key] = value
    return have, Context(stated["product"], stated["arch"], stated["model_type"])


def _one_hdk(versions: dict[str, str], option: str) -> None:
    """The HDK from a driver or a firmware that is named like one (26.0.RC1). Two are an error."""
    given = {
        key: version
        for key in HDK
        if key in versions and (version := parse("hdk", versions[key])) and _named_as_hdk(version)
    }
    if len({version.key for version in given.values()}) > 1:
        names = " ".join(f"{key}={version.raw}" for key, version in given.items())
        raise UsageError(f"driver, firmware and HDK are one release: {names}", where=option)
    if given and "driver" not in given:
        versions.setdefault("hdk", next(iter(given.values())).raw)
    if "firmware" in given:
        # The name of the release, not the number that the firmware itself reports.
        del versions["firmware"]


def _named_as_hdk(version: Version) -> bool:
    """An HDK is named 23.0.0 or later; the firmware's own numbers begin with 1 to 9."""
    return bool(version.train) and version.train[0] >= 20


def targets_of(
    words: Iterable[str], matrix: Matrix, have: Mapping[str, str], keep: Iterable[str]
) -> list[dict[str, str]]:
    """``--to``: the targets to choose the cheapest of: one, or one for each release that a
    wildcard covers. Raises UsageError for what cannot be changed or must be kept as well and
    CannotJudgeError for a version that no table knows."""
    target = versions_of(words, matrix, "--to")
    for key in target:
        if matrix.components[key]["layer"] in _FIXED_LAYERS:
            layer = matrix.components[key]["layer"]
            what = "hardware" if layer == "hardware" else f"a fact of the layer {layer}"
            hint = f"state it: --{key} {target[key]}" if key in ("product", "arch") else None
            raise UsageError(f"{key} is {what}, no target", where="--to", hint=hint)
    _one_hdk(target, "--to")
    if "firmware" in target:
        raise UsageError(
            f"firmware {target['firmware']} comes with an HDK", where="--to",
            hint="name the release: --to hdk=26.0.RC1",
        )  # fmt: skip
    if "driver" in target:
        target["hdk"] = target.pop("driver")
    kept = {"hdk" if key in HDK else key for key in keep}
    for key in kept & set(target):
        present = have.get(key) or (have.get("driver") if key == "hdk" else None)
        if present != target[key]:
            raise UsageError(
                f"{key} is to become {target[key]} and may not be changed", where="--to, --keep"
            )
    answer: list[dict[str, str]] = [{}]
    for key, value in target.items():
        answer = [{**one, key: each} for one in answer for each in _published(matrix, key, value)]
    return answer


def _published(matrix: Matrix, key: str, text: str) -> list[str]:
    """The version itself when a table knows it, or those that a wildcard covers, newest first."""
    specs = claims_of(matrix).specs(key)
    named = {v.raw: v for spec in specs for v in (*spec.values, *spec.bounds)}
    ordered = sorted(named.values(), key=lambda version: version.key)
    wildcard = _wildcard(matrix, key, text)
    if wildcard is not None:
        inside = [v.raw for v in ordered if wildcard.matches(v) and not v.is_prerelease]
        if inside:
            return inside[::-1]
    version = parse(matrix.family(key), text)
    if version is not None and any(_knows(matrix, key, spec, version) for spec in specs):
        return [text]
    if version is not None:
        below = [v.raw for v in ordered if v.key < version.key][-_NEAR // 2 :]
        above = [v.raw for v in ordered if v.key > version.key][: _NEAR // 2]
        near = ", ".join((*below, *above))
    else:
        near = ", ".join(v.raw for v in ordered[-_NEAR:])
    name = matrix.components[key]["name"]
    raise CannotJudgeError(
        f"no table knows {name} {text}", where="--to", expected=f"near: {near}" if near else None,
        hint="certify matrix list",
    )  # fmt: skip


def _knows(matrix: Matrix, key: str, spec: Spec, version: Version) -> bool:
    """Whether a specification speaks of this very version: by name; of a driver also by wildcard;
    of other packages also by a range that ends above it."""
    if matrix.family(key) == "name":
        return spec.text.lower() == version.raw.lower()
    if not spec.matches(version):
        return False
    layer = matrix.components[key]["layer"]
    if spec.is_exact:
        return True
    if layer == "driver":
        return spec.text.upper().endswith("X") or "X|" in spec.text.upper()
    return layer in ("package", "python") and key not in _LISTED and "<" in spec.text
