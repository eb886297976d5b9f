"""Which files a configuration's dataset means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.errors import UsageError
from certify.recipes.configuration import datasets_of, read_configuration
from tests.recipes.configuration.quick_start import PRETRAIN, write

if TYPE_CHECKING:
    from pathlib import Path

INLINE = "  dataset:\n    file_name: ./texts/stories.jsonl\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(tmp_path: Path, lines: str) -> tuple[list[str], int | None]:
    text = PRETRAIN.replace(INLINE, lines)
    given = datasets_of(read_configuration(write(tmp_path, text)))
    return [path.rpartition("/")[2] for path in given.paths], given.max_samples


@pytest.mark.parametrize("names", ["stories, tasks", "stories,tasks", " stories ,, tasks "])
def test_names_with_and_without_blanks(tmp_path: Path, names: str) -> None:
    lines = f"  dataset: '{names}'\n  dataset_dir: ./texts\n"
    assert found(tmp_path, lines) == (["stories.jsonl", "instructions.json"], 100000)


def test_names_unquoted_in_the_yaml(tmp_path: Path) -> None:
    lines = "  dataset: stories, tasks\n  dataset_dir: ./texts\n"
    assert found(tmp_path, lines)[0] == ["stories.jsonl", "instructions.json"]


def test_described_in_place_and_by_path(tmp_path: Path) -> None:
    assert found(tmp_path, INLINE)[0] == ["stories.jsonl"]
    assert found(tmp_path, "  dataset: ./texts/instructions.json\n")[0] == ["instructions.json"]
    assert found(tmp_path, "")[0] == []


@pytest.mark.parametrize(
    ("lines", "what", "expected"),
    [
        ("  dataset: storys\n  dataset_dir: texts\n", "no dataset named 'storys'", "'stories'?"),
        ("  dataset: far\n  dataset_dir: texts\n", "downloaded (hf_hub_url)", "no network"),
        ("  dataset: stories\n", "no dataset_info.json", "dataset_info.json"),
        ("  dataset:\n    formatting: alpaca\n", "no file_name", "file_name"),
        ("  dataset:\n    file_name: none.json\n", "no such data file: none.json", "a file"),
    ],
)
def test_what_is_not_there(tmp_path: Path, lines: str, what: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        found(tmp_path, lines)
    assert what in caught.value.what
    assert expected in str(caught.value.expected)
