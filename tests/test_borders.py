"""The borders of ARCHITECTURE, enforced on the imports of every module, lazy ones included."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("certify", "runner", "matrices", "reference_runs", "reports")
HEAVY = {"torch", "torch_npu", "transformers", "megatron", "numpy"}
STARTED = ("runner", "reference_runs")
# The contract between certify and what it starts: records and run specs, and the errors they raise.
CONTRACT = {
    "certify.errors",
    "certify.records",
    "certify.records.digests",
    "certify.records.files",
    "certify.records.kinds",
    "certify.records.stamps",
    "certify.runspec",
    "certify.runspec.compare",
    "certify.runspec.families",
    "certify.runspec.form",
    "certify.runspec.plan",
    "certify.runspec.indexed",
    "certify.runspec.prepare",
    "certify.runspec.run",
    "certify.runspec.speed",
}


def modules(package: str) -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


ALL = {name: path for package in PACKAGES for name, path in modules(package).items()}


def _typing_only(tree: ast.Module) -> set[int]:
    """Line numbers inside `if TYPE_CHECKING:`; such imports do not run."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                lines |= set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
    return lines


def imports(name: str, path: Path, *, top_only: bool = False) -> set[str]:
    """Absolute names of what a module imports; names that are modules of ours are resolved."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = _typing_only(tree)
    nodes = tree.body if top_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if getattr(node, "lineno", None) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name if path.name == "__init__.py" else name.rpartition(".")[0]
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, base]) if base else ".".join(up)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in ALL else base)
    return found


@pytest.mark.parametrize("package", ["certify", "matrices", "reports"])
def test_never_imports_what_it_inspects(package: str) -> None:
    for name, path in modules(package).items():
        heavy = {i for i in imports(name, path) if i.partition(".")[0] in HEAVY}
        assert not heavy, f"{name} imports {heavy}"


@pytest.mark.parametrize("package", ["runner", "reference_runs"])
def test_shares_only_the_contract_with_certify(package: str) -> None:
    for name, path in modules(package).items():
        ours = {i for i in imports(name, path) if i.partition(".")[0] in ("certify", "reports")}
        assert ours <= CONTRACT, f"{name} imports {ours - CONTRACT}"


@pytest.mark.parametrize("package", ["certify", "matrices", "reports"])
def test_starts_the_runner_as_a_process(package: str) -> None:
    for name, path in modules(package).items():
        found = {
            i for i in imports(name, path) if i.partition(".")[0] in ("runner", "reference_runs")
        }
        assert not found, f"{name} imports {found}"


def test_the_contract_needs_the_standard_library_only() -> None:
    import sys

    for name in sorted(CONTRACT):
        for found in imports(name, ALL[name]):
            top = found.partition(".")[0]
            assert found in CONTRACT or top in sys.stdlib_module_names, f"{name} imports {found}"


def test_reports_computes_no_verdict() -> None:
    for name, path in modules("reports").items():
        found = {
            i for i in imports(name, path) if i.startswith(("certify.criteria", "certify.cli"))
        }
        assert not found, f"{name} imports {found}"


def test_reference_shares_no_model_loss_or_optimizer_with_the_candidate() -> None:
    allowed = {
        "runner",
        "runner.data",
        "runner.backends",
        "runner.data.sampler",
        "runner.data.batches",
        "runner.evidence",
        "runner.environment",
        "runner.device",
        "runner.digests",
        "runner.faults",
        "runner.callpoints",
        "runner.collectives",  # the self-test before training
        "runner.journal",
        "runner.manifest",
        "runner.process_group",
        "runner.rng",
        "runner.watchdog",
    }
    for name, path in modules("runner").items():
        if not name.startswith("runner.backends.mcore"):
            continue
        ours = {
            i
            for i in imports(name, path)
            if i.partition(".")[0] == "runner" and not i.startswith("runner.backends.mcore")
        }
        assert ours <= allowed, f"{name} imports {ours - allowed}"


def test_nothing_imports_the_command_line() -> None:
    for name, path in ALL.items():
        if name.startswith("certify.cli") or name == "certify.__main__":
            continue
        found = {i for i in imports(name, path) if i.startswith("certify.cli")}
        assert not found, f"{name} imports {found}"


def test_no_cycles_at_import_time() -> None:
    graph = {
        name: {i for i in imports(name, path, top_only=True) if i in ALL and i != name}
        for name, path in ALL.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name in done:
            return
        for other in sorted(graph[name]):
            visit(other, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())
