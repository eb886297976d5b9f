"""examples:
  certify weights verify models/Qwen3-8B
  certify weights verify models/Qwen3-8B --recipe qwen3-8b --json
  certify weights verify models/Qwen3-8B --manifest SHA256SUMS

Check a Hugging Face checkpoint folder: index, shards, shapes, number types, tokenizer, digests.
Reads headers only, unless digests are given (or a file SHA256SUMS lies in the folder). Prints the
commands that download the weights of a recipe; downloads nothing. Exits 1 on an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certify.errors import EXIT_FAIL, EXIT_PASS, UsageError
from certify.weights.digests import read_manifest
from certify.weights.downloads import Download, downloads_of
from certify.weights.files import BadFile, UnsafeFile, locate
from certify.weights.findings import RULES
from certify.weights.verify import Report, verify

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from certify.recipes.rows import Row

SCHEMA = "certify.weights/1"
MANIFEST = "SHA256SUMS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify weights``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("verify", help="check a checkpoint folder", allow_abbrev=False)
    check.add_argument("folder", metavar="DIR")
    check.add_argument("--recipe", metavar="ID", help="compare with this recipe's model")
    check.add_argument(
        "--manifest", metavar="FILE", help=f"digests by sha256sum; default: DIR/{MANIFEST}"
    )
    check.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _row(name: str | None) -> Row | None:
    if name is None:
        return None
    from certify.recipes.names import resolve_name

    return resolve_name(name).row


def _published(row: Row | None) -> Mapping[str, Any] | None:
    """The public configuration of the row's model, None where it is not in our data."""
    if row is None:
        return None
    from certify.recipes.load import load_model, load_recipe, model_keys

    key = load_recipe(row.id).model_key
    return load_model(key).config if key in model_keys() else None


def _manifest(folder: Path, given: str | None) -> dict[str, str] | None:
    if given is not None:
        if not Path(given).is_file():
            raise UsageError("no such file", where=given, expected="digests by sha256sum")
        return read_manifest(Path(given))
    try:
        path = locate(folder, MANIFEST)
    except (UnsafeFile, BadFile) as error:
        raise UsageError(f"the list of digests is {error}", where=f"{folder}/{MANIFEST}") from None
    return read_manifest(path) if path else None


def _report_json(report: Report) -> dict[str, Any]:
    return {
        "model_type": report.model_type,
        "shards": report.shards,
        "tensors": report.tensors,
        "bytes": report.file_bytes,
        "shapes_checked": report.shapes_checked,
        "vocabulary": report.vocabulary,
        "embedding_rows": report.embedding_rows,
        "digests_equal": report.digests_equal,
        "findings": [
            {
                "rule": one.rule,
                "about": RULES[one.rule],
                "severity": one.severity,
                "where": one.where,
                "found": one.found,
                "expected": one.expected or None,
                "hint": one.hint or None,
            }
            for one in report.findings
        ],
    }


def _download_lines(downloads: tuple[Download, ...]) -> Iterator[str]:
    if downloads:
        yield "download:"
    for one in downloads:
        yield f"  {one.command}"
        if not one.published:
            yield f"    (the list does not link to {one.hub}: the same name is assumed there)"


def _lines(folder: str, report: Report) -> Iterator[str]:
    size = f"{report.file_bytes / 1e9:,.1f} GB"
    kind = report.model_type or "unknown model type"
    yield f"{folder}: {kind}, {report.shards} shards, {report.tensors:,} tensors, {size}"
    for one in report.findings:
        expected = f" (expected {one.expected})" if one.expected else ""
        yield f"{one.severity:<5}  {one.rule}  {one.where}: {one.found}{expected}"
        if one.hint:
            yield f"            hint: {one.hint}"
    if report.vocabulary is not None and report.embedding_rows is not None:
        rows = f"{report.embedding_rows:,} rows of the embedding"
        yield f"tokenizer: {report.vocabulary:,} ids, {rows}"
    if report.digests_equal is not None:
        yield f"digests: {report.digests_equal} files equal to the list"
    notes = len(report.findings) - report.errors
    yield f"{report.errors} errors, {notes} notes"


def run(args: argparse.Namespace) -> int:
    """Check a folder; exit code 0 without errors, 1 with."""
    row = _row(args.recipe)
    downloads = downloads_of(row.weights, args.folder) if row else ()
    folder = Path(args.folder)
    if not folder.is_dir():
        raise UsageError(
            "no such folder",
            where=args.folder,
            expected="a folder with config.json and safetensors files",
            hint=downloads[0].command if downloads else None,
        )
    try:
        report = verify(folder, _published(row), _manifest(folder, args.manifest))
    except BadFile as error:
        raise UsageError(f"the folder {error}", where=args.folder) from None
    if args.json:
        document = {
            "schema": SCHEMA,
            "folder": args.folder,
            "recipe": row.id if row else None,
            "verdict": "fail" if report.errors else "pass",
            **_report_json(report),
            "downloads": [vars(one) for one in downloads],
        }
        print(json.dumps(document, ensure_ascii=False))
    else:
        print("\n".join([*_lines(args.folder, report), *_download_lines(downloads)]))
    return EXIT_FAIL if report.errors else EXIT_PASS
