"""The embedded corpus: bilingual text that this project generates, the same on every machine.

A loss curve certifies little when the data is noise (nothing to learn) or trivial (nothing left
to learn). The corpus is therefore grammatical English and Chinese about small worlds whose facts
return later in the same document, and its generator knows the probability of what it wrote:
the sum of `Corpus.nats` over the tokens is the loss of a model that knows the generator.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from runner.data.language.chinese import Chinese
from runner.data.language.draw import Draw
from runner.data.language.english import English
from runner.data.language.story import new_story

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "1"  # raise when the text changes: it names the corpus in records
SEED = 20260
DOCUMENTS = 1800


@dataclass(frozen=True)
class Corpus:
    """documents: the texts; nats: code length of each under the generator."""

    documents: tuple[str, ...]
    nats: tuple[float, ...]

    @cached_property
    def sha256(self) -> str:
        """Digest of the texts, each followed by a zero byte."""
        return text_digest(self.documents)


def text_digest(documents: Sequence[str]) -> str:
    """sha256 over the UTF-8 documents, each followed by a zero byte."""
    digest = hashlib.sha256()
    for text in documents:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def _document(draw: Draw) -> str:
    """One document: headline, two to four paragraphs, inventory, perhaps a translated summary."""
    english = draw.chance(0.55)
    story = new_story(draw)
    voice, other = (English(story), Chinese(story)) if english else (Chinese(story), English(story))
    lines = [voice.title(), ""]
    for _ in range(draw.even((2, 3, 4))):
        voice.last_who = None
        events = [voice.say(story.next_event()) for _ in range(draw.even((3, 4, 5, 6)))]
        lines.append((" " if english else "").join(events))
    lines.append(voice.inventory())
    if draw.chance(0.35):
        lines.append(other.summary())
    return "\n".join(lines) + "\n"


def generate(documents: int = DOCUMENTS, seed: int = SEED) -> Corpus:
    """The corpus, a pure function of its arguments."""
    draw = Draw(seed)
    texts, nats = [], []
    for _ in range(documents):
        draw.nats = 0.0
        texts.append(_document(draw))
        nats.append(draw.nats)
    return Corpus(tuple(texts), tuple(nats))


def loss_floor(corpus: Corpus, documents: int, tokens: int) -> float:
    """Nats per token that a model which knows the generator reaches on the first documents.

    tokens: their length in tokens, end-of-text marks included. Text determines tokens, so no
    tokenizer changes the nats. Where one text can be derived in two ways, only the drawn way is
    counted: the value is then slightly above the true entropy, never below.
    """
    return sum(corpus.nats[:documents]) / tokens
