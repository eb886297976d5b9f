"""From a name that a person types to the published row that it means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from certify.errors import UsageError
from certify.recipes.poc import list_scripts
from certify.recipes.rows import Row, load_support_list
from certify.recipes.variants import list_variants

_HINT = "certify recipes list"
# Words that mark a name as the business of a sister project of upstream, and that project.
# fmt: off
_ELSEWHERE = {
    "MindSpeed-RL": ("reinforcement learning is", frozenset((
        "dapo", "grpo", "gspo", "orm", "ppo", "prm", "reinforce", "rl", "rlhf", "rloo",
    ))),
    "MindSpeed-MM": ("multimodal models are", frozenset((
        "asr", "clip", "cogvideo", "cogvideox", "diffusion", "flux", "hunyuanvideo", "internvl",
        "llava", "minicpmv", "mm", "multimodal", "omni", "opensora", "opensoraplan", "qihoo",
        "sd3", "sdxl", "sora", "tts", "video", "vit", "vl", "vlm", "wan", "whisper",
    ))),
}
# fmt: on


@dataclass(frozen=True)
class RowMatch:
    """The row a name resolved to. said: a sentence for the user when something was chosen."""

    row: Row
    said: str | None = None


def _words(name: str) -> tuple[str, ...]:
    """Hyphen-separated words as in our ids: lower case, a point between digits written ``p``."""
    text = re.sub(r"(?<=\d)\.(?=\d)", "p", name.strip().lower())
    return tuple(re.sub(r"[\s_/.]+", "-", text).strip("-").split("-"))


def near_matches(name: str, count: int = 5) -> list[str]:
    """Ids (or model names where one id would be arbitrary) that look like ``name``."""
    from difflib import get_close_matches

    wanted = "-".join(_words(name))
    rows = load_support_list()
    inside = [row.id for row in rows if wanted in row.id]
    # Every shortened form that would be understood is a candidate: people mistype short names.
    forms = dict.fromkeys(
        "-".join(row.tokens[:length]) for row in rows for length in range(2, len(row.tokens) + 1)
    )
    close = get_close_matches(wanted, forms, n=count, cutoff=0.6)
    scripts = [one.id for one in (*list_variants(), *list_scripts())]
    inside += [script for script in scripts if wanted in script]
    close += get_close_matches(wanted, scripts, n=count, cutoff=0.8)
    return list(dict.fromkeys(inside + close))[:count]


def _refuse_elsewhere(name: str) -> None:
    # A name with its version belongs where the name does: internvl3, cogvideox1p5, wan2p1.
    given = {form for word in _words(name) for form in (word, re.sub(r"[\dp]+[a-z]?$", "", word))}
    for project, (what, words) in _ELSEWHERE.items():
        if words & given:
            raise UsageError(
                f"no recipe named {name!r}: {what} the business of {project}",
                where="matrices/support_list.tsv",
                expected="a language model of upstream's support list",
                hint=f"https://gitcode.com/Ascend/{project}",
            )


def _refuse_scripts(name: str) -> None:
    """A tuning script or a measurement is a recipe, but not a published row."""
    for script in (*list_variants(), *list_scripts()):
        if script.id == name:
            row = f"of the row {script.row}" if script.row else "of a model that is not listed"
            raise UsageError(
                f"{name!r} is a script {row}, not a published row",
                where=f"matrices/recipes/{script.path_id}.toml",
                expected="the id or the name of a published row",
                hint=f"name the row, {script.row}" if script.row else _HINT,
            )


def _candidates(name: str) -> list[Row]:
    """Rows whose id starts with the words of ``name``; an exact model name beats longer ones."""
    words = _words(name)
    rows = load_support_list()
    exact = [row for row in rows if row.tokens == words]
    if exact:
        return exact
    same_model = [row for row in rows if row.tokens[:-2] == words or row.tokens[:-1] == words]
    return same_model or [row for row in rows if row.tokens[: len(words)] == words]


def _one_meaning(name: str, rows: list[Row], backend: str | None) -> None:
    """Raise unless the rows differ in backend only; list those of the wanted backend first."""
    if len({row.tokens[:-1] for row in rows}) == 1:
        return
    listed = [row.id for row in rows if backend in (None, row.backend)] or [row.id for row in rows]
    shown = ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
    raise UsageError(
        f"the name {name!r} fits {len(listed)} recipes",
        where="matrices/support_list.tsv",
        expected="one recipe",
        hint=f"name one of: {shown}",
    )


def _with_backend(name: str, rows: list[Row], backend: str) -> RowMatch:
    listed = [row for row in rows if row.backend == backend]
    if listed:
        return RowMatch(listed[0])
    by_script = [row for row in rows if row.script_backend == backend]
    if by_script:
        row = by_script[0]
        return RowMatch(
            row, f"{row.id} is listed as {row.backend_published}, but its script runs {backend}"
        )
    there = ", ".join(row.id for row in rows)
    raise UsageError(
        f"no published row of {name!r} uses the backend {backend!r}",
        where="matrices/support_list.tsv",
        expected=f"a backend of these rows: {there}",
        hint=f"--backend {rows[0].backend}",
    )


def _choose_backend(rows: list[Row]) -> RowMatch:
    if len(rows) == 1:
        return RowMatch(rows[0])
    by_backend = {row.backend: row for row in rows}
    mcore, fsdp2 = by_backend.get("mcore"), by_backend.get("fsdp2")
    if mcore is None or fsdp2 is None:
        return RowMatch(rows[0], f"took {rows[0].id}: the first of {len(rows)} rows")
    statuses = f"mcore is {mcore.status}, fsdp2 is {fsdp2.status}"
    if fsdp2.status == "Pass" and mcore.status != "Pass":
        return RowMatch(fsdp2, f"took backend fsdp2 ({statuses}); --backend mcore for the other")
    return RowMatch(mcore, f"took backend mcore ({statuses}); --backend fsdp2 for the other")


def resolve_name(name: str, backend: str | None = None) -> RowMatch:
    """The published row that ``name`` means: an id, a model, or a shortened id.

    Without a backend Mcore is taken unless only FSDP2 is Pass, and `RowMatch.said` says so.
    Raises UsageError for an unknown or ambiguous name, with near matches in the hint.
    """
    rows = _candidates(name)
    if not rows:
        _refuse_scripts(name)
        _refuse_elsewhere(name)
        near = near_matches(name)
        hint = f"did you mean: {', '.join(near)}?" if near else _HINT
        raise UsageError(f"no recipe named {name!r}", where="matrices/support_list.tsv", hint=hint)
    fitting = [row for row in rows if row.backend == backend]
    if len({row.tokens[:-1] for row in fitting}) == 1:
        return RowMatch(fitting[0])
    _one_meaning(name, rows, backend)
    return _with_backend(name, rows, backend) if backend else _choose_backend(rows)
