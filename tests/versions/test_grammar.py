"""Orders and grammars of every family, by tables and by properties."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version as Pep440

from certify.versions import FAMILIES, core_line, parse, release
from certify.versions.grammar import Version

# Each list is in ascending order; the spellings are published ones.
ORDERED = {
    "cann": [
        "6.3.RC2", "6.3.RC3", "6.3.RC3.1", "7.0.T10", "7.0.RC1", "7.0.0.alpha001", "7.0.0",
        "8.0.RC1.alpha001", "8.0.RC2", "8.0.RC2.2", "8.0.RC3", "8.0.0.alpha001", "8.0.0.beta1",
        "8.0.0", "8.1.T6", "8.1.RC1", "8.2.RC1.alpha001", "8.2.RC1.alpha003", "8.2.RC1", "8.2.RC2",
        "8.3.RC1", "8.3.RC2", "8.5.0.alpha001", "8.5.0.alpha002", "8.5.0", "8.5.1", "9.0.0-beta.1",
        "9.0.0-beta.2", "9.0.0-rc.1", "9.0.0", "9.0.1", "9.1.0-beta.3", "9.1.0", "9.1.1", "9.2.0",
    ],
    "hdk": [
        "22.0.0", "23.0.rc1", "23.0.rc1.b070", "23.0.rc3", "23.0.0", "23.0.7", "24.1.rc2",
        "24.1.rc2.2", "24.1.rc3", "24.1.rc3.b999", "24.1.0", "24.1.0.1", "25.0.rc1", "25.0.rc1.1",
        "25.2.0", "25.2.2", "25.3.rc1", "25.3.0", "25.5.1", "25.7.rc1", "25.7.rc1.6", "26.0.rc1",
        "26.1.0", "26.1.0.b083",
    ],
    "product": [
        "5.0.rc3", "6.0.rc1.alpha001", "6.0.rc1", "6.0.rc1.1", "6.0.0.alpha001", "6.0.0", "6.0.0.1",
        "7.0.RC1.alpha002", "7.0.0", "7.2.0", "7.2.0.1", "7.3.0", "7.3.1", "26.0.0-beta.1",
        "26.0.0", "26.0.1", "26.1.0-beta.2", "26.1.0", "26.2.0-0day", "26.2.0-beta.1",
    ],
    "branch": [
        "core_r0.8.0", "core_r0.12.1", "core_r0.17.0", "1.0.RC1", "1.0.RC3_core_r0.6.0",
        "1.0.RC3_core_r0.7.0", "1.0.0_core_r0.7.0", "2.1.0_core_r0.8.0", "2.1.0_core_r0.12.1",
        "26.0.0_core_r0.12.1", "26.1.0_core_r0.12.1", "master",
    ],
    "megatron": ["core_r0.6.0", "Core 0.8.0", "core_v0.12.0", "0.12.1", "0.16.0rc0", "0.16.0"],
    "pep440": [
        "2.7.1.dev20250724", "2.7.1rc1", "2.7.1", "2.7.1+cpu", "2.7.1.post2.dev20260101",
        "2.7.1.post2", "2.7.1.post8", "2.7.1.post10", "2.9.0.post1", "2.9.0.post1+git4c901a4",
        "2.10.0",
    ],
    "dotted": ["2.27", "2.28", "7.1.0.11.220", "7.7.0.1.231", "9.0.0.105.229"],
}  # fmt: skip

_SAME = [
    ("cann", "8.3.RC1", "8.3.rc1"),
    ("cann", "8.3RC1", "8.3.RC1"),
    ("cann", "8.0.0-beta1", "8.0.0.beta1"),
    ("hdk", "25.3.RC1", "25.3.rc1"),
    ("product", "v26.1.0-pytorch2.7.1", "26.1.0"),
    ("product", "V7.2.0.1-pytorch2.1.0", "7.2.0.1"),
    ("branch", "branch master tip", "master"),
    ("branch", "tag v26.0.0", "26.0.0"),
    ("branch", "core_r0.7.0_6.0.rc3", "6.0.rc3_core_r0.7.0"),
    ("megatron", "Core 0.12.1", "core_v0.12.1"),
    ("pep440", "2.7.1post4", "2.7.1.post4"),
    ("pep440", "v0.11.0rc1", "0.11.0rc1"),
    ("dotted", "2.35", "2.35.0"),
]


@pytest.mark.parametrize("family", ORDERED)
def test_published_spellings_are_in_order(family: str) -> None:
    versions = [parse(family, raw) for raw in ORDERED[family]]
    assert None not in versions
    for lower, higher in itertools.combinations(versions, 2):
        assert lower < higher, (lower, higher)
        assert higher > lower
        assert lower != higher


@pytest.mark.parametrize(("family", "one", "other"), _SAME)
def test_spellings_of_one_version_are_equal(family: str, one: str, other: str) -> None:
    first, second = parse(family, one), parse(family, other)
    assert first == second
    assert hash(first) == hash(second)
    assert first is not None
    assert first.raw == one


@pytest.mark.parametrize("raw", ["", "latest", "9.0.X", "v", "8", "9" * 100, "８.3.RC1", "8.3.RCX"])
def test_what_is_no_cann_version_is_none(raw: str) -> None:
    assert parse("cann", raw) is None


def test_unknown_family_is_an_error() -> None:
    with pytest.raises(KeyError):
        parse("colour", "9.1.0")


def test_families_do_not_compare() -> None:
    cann, driver = parse("cann", "9.1.0"), parse("hdk", "9.1.0")
    assert cann != driver
    with pytest.raises(TypeError, match="does not compare"):
        _ = cann < driver  # type: ignore[operator]


@pytest.mark.parametrize(
    ("family", "raw", "numbers", "train"),
    [
        ("cann", "8.3.RC2", (8, 3), (8, 3)),
        ("cann", "9.0.1", (9, 0, 1), (9, 0)),
        ("hdk", "25.0.rc1.1", (25, 0), (25, 0)),
        ("pep440", "2.9.0.post1+git4c901a4", (2, 9), (2, 9)),
        ("pep440", "2.0", (2,), (2, 0)),
        ("product", "7.3.1", (7, 3, 1), (7, 3)),
    ],
)
def test_release_and_train(
    family: str, raw: str, numbers: tuple[int, ...], train: tuple[int, ...]
) -> None:
    version = parse(family, raw)
    assert version is not None
    assert release(version) == numbers
    assert version.train == train


def test_a_branch_names_its_megatron_line() -> None:
    version = parse("branch", "26.1.0_core_r0.12.1")
    assert version is not None
    assert core_line(version) == (0, 12, 1)
    wheel = parse("pep440", "2.7.1")
    assert wheel is not None
    assert core_line(wheel) == ()


@pytest.mark.parametrize(
    ("family", "raw", "expected"),
    [
        ("cann", "8.3.RC1", False),
        ("cann", "8.3.RC1.alpha001", True),
        ("cann", "9.1.0-beta.1", True),
        ("cann", "8.0.T63", True),
        ("pep440", "2.7.1rc1", True),
        ("pep440", "2.7.1.dev20250724", True),
        ("pep440", "2.7.1.post8", False),
        ("hdk", "25.3.rc1", False),
    ],
)
def test_prereleases(family: str, raw: str, expected: bool) -> None:
    version = parse(family, raw)
    assert version is not None
    assert version.is_prerelease is expected


_number = st.integers(0, 40).map(str)


def _joined(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map("".join)


def _optional(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.just("") | strategy


_release = _joined(_number, st.just("."), _number)
_plain = _joined(_release, st.just("."), _number)
_candidate = _joined(_release, st.sampled_from([".RC", ".rc", ".T"]), st.integers(1, 12).map(str))
_stage = _joined(
    st.sampled_from([".alpha", ".beta", "-alpha.", "-beta.", "-rc."]), st.integers(1, 30).map(str)
)
SPELLINGS: dict[str, st.SearchStrategy[str]] = {
    "cann": _joined(_plain | _candidate, _optional(_stage)),
    "product": _joined(_plain | _candidate, _optional(_joined(st.just("."), _number))),
    "hdk": _joined(
        _plain | _joined(_release, st.just(".rc"), _number),
        _optional(_joined(st.just("."), _number)),
        _optional(_joined(st.just(".b"), _number)),
    ),
    "pep440": _joined(
        _plain,
        _optional(_joined(st.sampled_from(["a", "b", "rc"]), _number)),
        _optional(_joined(st.just(".post"), _number)),
        _optional(_joined(st.just(".dev"), _number)),
        _optional(st.sampled_from(["+cpu", "+cu126", "+git4c901a4", "+1.2"])),
    ),
    "branch": _optional(_plain)
    .flatmap(lambda own: st.just(f"{own}_") if own else st.just(""))
    .flatmap(lambda own: _plain.map(lambda core: f"{own}core_r{core}")),
    "megatron": _joined(st.sampled_from(["core_v", "core_r", "Core ", ""]), _plain),
    "dotted": st.lists(st.integers(0, 400), min_size=2, max_size=6).map(
        lambda numbers: ".".join(map(str, numbers))
    ),
    "python": _plain | _release,
    "name": st.text("abc-_.", min_size=1, max_size=12),
}


def _version(family: str) -> st.SearchStrategy[Version]:
    def read(raw: str) -> Version:
        version = parse(family, raw)
        assert version is not None, (family, raw)
        return version

    return SPELLINGS[family].map(read)


def test_every_family_has_spellings() -> None:
    assert set(SPELLINGS) == set(FAMILIES)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_order_is_total(family: str, data: st.DataObject) -> None:
    one, two, three = (data.draw(_version(family)) for _ in range(3))
    assert (one < two) + (one == two) + (one > two) == 1
    assert (one <= two) == (not one > two)
    assert (one == two) == (one <= two and two <= one)
    if one <= two and two <= three:
        assert one <= three
    if one == two:
        assert hash(one) == hash(two)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_reading_again_gives_the_same(family: str, data: st.DataObject) -> None:
    raw = data.draw(SPELLINGS[family])
    version = parse(family, raw)
    assert version is not None
    assert str(version) == raw
    assert parse(family, str(version)) == version
    assert parse(family, raw.upper()) == version or family == "name"


@settings(max_examples=80, deadline=None)
@given(one=SPELLINGS["pep440"], two=SPELLINGS["pep440"])
def test_pep440_orders_as_packaging_does(one: str, two: str) -> None:
    mine = parse("pep440", one), parse("pep440", two)
    assert mine[0] is not None
    assert mine[1] is not None
    theirs = Pep440(one), Pep440(two)
    assert (mine[0] < mine[1]) == (theirs[0] < theirs[1])
    assert (mine[0] == mine[1]) == (theirs[0] == theirs[1])


@settings(max_examples=120, deadline=None)
@given(text=st.text(max_size=120), family=st.sampled_from(FAMILIES))
def test_any_text_is_read_or_refused(text: str, family: str) -> None:
    version = parse(family, text)
    assert version is None or version.raw == text


@given(
    st.sampled_from(["cann", "product", "hdk", "pep440", "python", "megatron", "dotted"]),
    st.one_of(
        st.from_regex(r"\A\d{1,3}(\.\d{1,3}){0,6}\Z"),
        st.from_regex(r"\A\d(\.\d){0,3}(\.post\d{0,2})?(\+[a-z0-9]{0,4}[._-]?[a-z0-9]{0,3})?\Z"),
        st.text("0123456789.", max_size=8),
    ),
)
def test_plain_numbers_read_without_an_expression_mean_the_same(family: str, text: str) -> None:
    # A leading v is allowed everywhere and never read by the shortcut.
    short, long = parse(family, text), parse(family, "v" + text)
    assert (short and short.key) == (long and long.key)
