"""The embedded tokenizer and tokenizers from folders."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from certify.errors import UsageError
from runner.data import corpus, tokenizer

pytestmark = pytest.mark.torch

STRANGE = "Ünïcode 🜁 text\twith\nlines, 中文字符 and 1234567890 — «quotes» \u200d\x00"


@pytest.fixture(scope="module")
def text() -> corpus.Corpus:
    return corpus.generate(200)


@pytest.fixture(scope="module")
def trained(text: corpus.Corpus) -> tokenizer.TextTokenizer:
    return tokenizer.train(text)


def test_training_twice_gives_equal_digests(
    text: corpus.Corpus, trained: tokenizer.TextTokenizer
) -> None:
    assert tokenizer.train(text).sha256 == trained.sha256
    assert trained.size == tokenizer.VOCAB_SIZE
    assert trained.end_of_text == 0


def test_any_text_comes_back(text: corpus.Corpus, trained: tokenizer.TextTokenizer) -> None:
    samples = [STRANGE, *text.documents[:20]]
    for sample, ids in zip(samples, trained.encode(samples), strict=True):
        assert trained.decode(ids) == sample
        assert 0 not in ids
        assert max(ids) < trained.size
    ids = trained.encode([text.documents[0]])[0]
    assert len(ids) < 0.7 * len(text.documents[0].encode())


def test_digits_stand_alone(trained: tokenizer.TextTokenizer) -> None:
    backend = trained.backend
    assert [backend.decode([i]) for i in trained.encode(["1234"])[0]] == ["1", "2", "3", "4"]


def test_cache_is_used_and_a_damaged_one_is_not(
    text: corpus.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tokenizer.embedded(text, tmp_path)
    (kept,) = tmp_path.iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(tokenizer, "train", lambda _: pytest.fail("trained in spite of the cache"))
        assert tokenizer.embedded(text, tmp_path).sha256 == first.sha256
    whole = kept.read_bytes()
    kept.write_bytes(whole.replace(b"Digits", b"Digitz"))
    assert tokenizer.embedded(text, tmp_path).sha256 == first.sha256
    assert kept.read_bytes() == whole


def test_cache_that_cannot_be_written_is_no_error(text: corpus.Corpus, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert tokenizer.embedded(text, blocked / "cache").size == tokenizer.VOCAB_SIZE


def folder_of(trained: tokenizer.TextTokenizer, folder: Path, config: object) -> Path:
    folder.mkdir()
    (folder / "tokenizer.json").write_text(trained.to_json(), encoding="utf-8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    "config", [None, {"eos_token": "<|endoftext|>"}, {"eos_token": {"content": "<|endoftext|>"}}]
)
def test_folder_gives_the_same_ids(
    config: object, trained: tokenizer.TextTokenizer, tmp_path: Path
) -> None:
    loaded = tokenizer.from_folder(folder_of(trained, tmp_path / "t", config))
    assert loaded.end_of_text == 0
    assert loaded.source == "t"
    assert loaded.encode([STRANGE]) == trained.encode([STRANGE])


def test_truncation_of_the_file_is_not_applied(
    trained: tokenizer.TextTokenizer, tmp_path: Path
) -> None:
    folder = folder_of(trained, tmp_path / "t", None)
    body = json.loads(trained.to_json())
    body["truncation"] = {
        "max_length": 3,
        "strategy": "LongestFirst",
        "direction": "Right",
        "stride": 0,
    }
    (folder / "tokenizer.json").write_text(json.dumps(body))
    assert len(tokenizer.from_folder(folder).encode(["one two three four five"])[0]) > 3


def test_bad_folders_are_explained(trained: tokenizer.TextTokenizer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no tokenizer folder"):
        tokenizer.from_folder(tmp_path / "absent")
    broken = folder_of(trained, tmp_path / "broken", None)
    (broken / "tokenizer.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot load") as caught:
        tokenizer.from_folder(broken)
    assert caught.value.where == str(broken / "tokenizer.json")
    body = json.loads(trained.to_json())
    body["added_tokens"][0]["content"] = "<x>"
    body["model"]["vocab"]["<x>"] = body["model"]["vocab"].pop("<|endoftext|>")
    nameless = folder_of(trained, tmp_path / "nameless", {"eos_token": None})
    (nameless / "tokenizer.json").write_text(json.dumps(body))
    with pytest.raises(UsageError, match="no end-of-text"):
        tokenizer.from_folder(nameless)
    malformed = folder_of(trained, tmp_path / "malformed", [])
    with pytest.raises(UsageError, match="not a JSON object: found list") as caught:
        tokenizer.from_folder(malformed)
    assert caught.value.where == str(malformed / "tokenizer_config.json")


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json"])
def test_code_of_a_folder_is_refused_before_transformers_sees_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    asked: list[str] = []
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", asked.append)
    body = {"auto_map": {"AutoTokenizer": ["own.Own", None]}, "model_type": "llama"}
    (tmp_path / name).write_text(json.dumps(body))
    (tmp_path / "own.py").write_text("raise SystemExit('executed')\n")
    with pytest.raises(UsageError, match="Python code of its own") as caught:
        tokenizer.from_folder(tmp_path)
    assert caught.value.where == f"{tmp_path / name}: auto_map"
    assert not asked


def test_a_config_that_is_no_object_is_named_without_tokenizer_json(tmp_path: Path) -> None:
    for text in ("[]", "3", '"x"', "{", "[" * 100_000, "\udcff"):
        file = tmp_path / "tokenizer_config.json"
        file.write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(UsageError, match="not a JSON object") as caught:
            tokenizer.from_folder(tmp_path)
        assert caught.value.where == str(file)


@pytest.mark.parametrize("failure", [ValueError("a\nb"), KeyError("x"), OSError(), EOFError()])
def test_what_transformers_raises_names_the_folder(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    terminal = sys.stdin

    def raises(folder: str, **options: object) -> None:
        assert (folder, options["trust_remote_code"]) == (str(tmp_path), False)
        assert sys.stdin.read() == "", "no question can be answered"
        raise failure

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", raises)
    with pytest.raises(UsageError, match="cannot load the tokenizer") as caught:
        tokenizer.from_folder(tmp_path)
    assert caught.value.where == str(tmp_path)
    assert sys.stdin is terminal
