"""Index and shards of a checkpoint folder: present, whole, and in agreement."""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from certify.weights.files import INDEX_LIMIT, BadFile, UnsafeFile, locate, read_json
from certify.weights.findings import named, shown
from certify.weights.safetensors import Header, Tensor, read_header

if TYPE_CHECKING:
    from pathlib import Path

    from certify.weights.findings import Findings

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_PICKLES = ("pytorch_model*.bin", "*.pth", "*.pt", "*.ckpt")
_UNFINISHED = ("*.incomplete", "*.part", "*.aria2", "*.tmp", "*.crdownload")


@dataclass
class Shards:
    """names: shards that should be there; headers: those that could be read; tensors: all of
    them by name; promised: names of the index."""

    names: tuple[str, ...] = ()
    headers: dict[str, Header] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    promised: frozenset[str] = frozenset()

    @property
    def file_bytes(self) -> int:
        return sum(header.file_bytes for header in self.headers.values())


def listing(folder: Path) -> set[str]:
    """Names of everything that lies in the folder. Raises BadFile."""
    try:
        return set(os.listdir(folder))
    except OSError as error:
        raise BadFile(f"cannot be listed: {error.strerror}") from None


def check(folder: Path, present: set[str], found: Findings) -> Shards:
    """Read the index and the header of every shard; report what is missing or damaged."""
    weight_map, total = _index(folder, found)
    if weight_map is not None:
        names = tuple(sorted(set(weight_map.values())))
    elif SINGLE in present:
        names = (SINGLE,)
    else:
        names = ()
        if INDEX not in present:
            _nothing(present, found)
    shards = Shards(names, promised=frozenset(weight_map or ()))
    _read(folder, shards, found)
    _left_over(present, names, found)
    _places(weight_map, shards, found)
    if total is not None and len(shards.headers) == len(names):
        actual = sum(one.end - one.begin for one in shards.tensors.values())
        if actual != total:
            found.note(
                "W14", INDEX, f"total_size is {total:,}", f"{actual:,} bytes lie in the shards"
            )
    return shards


def _index(folder: Path, found: Findings) -> tuple[dict[str, str] | None, int | None]:
    """weight_map and total_size of the index; None, None when there is no usable one."""
    try:
        body = read_json(folder, INDEX, INDEX_LIMIT)
    except UnsafeFile as error:
        found.error("W02", INDEX, str(error))
        return None, None
    except BadFile as error:
        found.error("W14", INDEX, str(error), hint="download it again")
        return None, None
    if body is None:
        return None, None
    table = body.get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        found.error("W14", INDEX, "no weight_map from tensor to file", "an object of texts")
        return None, None
    if not table:
        found.error("W14", INDEX, "its weight_map is empty", "the tensors of the model")
    metadata = body.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    whole = isinstance(total, int) and not isinstance(total, bool)
    return table, total if whole else None


def _nothing(present: set[str], found: Findings) -> None:
    pickles = sorted(
        name for name in present if any(fnmatch.fnmatch(name, one) for one in _PICKLES)
    )
    if pickles:
        found.error(
            "W01",
            named(pickles),
            "weights as pickles, which are not read: they can run code",
            f"{SINGLE} or {INDEX}",
            "download the safetensors files of the model",
        )
    else:
        found.error("W01", SINGLE, "no weights in this folder", f"{SINGLE} or {INDEX}")


def _read(folder: Path, shards: Shards, found: Findings) -> None:
    missing, unsafe = [], []
    for name in shards.names:
        try:
            path = locate(folder, name)
            if path is None:
                missing.append(name)
                continue
            shards.headers[name] = read_header(path)
        except UnsafeFile as error:
            unsafe.append((name, str(error)))
        except BadFile as error:
            found.error("W03", shown(name), shown(str(error)), hint="download it again")
    if unsafe:
        names = [name for name, _ in unsafe]
        found.error("W02", named(names), unsafe[0][1], "files of this folder")
    if missing:
        found.error(
            "W01",
            named(missing),
            f"{len(missing)} of {len(shards.names)} shards are missing",
            hint="start the download again: it goes on where it stopped",
        )
    doubled = []
    for header in shards.headers.values():
        doubled += [name for name in header.tensors if name in shards.tensors]
        shards.tensors.update(header.tensors)
    if doubled:
        found.error("W04", named(doubled), f"{len(doubled)} tensors lie in more than one shard")


def _left_over(present: set[str], names: tuple[str, ...], found: Findings) -> None:
    """Files that belong to no index: shards of another one, or a download that goes on."""
    others = {one for one in present if one.endswith(".safetensors")} - set(names)
    stray = sorted(one for one in others if fnmatch.fnmatch(one, "model*.safetensors"))
    if stray and names:
        found.error(
            "W01",
            named(stray),
            f"{len(stray)} shards that the index does not name",
            "shards of one download",
            "remove what another download left behind",
        )
    if rest := sorted(others - set(stray)):
        found.note("W01", named(rest), "not part of the model that the index describes")
    unfinished = sorted(
        one for one in present if any(fnmatch.fnmatch(one, kind) for kind in _UNFINISHED)
    )
    if unfinished:
        found.note("W01", named(unfinished), "a download that did not end")


def _places(weight_map: dict[str, str] | None, shards: Shards, found: Findings) -> None:
    """Every tensor of the index in its shard, and the other way round."""
    if weight_map is None:
        return
    by_shard: dict[str, set[str]] = {}
    for name, place in weight_map.items():
        by_shard.setdefault(place, set()).add(name)
    for shard, header in shards.headers.items():
        promised = by_shard[shard]
        if absent := sorted(promised - set(header.tensors)):
            found.error(
                "W04",
                shown(shard),
                f"{len(absent)} tensors of the index are not in it: {named(absent)}",
            )
        if extra := sorted(set(header.tensors) - promised):
            found.error(
                "W04",
                shown(shard),
                f"{len(extra)} tensors that the index does not place there: {named(extra)}",
            )
