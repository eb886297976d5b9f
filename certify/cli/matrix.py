"""examples:
  certify matrix list                              what the matrix holds
  certify matrix show torch_npu=2.7.1.post8        every claim that speaks of this version
  certify matrix show cann                         every claim about one component
  certify matrix lint                              prove the matrix sound
  certify matrix import release_notes_llm.md       what an upstream document would change
  certify matrix diff HEAD~5 .                     two states: folders or git revisions

Looks at the published claims that check-env and resolve decide by. lint exits 1 when it finds a
fault; import and diff only print and exit 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from certify.errors import EXIT_FAIL, EXIT_PASS, UsageError
from certify.versions import parse, parse_spec
from matrices.load import Claim, Matrix, MatrixError, load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping
    from tarfile import TarInfo

SCHEMA = "certify.matrix/1"
_MAX_DOCUMENT_BYTES = 20_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``certify matrix`` and its subcommands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="files, kinds and counts", allow_abbrev=False)
    show = actions.add_parser("show", help="claims about a component", allow_abbrev=False)
    show.add_argument("topic", metavar="KEY[=VERSION]|ID")
    show.add_argument("--all", action="store_true", help="superseded and contradicted ones too")
    lint = actions.add_parser("lint", help="check the matrix", allow_abbrev=False)
    imports = actions.add_parser("import", help="compare with a document", allow_abbrev=False)
    imports.add_argument("document", metavar="DOC", help="Markdown file, or - for stdin")
    imports.add_argument("--name", help="the document's own file name, when DOC is a copy")
    diff = actions.add_parser("diff", help="compare two states", allow_abbrev=False)
    diff.add_argument("before", metavar="A", help="folder or git revision")
    diff.add_argument("after", metavar="B", help="folder or git revision; . is this installation")
    for action in (listing, show, lint, imports, diff):
        action.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Carries out one subcommand. Raises UsageError for what cannot be read."""
    actions = {"list": _list, "show": _show, "lint": _lint, "import": _import, "diff": _diff}
    try:
        return actions[args.action](args)
    except MatrixError as error:
        raise UsageError(str(error), where="matrices", hint="certify matrix lint") from error


def _print(args: argparse.Namespace, document: Mapping[str, object], text: str) -> None:
    if args.json:
        print(json.dumps({"schema": SCHEMA, "action": args.action, **document}, ensure_ascii=False))
    else:
        print(text)


def _list(args: argparse.Namespace) -> int:
    matrix = load()
    counts: dict[str, dict[str, int]] = {}
    for claim in matrix.history:
        row = counts.setdefault(claim.scope, {})
        row[claim.state] = row.get(claim.state, 0) + 1
    lines = [f"matrix {matrix.digest}: {len(matrix.history)} claims, {len(matrix.claims)} in force"]
    for scope, row in sorted(counts.items()):
        states = ", ".join(f"{count} {state}" for state, count in sorted(row.items()))
        lines.append(f"  {scope:<26} {states}")
    components = [
        {"key": key, "family": row["family"], "cost": int(row["cost"]), "name": row["name"]}
        for key, row in matrix.components.items()
    ]
    lines += ["", "components (family, cost of changing it):"]
    lines += [f"  {c['key']:<22} {c['family']:<9} {c['cost']:>6}  {c['name']}" for c in components]
    document = {"digest": matrix.digest, "claims": counts, "components": components}
    _print(args, document, "\n".join(lines))
    return EXIT_PASS


def _show(args: argparse.Namespace) -> int:
    matrix = load()
    claims = _claims_about(matrix, args.topic)
    if not args.all:
        claims = [claim for claim in claims if claim.decides or claim.id == args.topic]
    text = "\n".join(_claim_line(claim) for claim in claims) or f"no claim about {args.topic}"
    _print(args, {"topic": args.topic, "claims": [_claim(claim) for claim in claims]}, text)
    return EXIT_PASS


def _claims_about(matrix: Matrix, topic: str) -> list[Claim]:
    claim = matrix.claim(topic)
    if claim is not None:
        return [claim]
    key, equals, text = topic.partition("=")
    if key == "product":
        return [
            c for c in matrix.history
            if "product" in c.where and (not text or text in c.where["product"].split("|"))
        ]  # fmt: skip
    if key not in matrix.components:
        from difflib import get_close_matches

        near = get_close_matches(key, matrix.components, n=3, cutoff=0.5)
        hint = f"did you mean: {', '.join(near)}?" if near else "certify matrix list"
        raise UsageError(f"no component or claim {key!r}", where="certify matrix show", hint=hint)
    about = [claim for claim in matrix.history if key in claim.components]
    if not equals:
        return about
    version = parse(matrix.family(key), text)
    if version is None:
        raise UsageError(f"{text!r} is no {matrix.family(key)} version", where=topic)
    spec = matrix.family(key)
    return [c for c in about if parse_spec(spec, c.components[key]).matches(version)]


def _claim(claim: Claim) -> dict[str, object]:
    return {**claim._asdict(), "citation": claim.citation()}


def _claim_line(claim: Claim) -> str:
    parts = " ".join(f"{key}={value}" for key, value in claim.components.items())
    where = "".join(f" [{key} {value}]" for key, value in claim.where.items())
    state = "" if claim.state == "current" else f" ({claim.state})"
    note = f"; {claim.note}" if claim.note else ""
    conflict = f"; {claim.conflict}" if claim.conflict else ""
    head = f"{claim.id}  {claim.kind}{state}  {parts}{where}"
    return f"{head}\n    {claim.citation()}{note}{conflict}"


def _lint(args: argparse.Namespace) -> int:
    from certify.resolver.lint import lint

    matrix = load()
    problems = lint(matrix)
    found = [{"claim": problem.claim, "what": problem.what} for problem in problems]
    lines = [f"{problem.claim}: {problem.what}" for problem in problems]
    lines.append(f"{len(matrix.history)} claims checked, {len(problems)} faults")
    document = {"checked": len(matrix.history), "problems": found}
    _print(args, document, "\n".join(lines))
    return EXIT_FAIL if problems else EXIT_PASS


def _import(args: argparse.Namespace) -> int:
    from matrices.importers.compare import Difference, differences
    from matrices.importers.documents import read_document

    text, name = _document_text(args.document)
    matrix = load()
    drafts = read_document(text)
    if not drafts:
        raise UsageError(
            "no table of versions in this document",
            where=args.document,
            expected="a Markdown or HTML table with columns such as CANN, PyTorch, Python",
        )
    found = differences(drafts, matrix, args.name or name)

    def line(difference: Difference) -> str:
        if difference.draft is None:
            claim = matrix.by_id[difference.claim]
            return "- " + _claim_line(claim)
        draft = difference.draft
        parts = " ".join(f"{key}={value}" for key, value in draft.components.items())
        if difference.kind == "new":
            return f"+ {draft.kind}  {parts}  (line {draft.line})"
        changes = ", ".join(f"{k}: {a} -> {b}" for k, (a, b) in difference.fields.items())
        return f"~ {difference.claim}  {changes}  (line {draft.line})"

    counts = {kind: sum(d.kind == kind for d in found) for kind in ("new", "changed", "dropped")}
    summary = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    lines = [*map(line, found), f"{len(drafts)} statements read: {summary}"]
    document: dict[str, object] = {"statements": len(drafts), **counts}
    document["differences"] = [
        {
            "kind": difference.kind,
            "claim": difference.claim or None,
            "components": difference.draft.components if difference.draft else None,
            "fields": {key: list(pair) for key, pair in difference.fields.items()},
        }
        for difference in found
    ]
    _print(args, document, "\n".join(lines))
    return EXIT_PASS


def _document_text(path: str) -> tuple[str, str]:
    """Text and file name of a document."""
    import sys

    if path == "-":
        return sys.stdin.read(_MAX_DOCUMENT_BYTES), ""
    place = Path(path)
    try:
        data = place.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot read the document: {reason}", where=path) from error
    if len(data) > _MAX_DOCUMENT_BYTES:
        raise UsageError(f"{len(data)} bytes are no compatibility document", where=path)
    return data.decode("utf-8", "replace"), place.name


def _diff(args: argparse.Namespace) -> int:
    from matrices.diff import compare

    changes = compare(_state(args.before), _state(args.after))
    signs = {"added": "+", "removed": "-", "changed": "~"}
    lines = []
    for change in changes:
        if change.kind == "changed":
            fields = "; ".join(f"{k}: {a!r} -> {b!r}" for k, (a, b) in change.fields.items())
            lines.append(f"~ {change.claim.id}  {fields}")
        else:
            lines.append(f"{signs[change.kind]} {_claim_line(change.claim).partition(chr(10))[0]}")
    lines.append(f"{len(changes)} differences")
    document: dict[str, object] = {
        "differences": [
            {
                "kind": change.kind,
                "claim": _claim(change.claim),
                "fields": {key: list(pair) for key, pair in change.fields.items()},
            }
            for change in changes
        ]
    }
    _print(args, document, "\n".join(lines))
    return EXIT_PASS


def _state(text: str) -> Matrix:
    """A state of the matrix: this installation (.), a folder, or a revision of this checkout."""
    if text == ".":
        return load()
    folder = Path(text)
    if folder.is_dir():
        inner = folder / "matrices"
        return load(inner if (inner / "claims").is_dir() else folder)
    return _from_git(text)


def _from_git(revision: str) -> Matrix:
    import subprocess
    import tarfile
    import tempfile
    from io import BytesIO

    import matrices

    checkout = Path(matrices.__file__).parent.parent
    command = ["git", "-C", str(checkout), "archive", "--format=tar", revision, "--", "matrices"]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        raise UsageError(
            f"{revision!r} is neither a folder nor a git revision with a matrix",
            where="certify matrix diff",
            expected=detail.decode("utf-8", "replace").strip() or "a folder or a revision",
        ) from error
    with tempfile.TemporaryDirectory() as place, tarfile.open(fileobj=BytesIO(done.stdout)) as tar:
        for member in _tables_in(tar.getmembers()):
            target = Path(place, member.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(member)
            target.write_bytes(content.read() if content else b"")
        folder = Path(place, "matrices")
        if not (folder / "claims").is_dir():
            raise UsageError(f"revision {revision} has no matrix", where="certify matrix diff")
        state = load(folder)
        # Everything is read before the folder goes away.
        _ = state.history
        return state


def _tables_in(members: Iterable[TarInfo]) -> list[TarInfo]:
    """The tables among the members of an archive, whose names come from our own git."""
    return [member for member in members if member.isfile() and member.name.endswith(".tsv")]
