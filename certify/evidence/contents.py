"""What of a campaign's folder goes into its bundle: a list of what may, never of what may not."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from certify.environment.redact import identities, secrets
from certify.errors import UsageError
from certify.evidence.canonical import canonical
from certify.evidence.logs import redacted_log
from certify.json_text import load_json

if TYPE_CHECKING:
    from pathlib import Path

PLAN, VERDICT, RECORD = "plan.json", "verdict.json", "record.json"
PLAN_STATEMENT = "plan.intoto.jsonl"
# Judged, or signed, as these bytes: taken as they are.
_EXACT = (PLAN, PLAN_STATEMENT, VERDICT)
# Documents of ours; `_STATE` of the campaign's, whose command line names paths of a person.
_DOCUMENTS = ("recipe.json", "environment.json", RECORD)
_STATE = (
    "schema", "id", "recipe_id", "backend", "scale", "device", "stage", "status", "created_unix_s",
    "inject", "phases",
)  # fmt: skip
_RUN_FILES = re.compile(
    r"records/(?:rank|control-[a-z0-9-]+)-\d{5}\.jsonl|digests/[\w.-]+\.(?:json|jsonl)"
)
_LOG_FILES = re.compile(r"logs/[\w.-]+\.log")


def collect(folder: Path) -> tuple[dict[str, bytes | Path], list[str]]:
    """(name in the bundle -> content or file, names of all run folders) of a campaign's folder.

    Raises UsageError when it holds no plan or no verdict: nothing was certified then.
    """
    for name in (PLAN, VERDICT):
        if not (folder / name).is_file():
            raise UsageError(
                f"there is no {name}",
                where=str(folder),
                expected="the folder of a campaign that was judged",
                hint="certify run RECIPE",
            )
    found: dict[str, bytes | Path] = {
        name: folder / name for name in _EXACT if (folder / name).is_file()
    }
    for name in _DOCUMENTS:
        if (folder / name).is_file():
            found[name] = canonical(_walked(_json(folder / name), secrets))
    if (folder / "campaign.json").is_file():
        state = _json(folder / "campaign.json")
        kept = {key: state[key] for key in _STATE if key in state}
        found["campaign.json"] = canonical(_walked(kept, identities))
    runs = sorted(p for p in (folder / "runs").glob("*") if p.is_dir() and not p.is_symlink())
    for run in runs:
        found |= _of_run(run)
    return found, [run.name for run in runs]


def _json(path: Path) -> Any:
    try:
        return load_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"this is no JSON: {error}", where=str(path)) from None


def _walked(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _walked(item, change) for key, item in value.items()}
    return [_walked(item, change) for item in value] if isinstance(value, list) else value


def _of_run(run: Path) -> dict[str, bytes | Path]:
    found: dict[str, bytes | Path] = {}
    for path in sorted(run.glob("*/*")):
        inside = path.relative_to(run).as_posix()
        if path.is_symlink() or not path.is_file():
            continue
        name = f"runs/{run.name}/{inside}"
        if _RUN_FILES.fullmatch(inside):
            found[name] = _record(path)
        elif _LOG_FILES.fullmatch(inside) and (log := redacted_log(path.read_bytes())):
            found[name] = log
    return found


def _record(path: Path) -> bytes | Path:
    """A record file as it is, unless a line of it holds what looks like a secret."""
    data = path.read_bytes()
    lines = data.split(b"\n")
    changed = False
    for number, line in enumerate(lines):
        # The runner records variables by its own allow-list; this is the second lock.
        if b'"environment"' not in line[:40]:
            continue
        text = line.decode("utf-8", "surrogateescape")
        try:
            body = json.loads(text)
        except ValueError:
            continue  # a line that was cut off
        clean = _walked(body, secrets)
        if clean != body:
            lines[number] = json.dumps(clean, ensure_ascii=False).encode("utf-8", "surrogateescape")
            changed = True
    return b"\n".join(lines) if changed else path
