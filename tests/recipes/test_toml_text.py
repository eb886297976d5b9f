"""What is written reads back."""

from __future__ import annotations

import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from certify.recipes.toml_text import dumps

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=("Cs",))),
)
KEYS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
TABLES = st.recursive(
    st.dictionaries(KEYS, st.one_of(SCALARS, st.lists(st.integers(), max_size=9)), min_size=1),
    lambda inner: st.dictionaries(
        KEYS, st.one_of(SCALARS, inner, st.lists(inner, min_size=1, max_size=3)), min_size=1
    ),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@given(TABLES)
def test_round_trip(table: dict) -> None:  # type: ignore[type-arg]
    assert tomllib.loads(dumps(table)) == table


def test_what_is_not_stated_is_left_out() -> None:
    assert dumps({"a": None, "b": {}, "c": {"d": None, "e": 1}}) == "[c]\ne = 1\n"
