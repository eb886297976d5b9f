"""Tokenizers: the embedded one, trained on the embedded corpus, or one from a folder.

Both are used through the `tokenizers` library alone, which starts fast and gives the same ids as
transformers does. Special tokens are never added: packing puts the end-of-text marks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runner.data.corpus import Corpus

END_OF_TEXT = "<|endoftext|>"
CONFIG = "tokenizer_config.json"
VOCAB_SIZE = 512  # 256 bytes, one special token, 255 merges
# Raise when the training below changes: it is part of the cache key.
TRAINING_VERSION = "1"


@dataclass(frozen=True)
class TextTokenizer:
    """size: largest id + 1; end_of_text: id that closes each document; sha256: of tokenizer.json;
    source: where it came from, for the record."""

    backend: Any
    size: int
    end_of_text: int
    sha256: str
    source: str

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without special tokens."""
        encoded = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [one.ids for one in encoded]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out."""
        return str(self.backend.decode(list(ids)))

    def to_json(self) -> str:
        """The content of ``tokenizer.json``."""
        return str(self.backend.to_str())


def _wrap(backend: Any, end_of_text: Any, source: str) -> TextTokenizer:
    backend.no_truncation()
    backend.no_padding()
    size = max(backend.get_vocab(with_added_tokens=True).values()) + 1
    sha256 = hashlib.sha256(backend.to_str().encode()).hexdigest()
    return TextTokenizer(backend, size, int(end_of_text), sha256, source)


def train(corpus: Corpus) -> TextTokenizer:
    """Train the embedded byte-level BPE tokenizer; every text can be encoded with it.

    Digits stand alone, so that numbers are spelt the same wherever they occur.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(corpus.documents, trainer)
    return _wrap(backend, backend.token_to_id(END_OF_TEXT), "embedded")


def embedded(corpus: Corpus, cache_dir: Path | None) -> TextTokenizer:
    """The embedded tokenizer, from the cache when it is there intact."""
    if cache_dir is None:
        return train(corpus)
    from tokenizers import Tokenizer, __version__

    key = f"{TRAINING_VERSION} {VOCAB_SIZE} {__version__} {corpus.sha256}"
    name = f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:24]}"
    for path in sorted(cache_dir.glob(f"{name}-*.json")):
        text = path.read_bytes()
        # The name carries the digest of the content: a damaged file is ignored and made again.
        if path.stem == f"{name}-{hashlib.sha256(text).hexdigest()[:24]}":
            backend = Tokenizer.from_str(text.decode())
            return _wrap(backend, backend.token_to_id(END_OF_TEXT), "embedded")
    made = train(corpus)
    _store(cache_dir / f"{name}-{made.sha256[:24]}.json", made.to_json())
    return made


def _store(path: Path, text: str) -> None:
    """Write a cache file atomically; a cache that cannot be written is no reason to stop."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    with contextlib.suppress(OSError):
        partial.unlink()


def from_folder(folder: Path) -> TextTokenizer:
    """A Hugging Face tokenizer folder. Raises UsageError when it cannot be used."""
    if folder.is_file() and folder.name == "tokenizer.json":
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(
            "there is no tokenizer folder",
            where=str(folder),
            expected="a folder with tokenizer.json, as Hugging Face models have",
            hint="leave --tokenizer out to use the embedded tokenizer",
        )
    backend = load_backend(folder)
    return _wrap(backend, end_of_text(folder, backend), folder.name)


def load_backend(folder: Path) -> Any:
    """The `tokenizers.Tokenizer` of a folder. Raises UsageError when it cannot be loaded."""
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    _json_object(folder / CONFIG)
    if not file.is_file():
        _refuse_code(folder)
    try:
        return Tokenizer.from_file(str(file)) if file.is_file() else _converted(folder)
    except Exception as error:
        # Both libraries raise bare Exception and many others for a file that is not a tokenizer.
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"cannot load the tokenizer: {first}",
            where=str(file if file.is_file() else folder),
            expected="tokenizer.json of the Hugging Face tokenizers library",
            hint="save the tokenizer again with transformers' save_pretrained",
        ) from None


def _json_object(file: Path) -> dict[str, Any]:
    """The content of a JSON file of the folder; empty where there is no such file."""
    if not file.is_file():
        return {}
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the file: {error.strerror}", where=str(file)) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"not a JSON object: {error}", where=str(file), expected="a JSON object"
        ) from None
    if not isinstance(body, dict):
        raise UsageError(
            f"not a JSON object: found {type(body).__name__}",
            where=str(file),
            expected="a JSON object",
        )
    return body


def _refuse_code(folder: Path) -> None:
    """Raises UsageError for a folder that only loads by running Python code of its own.

    transformers would ask on the terminal whether it may.
    """
    for name in (CONFIG, "config.json"):
        file = folder / name
        if "auto_map" in _json_object(file):
            raise UsageError(
                "the tokenizer brings Python code of its own, which is never run",
                where=f"{file}: auto_map",
                expected="tokenizer.json of the Hugging Face tokenizers library",
                hint="save the tokenizer as a fast one with transformers' save_pretrained",
            )


def _converted(folder: Path) -> Any:
    """The tokenizer of a folder without tokenizer.json, as transformers converts it."""
    from transformers import AutoTokenizer

    # Nothing may ask a question that nobody sees.
    with open(os.devnull, encoding="utf-8") as nothing, _stdin(nothing):
        loaded = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    return loaded.backend_tokenizer


@contextlib.contextmanager
def _stdin(stream: TextIO) -> Iterator[None]:
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before


def end_of_text(folder: Path, backend: Any) -> int:
    """The id of the end-of-text token: as the folder says, else by the usual names."""
    file = folder / CONFIG
    value = _json_object(file).get("eos_token")
    named = [value.get("content") if isinstance(value, dict) else value]
    for token in [*named, END_OF_TEXT, "</s>", "<|end_of_text|>", "<eos>"]:
        identifier = backend.token_to_id(token) if isinstance(token, str) else None
        if identifier is not None:
            return int(identifier)
    raise UsageError(
        "the tokenizer has no end-of-text token",
        where=str(file if file.is_file() else folder / "tokenizer.json"),
        expected='"eos_token" in tokenizer_config.json, naming a token of the vocabulary',
    )
