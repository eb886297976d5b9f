"""Loading: the compiled form is taken only when it is true, everything else falls back to TSV."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from zlib import crc32

import pytest

from matrices import load as module
from matrices.load import COMPILED, FOLDER, MatrixError, load, read_table, rows_of, write_compiled
from tests.resolver.synthetic import matrix_of

ROW = {"id": "torch_npu-1", "components": "torch_npu=2.7.1 cann=8.3.RC1"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "matrices"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns(COMPILED, "recipes", "models"))
    return folder


def test_compiled_and_tsv_are_the_same(copy: Path) -> None:
    from_tsv = load(copy)
    write_compiled(copy, copy / COMPILED)
    state = module.unpacked((copy / COMPILED).read_bytes())
    compiled = module.Matrix(state)
    assert compiled.digest == from_tsv.digest
    assert compiled.claims == from_tsv.claims
    assert compiled.history == from_tsv.history
    assert compiled.tables == from_tsv.tables


def test_a_stale_compiled_form_is_not_used(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FOLDER", copy)
    first = load()
    assert (copy / COMPILED).is_file()
    path = copy / "claims" / "torchvision.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("0.22.1", "0.22.9"), encoding="utf-8")
    second = load()
    assert first.digest != second.digest
    assert second.by_id["torchvision-0007"].components["torchvision"] == "0.22.9"
    assert module.unpacked((copy / COMPILED).read_bytes())["digest"] == second.digest


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"digest": 1}',
        b"\x00",
        b"00000000[]",
        module.packed({"digest": "x", "cold": b""}),
        module.packed({"cold": b""}),
        b"%08x" % crc32(b"00000001\xff") + b"00000001\xff",
        b"%08x" % crc32(b"zzzzzzzz\xff") + b"zzzzzzzz\xff",
    ],
)
def test_a_damaged_compiled_form_is_not_used(
    copy: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(module, "FOLDER", copy)
    (copy / COMPILED).write_bytes(content)
    assert load().claims == load(FOLDER).claims


def test_every_flipped_bit_of_the_compiled_form_is_seen(copy: Path) -> None:
    data = module.packed({"digest": "x", "claims": [("a", 1)], "cold": b"", "tables": {}})
    assert module.unpacked(data)["claims"] == [("a", 1)]
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 1
        with pytest.raises(ValueError, match="compiled"):
            module.unpacked(bytes(broken))
    with pytest.raises(ValueError, match="compiled"):
        module.unpacked(data[:-1])


def test_equal_tables_give_equal_bytes(copy: Path) -> None:
    compiled = module.packed(module.compile_folder(copy))
    fresh = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from matrices import load;"
            "sys.stdout.buffer.write(load.packed(load.compile_folder(Path(sys.argv[1]))))",
            str(copy),
        ],
        check=True,
        capture_output=True,
        cwd=FOLDER.parent,
    )
    assert fresh.stdout == compiled


def test_a_folder_that_cannot_be_written_still_loads(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path, target: Path) -> None:
        raise PermissionError(target)

    monkeypatch.setattr(module, "FOLDER", copy)
    monkeypatch.setattr(module, "write_compiled", refuse)
    assert load().claims
    assert not (copy / COMPILED).exists()


def test_history_holds_every_row_once() -> None:
    matrix = load()
    lines = sum(
        len(path.read_text(encoding="utf-8").splitlines()) - 1
        for path in (FOLDER / "claims").glob("*.tsv")
    )
    assert len(matrix.history) == lines
    assert len({claim.id for claim in matrix.history}) == lines
    assert all(claim.decides for claim in matrix.claims)


def test_a_wrong_row_is_named(tmp_path: Path) -> None:
    matrix_of(tmp_path, ROW)
    path = tmp_path / "claims" / "torch_npu.tsv"
    path.write_text(path.read_text(encoding="utf-8") + "only\tthree\tcells\n", encoding="utf-8")
    with pytest.raises(MatrixError, match=r"torch_npu\.tsv:3: 3 columns"):
        load(tmp_path)


def test_a_wrong_pair_is_named(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="'cann' is no key=value pair"):
        matrix_of(tmp_path, {**ROW, "components": "torch_npu=2.7.1 cann"})


def test_a_folder_without_claims_is_no_matrix(tmp_path: Path) -> None:
    with pytest.raises(MatrixError, match="no matrix"):
        load(tmp_path)


def test_comments_and_empty_lines_are_left_out() -> None:
    assert rows_of("a\tb\n# note\n\n1\t2\n", "x.tsv") == [{"a": "1", "b": "2"}]


def test_tables_beside_the_claims() -> None:
    assert {row["rule"] for row in read_table("rules")} >= {"torch-npu-cann", "cann-driver"}
    with pytest.raises(MatrixError, match="no such table"):
        read_table("nothing")


def test_everything_loads_from_an_archive(tmp_path: Path) -> None:
    load()
    archive = tmp_path / "certify.pyz"
    with zipfile.ZipFile(archive, "w") as target:
        for path in [*FOLDER.glob("*.py"), *FOLDER.glob("*.tsv"), FOLDER / COMPILED]:
            target.write(path, f"matrices/{path.name}")
    code = (
        "from matrices.load import load, read_table\n"
        "matrix = load()\n"
        "print(len(matrix.claims), len(matrix.history), len(read_table('rules')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    matrix = load()
    counts = [len(matrix.claims), len(matrix.history), len(read_table("rules"))]
    assert done.stdout.split() == [str(count) for count in counts]


def test_loading_imports_little() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(FOLDER.parent)!r}); import matrices.load; "
        "print('dataclasses' in sys.modules, 'yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]
