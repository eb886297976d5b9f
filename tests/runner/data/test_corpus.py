"""The embedded corpus: the same on every machine, grammatical, with the stated entropy."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from runner.data import corpus
from runner.data.language.draw import Draw
from runner.data.language.story import MOST
from runner.data.language.themes import THEMES
from runner.data.language.words import NAMES, NUMBERS_EN, NUMBERS_ZH, VERBS

# Of corpus version 1. When the text changes on purpose, raise corpus.VERSION with it.
SHA256 = "4ea17c8acc8cf0a928b9e738ce78d4ce81485d6afda1774dd73e3d6dfab7f6c9"
NATS = 279383.4535631169


@pytest.fixture(scope="module")
def whole() -> corpus.Corpus:
    return corpus.generate()


def test_the_text_is_the_published_one(whole: corpus.Corpus) -> None:
    assert whole.sha256 == SHA256
    assert sum(whole.nats) == pytest.approx(NATS, rel=1e-9)
    assert 1_000_000 <= sum(len(text.encode()) for text in whole.documents) <= 1_500_000


def test_a_prefix_is_the_same_text(whole: corpus.Corpus) -> None:
    assert corpus.generate(20).documents == whole.documents[:20]
    assert corpus.generate(20, seed=1).documents != whole.documents[:20]


def test_no_document_twice_and_both_languages(whole: corpus.Corpus) -> None:
    assert len(set(whole.documents)) == len(whole.documents)
    chinese = sum("清单：" in text for text in whole.documents)
    assert 0.35 < chinese / len(whole.documents) < 0.55


def test_english_articles_and_numbers_agree(whole: corpus.Corpus) -> None:
    text = "\n".join(t for t in whole.documents if "Count:" in t)
    assert not re.search(r"\ba [aeiou]", text)
    assert not re.search(r"\ban [^aeiouh]", text)
    many = "|".join(thing.many for theme in THEMES for thing in theme.things)
    one = "|".join(thing.one for theme in THEMES for thing in theme.things)
    alike = {t.one for theme in THEMES for t in theme.things if t.one == t.many}
    words = "|".join(NUMBERS_EN[2:])
    wrong = [m[2] for m in re.finditer(rf"\b({words}) ({one})\b(?!s)", text)]
    assert set(wrong) <= alike
    wrong = [m[1] for m in re.finditer(rf"\b[Oo]ne ({many})\b", text)]
    assert set(wrong) <= alike
    assert not re.search(r"\bwas (two|three|four|five)\b|\bwere one\b", text)


def test_every_sentence_begins_and_ends_properly(whole: corpus.Corpus) -> None:
    for text in whole.documents[:300]:
        title, blank, *paragraphs = text.rstrip("\n").split("\n")
        assert title
        assert not blank
        for paragraph in paragraphs:
            assert paragraph[-1] in ".。”"
            assert paragraph.count("“") == paragraph.count("”")
            assert not re.search(r",,|\.\.|，，|。。|  |None", paragraph)
            assert not re.search(r"[.] [a-z]", paragraph)


def test_chinese_nouns_take_their_measure_word(whole: corpus.Corpus) -> None:
    text = "\n".join(t for t in whole.documents if "清单：" in t)
    measures: dict[str, set[str]] = {}
    for theme in THEMES:
        for thing in theme.things:
            measures.setdefault(thing.zh, set()).add(thing.measure)
    seen = re.findall(r"又来了(?:十?[一两二三四五六七八九]|十)(.)([^，。]+)，", text)
    assert len(seen) > 50
    assert all(measure in measures[noun] for measure, noun in seen)


def test_counts_follow_from_the_story() -> None:
    """The arithmetic of taking: before - taken = left, in words."""
    numbers = {word: number for number, word in enumerate(NUMBERS_EN)}
    found = 0
    for text in corpus.generate(400).documents:
        for taken, before, left in re.findall(
            r"(\w+) of the (\w+) [^.]*?(?:, so |\. Now )(\w+) (?:is|are|was|were) left", text
        ):
            assert numbers[before] - numbers[taken] == numbers[left.lower()]
            found += 1
    assert found > 30


def test_lexicon_is_complete() -> None:
    assert len(NUMBERS_EN) == len(NUMBERS_ZH) == MOST + 1
    assert len({name.en for name in NAMES}) == len({name.zh for name in NAMES}) == len(NAMES)
    assert {name.gender for name in NAMES} == {"f", "m"}
    for theme in THEMES:
        assert len(theme.places) == len(theme.roles) == len(theme.verbs) == 4
        assert len(theme.things) == 8
        assert not {verb.base for verb in theme.verbs} & {verb.base for verb in VERBS}


def test_code_length_is_that_of_the_choices() -> None:
    """Frequencies of a long run of choices give the code length that was counted."""
    draw = Draw(5)
    n = 20_000
    chosen = Counter(draw.pick("abcd") for _ in range(n))
    weights = [1 / 2, 1 / 3, 1 / 4, 1 / 5]
    shares = [weight / sum(weights) for weight in weights]
    for letter, share in zip("abcd", shares, strict=True):
        assert chosen[letter] / n == pytest.approx(share, abs=0.015)
    entropy = -sum(share * math.log(share) for share in shares)
    assert draw.nats / n == pytest.approx(entropy, rel=0.02)


def test_plain_choices_count_their_probability() -> None:
    draw = Draw(3)
    draw.even(range(8))
    assert draw.nats == pytest.approx(math.log(8))
    draw.nats = 0.0
    hit = draw.chance(0.2)
    assert draw.nats == pytest.approx(-math.log(0.2 if hit else 0.8))


def test_repeated_choice_counts_its_exact_probability() -> None:
    options = ["x", "y"]
    for seed in range(20):
        draw, used = Draw(seed), ["y"]
        chosen = draw.pick_again(options, used)
        fresh = {"x": 0.6, "y": 0.4}[chosen]
        assert draw.nats == pytest.approx(-math.log(0.7 * fresh + 0.3 * (chosen == "y")))
        assert used == ["y", chosen]


def test_loss_floor_is_far_below_the_unigram_entropy_of_characters(whole: corpus.Corpus) -> None:
    characters = Counter("".join(whole.documents))
    total = sum(characters.values())
    unigram = -sum(n / total * math.log(n / total) for n in characters.values())
    floor = corpus.loss_floor(whole, len(whole.documents), total)
    assert 0.1 < floor < unigram / 5
    assert corpus.loss_floor(whole, 10, 100) == pytest.approx(sum(whole.nats[:10]) / 100)
