"""Tokenizers of an indexed dataset: a Hugging Face folder, or the two files of GPT-2's BPE."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import UsageError
from runner.data import tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Encoder:
    """backend: a `tokenizers.Tokenizer`; vocab_size: number of tokens, added ones included, by
    which Megatron chooses the id type; end_of_text: id that closes a document, None where nobody
    asked for one; sha256: of the backend's JSON form."""

    backend: Any
    vocab_size: int
    end_of_text: int | None
    sha256: str

    def encode(
        self, texts: Sequence[str], places: Sequence[str], *, special_tokens: bool
    ) -> list[list[int]]:
        """The ids of each text, in order. places: where each text stands, for messages.

        Raises UsageError for text that has no UTF-8 form (half of a surrogate pair).
        """
        for text, where in zip(texts, places, strict=True):
            if not text.isascii():
                _check(text, where)
        encoded = self.backend.encode_batch_fast(list(texts), add_special_tokens=special_tokens)
        return [one.ids for one in encoded]


def _check(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = f"U+{ord(text[error.start]):04X}"
        raise UsageError(
            f"character {error.start + 1} is half of a surrogate pair ({code})",
            where=where,
            expected="text that has a UTF-8 form",
        ) from None


def _wrap(backend: Any, vocab_size: int, end_of_text: int | None) -> Encoder:
    sha256 = hashlib.sha256(backend.to_str().encode()).hexdigest()
    return Encoder(backend, vocab_size, end_of_text, sha256)


def from_folder(folder: Path, *, append_eod: bool) -> Encoder:
    """A Hugging Face tokenizer folder. Raises UsageError when it cannot be used."""
    if folder.is_file() and folder.name == "tokenizer.json":
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(
            "there is no tokenizer folder",
            where=str(folder),
            expected="a folder with tokenizer.json, as Hugging Face models have",
        )
    backend = tokenizer.load_backend(folder)
    backend.no_truncation()
    backend.no_padding()
    end = tokenizer.end_of_text(folder, backend) if append_eod else None
    return _wrap(backend, backend.get_vocab_size(with_added_tokens=True), end)


def from_gpt2_files(vocab: Path, merges: Path, *, append_eod: bool) -> Encoder:
    """GPT-2's byte-level BPE from ``vocab.json`` and ``merges.txt``.

    No token is special: ``<|endoftext|>`` in a text is text, as in Megatron's GPT2BPETokenizer.
    The first line of the merges (a comment) and what follows the last line feed are left out, as
    there. Raises UsageError where the files do not fit together.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    table = _vocabulary(vocab)
    if missing := sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(table)):
        raise UsageError(
            f"{len(missing)} of the 256 bytes are no tokens, as {missing[0]!r}",
            where=str(vocab),
            expected="the vocabulary of a byte-level BPE (GPT-2's vocab.json)",
        )
    pairs = _merges(merges, table)
    backend = Tokenizer(models.BPE(vocab=table, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    end = table.get(tokenizer.END_OF_TEXT)
    if append_eod and end is None:
        raise UsageError(
            f"the vocabulary has no {tokenizer.END_OF_TEXT}",
            where=str(vocab),
            expected="that token, which --append-eod needs",
        )
    return _wrap(backend, len(table), end if append_eod else None)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the file: {error.strerror}", where=str(file)) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"not UTF-8 at byte {error.start}", where=str(file)) from None


def _vocabulary(file: Path) -> dict[str, int]:
    try:
        table = json.loads(_read(file))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", where=str(file)) from None
    if not isinstance(table, dict) or not all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
        for value in table.values()
    ):
        raise UsageError(
            "not a vocabulary", where=str(file), expected="a JSON object from token to id"
        )
    if len(set(table.values())) != len(table):
        raise UsageError("two tokens have one id", where=str(file), expected="one id a token")
    return table


def _merges(file: Path, table: dict[str, int]) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(_read(file).split("\n")[1:-1], start=2):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2:
            raise UsageError(
                f"found {len(parts)} words",
                where=f"{file}:{number}",
                expected="two tokens to merge",
            )
        first, second = parts
        for token in (first, second, first + second):
            if token not in table:
                raise UsageError(
                    f"token {token!r} is not in the vocabulary",
                    where=f"{file}:{number}",
                    expected="merges that belong to the vocabulary",
                )
        pairs.append((first, second))
    return pairs
