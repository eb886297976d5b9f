"""Writes Megatron's indexed dataset, byte for byte as ``IndexedDatasetBuilder`` does.

``.bin`` holds the ids of all sequences, one after the other. ``.idx`` holds, little-endian:

    9 bytes  MMIDIDX, two zeros
    uint64   1, the version
    uint8    code of the id type
    uint64   S, number of sequences
    uint64   D, number of document boundaries (documents + 1)
    int32    S lengths, ids
    int64    S offsets into .bin, bytes
    int64    D boundaries: sequence number at which document d begins, then S
    int8     S modes, in multimodal datasets only
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from certify.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}
# Megatron's border: smaller vocabularies are stored in 16 bits.
SMALL_VOCABULARY = 65500
MAX_LENGTH = 2**31 - 1


def optimal_dtype(vocab_size: int | None) -> str:
    """The id type that Megatron takes for a vocabulary: uint16 below 65,500, else int32."""
    return "uint16" if vocab_size is not None and vocab_size < SMALL_VOCABULARY else "int32"


class IndexedWriter:
    """Collects documents; ids go to the open ``.bin`` file at once, the rest to `write_index`.

    dtype: a key of `CODES`; multimodal: sequences have modes (0 where none is given).
    """

    def __init__(self, bin_file: BinaryIO, dtype: str, *, multimodal: bool = False) -> None:
        self.dtype = dtype
        self._type = np.dtype(dtype).newbyteorder("<")
        self._limits = np.iinfo(dtype)
        self._bin = bin_file
        self._lengths = array("i")
        self._boundaries = array("q", [0])
        self._modes = array("b") if multimodal else None
        self.tokens = 0

    @property
    def sequences(self) -> int:
        """Sequences so far."""
        return len(self._lengths)

    @property
    def documents(self) -> int:
        """Documents so far, empty ones included."""
        return len(self._boundaries) - 1

    def add_document(
        self, sequences: Sequence[Sequence[int]], where: str, modes: Sequence[int] | None = None
    ) -> None:
        """Append a document of any number of sequences (none: an empty document).

        where: the document's place in the source, for messages. Raises UsageError for an id that
        the id type cannot hold and for a sequence of 2**31 ids or more.
        """
        for ids in sequences:
            values = np.array(ids, dtype=np.int64)
            if values.size > MAX_LENGTH:
                raise UsageError(
                    f"a sequence of {values.size:,} ids",
                    where=where,
                    expected=f"at most {MAX_LENGTH:,}: the index counts in 32 bits",
                )
            if values.size and not (
                self._limits.min <= values.min() and values.max() <= self._limits.max
            ):
                raise UsageError(
                    f"token ids from {values.min()} to {values.max()} do not fit {self.dtype}",
                    where=where,
                    expected="ids below the number of tokens: the vocabulary has holes",
                )
            self._bin.write(values.astype(self._type).tobytes())
            self._lengths.append(int(values.size))
            self.tokens += int(values.size)
        if self._modes is not None:
            self._modes.extend(modes if modes is not None else [0] * len(sequences))
        self._boundaries.append(len(self._lengths))

    def write_index(self, file: BinaryIO) -> None:
        """Write the ``.idx`` file of everything added so far."""
        lengths = np.asarray(self._lengths, dtype=np.int32)
        offsets = np.zeros(lengths.size, dtype="<i8")
        np.cumsum(lengths[:-1], dtype=np.int64, out=offsets[1:])
        offsets *= self._type.itemsize
        file.write(MAGIC)
        file.write(struct.pack("<QB", VERSION, CODES[self.dtype]))
        file.write(struct.pack("<QQ", lengths.size, len(self._boundaries)))
        file.write(lengths.astype("<i4").tobytes())
        file.write(offsets.tobytes())
        file.write(np.asarray(self._boundaries, dtype="<i8").tobytes())
        if self._modes is not None:
            file.write(self._modes.tobytes())
