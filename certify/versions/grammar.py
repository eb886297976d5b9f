"""Versions as the Ascend stack spells them: one ordered grammar per family, the raw text kept.

No single grammar fits: PEP 440 rejects ``25.0.rc1.1`` and ``8.3.RC1.alpha002``, reads the driver
build ``26.1.0.b083`` as a beta, and calls the CANN release 8.3.RC1 a pre-release. So each family
has its own pattern and sort key. Two versions compare only within one family; numbers of
different families (or, for drivers, of different product families) say nothing about each other.

======== ==========================================================================
family   spellings, lowest to highest within one release
======== ==========================================================================
cann     8.3.T6 < 8.3.RC1.alpha001 < 8.3.RC1 < 8.3.RC1.1 < 8.3.RC2 < 8.3.0;
         9.1.0-alpha.1 < 9.1.0-beta.1 < 9.1.0-rc.1 < 9.1.0 < 9.1.1
hdk      25.3.rc1 < 25.3.rc1.2 < 25.3.rc2 < 25.3.0 < 25.3.0.1; ``.b083`` is a build of its base
product  26.2.0-0day < 26.2.0-beta.1 < 26.2.0 < 26.2.0.1; ``-pytorch2.7.1`` is cut off
branch   core_r0.12.1 (a development line) < 26.1.0_core_r0.12.1 (a release) < master
megatron core_r0.12.0, core_v0.12.1, Core 0.12.1, 0.12.1
pep440   as in the Python packaging specification, the local part last
python   the same grammar; a spelling without its patch number stands for all of them
dotted   integers: firmware 7.7.0.1.231, glibc 2.35, gcc 11.2.1
name     no version at all (a product, a commit): alphabetical
======== ==========================================================================
"""

from __future__ import annotations

import re

from certify.light import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FINAL = 9
_STAGES = {"0day": 0, "dev": 0, "alpha": 1, "a": 1, "beta": 2, "b": 2, "rc": 3, "c": 3}
_CANN = lazy(
    r"v?(\d+)\.(\d+)(?:\.?(t|rc)(\d+)|\.(\d+)|\.(x{2,}))?(?:\.(\d+))?"
    r"(?:[.\-]?(0day|alpha|beta|rc)[.\-]?(\d*))?(?:\.b(\d+))?(?:-pytorch[\d.]+)?"
)
_HDK = lazy(r"v?(\d+)\.(\d+)(?:\.?(rc|t)(\d+)|\.(\d+))?(?:\.(\d+))?(?:\.(\d+))?(?:\.b(\d+))?")
_BRANCH = lazy(
    r"(?:tag |branch )?v?(?:(\d[\w.]*?)_?)?"
    r"(?:(?:core_)?(?:core|r|v)_?([rv]?\d+(?:\.\d+)*\.?))?(?: tip)?"
)
_SWAPPED = lazy(r"(core_r\d+(?:\.\d+)*)_(\d[\w.]*)")
_MEGATRON = lazy(r"(?:megatron[-_ ])?(?:core[_ ]?)?[rv]?(\d+(?:\.\d+)*(?:rc\d+)?)(?:\+\w+)?")
_PEP440 = lazy(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d*))?"
    r"(?:-(\d+)|[-_.]?(?:post|rev|r)[-_.]?(\d*))?((?:[-_.]?dev[-_.]?\d*)?)"
    r"(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)
_DOTTED = lazy(r"v?(\d+(?:\.\d+)*)")
_MAIN_LINES = ("master", "main")
# Longer than any real version: a pasted report may hold anything.
_MAX_LENGTH = 80


class Version:
    """One version. family: its grammar; raw: as spelled where it was found; key: orders it."""

    __slots__ = ("family", "key", "raw")

    def __init__(self, family: str, raw: str, key: tuple[Any, ...]) -> None:
        self.family = family
        self.raw = raw
        self.key = key

    def _other(self, other: Version) -> tuple[Any, ...]:
        if other.family != self.family:
            raise TypeError(f"a {self.family} version does not compare with a {other.family} one")
        return other.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and (self.family, self.key) == (other.family, other.key)

    def __hash__(self) -> int:
        return hash((self.family, self.key))

    def __lt__(self, other: Version) -> bool:
        return bool(self.key < self._other(other))

    def __le__(self, other: Version) -> bool:
        return bool(self.key <= self._other(other))

    def __gt__(self, other: Version) -> bool:
        return bool(self.key > self._other(other))

    def __ge__(self, other: Version) -> bool:
        return bool(self.key >= self._other(other))

    def __repr__(self) -> str:
        return f"Version({self.family!r}, {self.raw!r})"

    def __str__(self) -> str:
        return self.raw

    @property
    def train(self) -> tuple[int, ...]:
        """Major and minor number: what compatibility tables call one column."""
        return (*release(self)[:2], 0)[:2]

    @property
    def is_prerelease(self) -> bool:
        """An alpha, beta, test or development build. A CANN RC is a release, not one of these."""
        if self.family in ("cann", "product"):
            return bool(self.key[5] != _FINAL or self.key[2] == 0)
        if self.family in ("pep440", "python"):
            return bool(self.key[2][0] != _FINAL or self.key[4][0] == 0)
        return False


def release(version: Version) -> tuple[int, ...]:
    """The plain numbers of a version: (2, 7, 1) of 2.7.1.post8+cpu, (8, 3) of 8.3.RC2."""
    key = version.key
    if version.family in ("cann", "product", "hdk"):
        return (key[0], key[1], key[3]) if key[2] == 2 else (key[0], key[1])
    if version.family in ("pep440", "python", "branch"):
        return tuple(key[1])
    return tuple(key[0]) if version.family in ("megatron", "dotted") else ()


def core_line(version: Version) -> tuple[int, ...]:
    """The Megatron line that a MindSpeed branch names: (0, 12, 1) of 26.1.0_core_r0.12.1."""
    return tuple(version.key[3]) if version.family == "branch" else ()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def _trimmed(numbers: tuple[int, ...]) -> tuple[int, ...]:
    end = len(numbers)
    while end > 1 and numbers[end - 1] == 0:
        end -= 1
    return numbers[:end]


def _plain(text: str) -> tuple[int, ...] | None:
    """The numbers of a version that is nothing but numbers and points, as most are: read without
    an expression, which takes a tenth of the time and often need not be compiled at all."""
    if not text.replace(".", "").isdigit():
        return None
    parts = text.split(".")
    return tuple(map(int, parts)) if all(parts) else None


def _cann_key(text: str) -> tuple[Any, ...] | None:
    numbers = _plain(text)
    if numbers and 2 <= len(numbers) <= 4:
        return (*numbers[:2], 2, *(*numbers[2:], 0, 0)[:2], _FINAL, 0, 0)
    found = _CANN.fullmatch(text)
    if not found:
        return None
    major, minor, kind, counted, plain, unknown, patch, stage, stage_number, build = found.groups()
    level = 0 if unknown or kind == "t" else 1 if kind == "rc" else 2
    return (
        int(major),
        int(minor),
        level,
        int(counted or plain or 0),
        int(patch or 0),
        _STAGES[stage] if stage else _FINAL,
        int(stage_number or 0),
        int(build or 0),
    )


def _hdk_key(text: str) -> tuple[Any, ...] | None:
    numbers = _plain(text)
    if numbers and 2 <= len(numbers) <= 5:
        return (*numbers[:2], 2, *(*numbers[2:], 0, 0, 0)[:3], 0)
    found = _HDK.fullmatch(text)
    if not found:
        return None
    major, minor, kind, counted, plain, patch, further, build = found.groups()
    level = {"t": 0, "rc": 1}.get(kind, 2)
    numbers = (int(counted or plain or 0), int(patch or 0), int(further or 0), int(build or 0))
    return (int(major), int(minor), level, *numbers)


def _branch_key(text: str) -> tuple[Any, ...] | None:
    if text in _MAIN_LINES or text.removeprefix("branch ").removesuffix(" tip") in _MAIN_LINES:
        return (2, (), (), ())
    # Three 2024 documents wrote the two parts the other way round: core_r0.7.0_6.0.rc3.
    swapped = _SWAPPED.fullmatch(text)
    found = _BRANCH.fullmatch(f"{swapped[2]}_{swapped[1]}" if swapped else text)
    if not found or not any(found.groups()):
        return None
    named, core = found.groups()
    numbers = _trimmed(_numbers(core.strip("rv.").rstrip("."))) if core else ()
    if not named:
        return (0, (), (), numbers)
    own = _cann_key(named)
    return None if own is None else (1, own[:2], own[2:], numbers)


def _pep440_key(text: str) -> tuple[Any, ...] | None:
    public, plus, local = text.partition("+")
    released, dot_post, number = public.partition(".post")
    plain = _plain(released)
    if plain and (number.isdigit() or not dot_post) and (local.isalnum() or not plus):
        return (
            0,
            _trimmed(plain),
            (_FINAL, 0),
            int(number) if dot_post else -1,
            (1, 0),
            (_local(local),) if plus else (),
        )
    found = _PEP440.fullmatch(text)
    if not found:
        return None
    epoch, numbers, stage, stage_number, dash_post, post, dev, local = found.groups()
    if stage in ("pre", "preview"):
        stage = "rc"
    is_dev, is_post = bool(dev), post is not None or dash_post is not None
    dev_number = int(dev.lower().lstrip("-_.").removeprefix("dev").lstrip("-_.") or 0) if dev else 0
    # A bare development build sorts before every pre-release of its release.
    before = -1 if is_dev and not stage and not is_post else _FINAL
    return (
        int(epoch or 0),
        _trimmed(_numbers(numbers)),
        (_STAGES[stage], int(stage_number or 0)) if stage else (before, 0),
        int(dash_post or post or 0) if is_post else -1,
        (0, dev_number) if is_dev else (1, 0),
        tuple(_local(part) for part in (re.split(r"[-_.]", local) if local else ())),
    )


def _local(part: str) -> tuple[int, int, str]:
    """One part of a local version: numbers come after letters."""
    return (1, int(part), "") if part.isdigit() else (0, 0, part)


def _megatron_key(text: str) -> tuple[Any, ...] | None:
    plain = _plain(text)
    if plain:
        return (_trimmed(plain), 10**6)
    found = _MEGATRON.fullmatch(text)
    if not found:
        return None
    numbers, _, candidate = found[1].partition("rc")
    return (_trimmed(_numbers(numbers)), int(candidate) if candidate else 10**6)


def _dotted_key(text: str) -> tuple[Any, ...] | None:
    plain = _plain(text)
    if plain:
        return (_trimmed(plain),)
    found = _DOTTED.fullmatch(text)
    return (_trimmed(_numbers(found[1])),) if found else None


_KEYS: dict[str, Callable[[str], tuple[Any, ...] | None]] = {
    "cann": _cann_key,
    "product": _cann_key,
    "hdk": _hdk_key,
    "branch": _branch_key,
    "pep440": _pep440_key,
    "python": _pep440_key,
    "megatron": _megatron_key,
    "dotted": _dotted_key,
    "name": lambda text: (text,) if text else None,
}
FAMILIES = tuple(_KEYS)


def parse(family: str, raw: str) -> Version | None:
    """The version, or None when the text is not one of this family.

    Raises KeyError for an unknown family.
    """
    make_key = _KEYS[family]
    text = raw.strip().lower()
    if len(text) > _MAX_LENGTH or not text.isascii():
        return None
    key = make_key(text)
    return None if key is None else Version(family, raw, key)
