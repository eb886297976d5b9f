"""Specifications: what a claim means by a value."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.versions import SpecError, matches, parse, parse_spec
from tests.versions.test_grammar import SPELLINGS

_MATCHES = [
    ("cann", "8.3.RCX", "8.3.RC2", True),
    ("cann", "8.3.RCX", "8.3.RC1.alpha001", False),
    ("cann", "8.3.RCX", "8.3.0", False),
    ("cann", "9.0.X", "9.0.1", True),
    ("cann", "9.0.X", "9.0.0-beta.2", False),
    ("cann", "9.0.X", "9.1.0", False),
    ("cann", "8.3.RC1", "8.3.RC1.B110", True),
    ("cann", ">=7.0.0,<=8.0.0", "8.0.RC3", True),
    ("cann", "8.3.RC2|8.3.RC1|8.5.0.alpha001", "8.5.0.alpha001", True),
    ("hdk", "25.0.X", "25.0.rc1.1", True),
    ("hdk", "25.0.X", "25.2.0", False),
    ("hdk", "26.1.0", "26.1.0.b083", True),
    ("hdk", ">=25.5.0", "25.3.rc1", False),
    ("product", "26.1.X", "26.1.1", True),
    ("product", "26.1.0", "26.1.0-beta.1", False),
    ("pep440", "2.7.1", "2.7.1+cpu", True),
    ("pep440", "2.7.1", "2.7.1.post2", False),
    ("pep440", "2.9.0.post1+git4c901a4", "2.9.0.post1", False),
    ("pep440", "==2.14.0.*", "2.14.0+cpu", True),
    ("pep440", "==2.14.0.*", "2.14.1", False),
    ("pep440", "3.2.x", "3.2.1", True),
    ("pep440", "3.2.x", "3.2.1rc1", False),
    ("pep440", ">=4.45.0,<=4.52.4,!=4.46.*,!=4.52.0", "4.46.1", False),
    ("pep440", ">=4.45.0,<=4.52.4,!=4.46.*,!=4.52.0", "4.49.0", True),
    ("pep440", "<2.0", "2.0.0rc1", False),
    ("pep440", "<=1.26.0", "1.26.4", False),
    ("pep440", "~=2.7.1", "2.7.9", True),
    ("pep440", "~=2.7.1", "2.8.0", False),
    ("python", "3.10", "3.10.14", True),
    ("python", "3.10|3.11", "3.12.1", False),
    ("python", ">=3.10,<3.13", "3.12.9", True),
    ("python", "<=3.12", "3.12.9", True),
    ("python", "3.1", "3.10.1", False),
    ("dotted", "[7.0.0,7.5.99]", "7.3.0.1.231", True),
    ("dotted", "[6.4.0,6.4.99]|[7.0.0,8.9.9]", "6.5.0", False),
    ("branch", "26.1.0", "26.1.0_core_r0.12.1", True),
    ("branch", "26.1.0_core_r0.12.1", "26.1.0_core_r0.8.0", False),
    ("megatron", "core_v0.12.1", "0.12.1", True),
    ("name", "A2", "a2", True),
    ("pep440", "*", "0.0.1", True),
    ("pep440", "none", "0.0.1", False),
    ("pep440", "@b178a3cd5", "0.5.0", False),
]


@pytest.mark.parametrize(("family", "spec", "version", "expected"), _MATCHES)
def test_specifications(family: str, spec: str, version: str, expected: bool) -> None:
    assert matches(family, spec, version) is expected


@pytest.mark.parametrize(
    ("family", "spec"), [("cann", "nine"), ("pep440", ">=x"), ("pep440", ">=1.0 or 2"), ("hdk", "")]
)
def test_a_wrong_specification_is_an_error(family: str, spec: str) -> None:
    with pytest.raises(SpecError):
        parse_spec(family, spec)


def test_an_unreadable_version_matches_nothing() -> None:
    assert matches("cann", "9.1.0", "latest") is False


def test_exact_values_and_bounds_are_kept() -> None:
    spec = parse_spec("pep440", ">=4.49.0,<=4.51.0")
    assert [v.raw for v in spec.bounds] == ["4.49.0", "4.51.0"]
    assert not spec.is_exact
    assert parse_spec("cann", "9.0.0|9.0.1").is_exact
    assert parse_spec("pep440", "none").absent


@pytest.mark.parametrize("family", ["cann", "hdk", "product", "pep440", "branch", "megatron"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_version_matches_itself_and_its_bounds(family: str, data: st.DataObject) -> None:
    raw = data.draw(SPELLINGS[family])
    other = data.draw(SPELLINGS[family])
    assert matches(family, raw, raw)
    assert matches(family, f">={raw},<={raw}", raw)
    one, two = parse(family, raw), parse(family, other)
    assert one is not None
    assert two is not None
    if family != "pep440":
        # Local parts do not count in a bound, so only the others compare as the versions do.
        assert matches(family, f">={raw}", other) == (two >= one)
    assert matches(family, f"{raw}|{other}", other)
