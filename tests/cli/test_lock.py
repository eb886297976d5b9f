"""``certify lock`` as a command: a tree written down, and drift from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from certify.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with one CANN and one wheel."""
    root = tmp_path / "root"
    place = root / "usr/local/Ascend/cann-9.1.0/aarch64-linux"
    place.mkdir(parents=True)
    (place / "ascend_toolkit_install.info").write_text(
        "package_name=Ascend-cann-toolkit\nversion=9.1.0\ninnerversion=V100R001C11SPC001B243\n"
        "path=/usr/local/Ascend/cann-9.1.0\n",
        encoding="utf-8",
    )
    (root / "usr/local/Ascend/cann").symlink_to("cann-9.1.0")
    return root


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["lock", *words])
    out, err = capsys.readouterr()
    return code, out, err


def written(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> dict[str, Any]:
    code, out, _ = call(capsys, *words)
    assert code == 0
    path.write_text(out, encoding="utf-8")
    document: dict[str, Any] = json.loads(out)
    return document


def test_a_lock_of_a_tree(capsys: pytest.CaptureFixture[str], tree: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("torchrun train.py\n", encoding="utf-8")
    image = "quay.io/ascend/cann@sha256:" + "a" * 64
    found = written(
        capsys, tmp_path / "l.json",
        "--root", str(tree), "--script", str(script), "--image", image,
    )  # fmt: skip
    assert found["schema"] == "certify.lock/1"
    assert found["components"]["cann"]["version"] == "9.1.0"
    assert found["image"] == image
    assert found["scripts"][script.as_posix()].startswith("sha256:")


def test_the_same_tree_does_not_drift(
    capsys: pytest.CaptureFixture[str], tree: Path, tmp_path: Path
) -> None:
    lock = tmp_path / "l.json"
    written(capsys, lock, "--root", str(tree))
    code, out, _ = call(capsys, "--root", str(tree), "--check", str(lock))
    assert (code, out) == (0, f"equal: nothing has moved since {lock}\n")
    code, out, _ = call(capsys, "--root", str(tree), "--check", str(lock), "--json")
    assert json.loads(out) == {"schema": "certify.lock-check/1", "verdict": "equal", "drift": []}


def test_drift_is_refused(capsys: pytest.CaptureFixture[str], tree: Path, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("one\n", encoding="utf-8")
    lock = tmp_path / "l.json"
    written(capsys, lock, "--root", str(tree), "--script", str(script))
    script.write_text("two\n", encoding="utf-8")
    info = tree / "usr/local/Ascend/cann-9.1.0/aarch64-linux/ascend_toolkit_install.info"
    info.write_text(info.read_text(encoding="utf-8").replace("=9.1.0", "=9.1.1"), encoding="utf-8")
    code, out, _ = call(capsys, "--root", str(tree), "--check", str(lock), "--json")
    assert code == 1
    places = {entry["place"]: entry for entry in json.loads(out)["drift"]}
    assert f"scripts {script.as_posix()}" in places
    assert "9.1.0" in places["components cann"]["locked"]
    assert "9.1.1" in places["components cann"]["found"]
    code, out, _ = call(capsys, "--root", str(tree), "--check", str(lock))
    assert out.startswith(f"drift: {len(places)} differences from {lock}\n")


def test_a_script_that_is_gone_is_drift(
    capsys: pytest.CaptureFixture[str], tree: Path, tmp_path: Path
) -> None:
    script = tmp_path / "run.sh"
    script.write_text("one\n", encoding="utf-8")
    lock = tmp_path / "l.json"
    written(capsys, lock, "--root", str(tree), "--script", str(script))
    script.unlink()
    code, out, _ = call(capsys, "--root", str(tree), "--check", str(lock))
    assert code == 1
    assert "-> absent" in out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--image", "cann:9.1.0"), "carries no digest"),
        (("--script", "no/such.sh"), "cannot read the script"),
        (("--check", "no/such.json"), "cannot read the lock"),
    ],
)
def test_usage_errors(
    capsys: pytest.CaptureFixture[str], tree: Path, words: tuple[str, ...], what: str
) -> None:
    code, out, err = call(capsys, "--root", str(tree), *words)
    assert code == 2
    assert what in err
    assert out == ""


@pytest.mark.parametrize(
    ("content", "what"), [("{", "no JSON"), ("[]", "no lock"), ("{}", "no lock")]
)
def test_a_file_that_is_no_lock(
    capsys: pytest.CaptureFixture[str], tree: Path, tmp_path: Path, content: str, what: str
) -> None:  # fmt: skip
    path = tmp_path / "l.json"
    path.write_text(content, encoding="utf-8")
    code, _, err = call(capsys, "--root", str(tree), "--check", str(path))
    assert code == 2
    assert what in err


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("components", []),
        ("components", {"cann": "9.1.0"}),
        ("components", {"cann": {"version": 9}}),
        ("components", {"cann": {"commit": "a"}}),
        ("devices", {"910B2": "8"}),
        ("devices", {"910B2": True}),
        ("packages", None),
        ("packages", {"torch": ["2.7.1"]}),
        ("variables", {"A": 1}),
        ("scripts", "run.sh"),
        ("image", 5),
        ("image", "cann:9.1.0"),
        ("surprise", {}),
    ],
)
def test_a_malformed_lock_is_refused(
    capsys: pytest.CaptureFixture[str], tree: Path, tmp_path: Path, section: str, value: object
) -> None:
    path = tmp_path / "l.json"
    document = written(capsys, path, "--root", str(tree))
    document[section] = value
    path.write_text(json.dumps(document), encoding="utf-8")
    code, out, err = call(capsys, "--root", str(tree), "--check", str(path))
    assert (code, out) == (2, "")
    assert section in err


def test_a_missing_section_is_refused(
    capsys: pytest.CaptureFixture[str], tree: Path, tmp_path: Path
) -> None:
    path = tmp_path / "l.json"
    path.write_text(json.dumps({"schema": "certify.lock/1"}), encoding="utf-8")
    code, _, err = call(capsys, "--root", str(tree), "--check", str(path))
    assert code == 2
    assert "section components of the lock is missing" in err
