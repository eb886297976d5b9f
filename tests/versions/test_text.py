"""Versions in what people type."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.versions import FAMILIES, from_free_text, parse


@pytest.mark.parametrize(
    ("family", "text", "expected"),
    [
        ("cann", "8.1RC1", "8.1.RC1"),
        ("cann", "cann8.3rc1", "8.3.RC1"),
        ("cann", "CANN：8.0.RC2.2", "8.0.RC2.2"),
        ("cann", "8.0.0-beta1", "8.0.0.beta1"),
        ("cann", "cann7.0.0beta1", "7.0.0.beta1"),
        ("cann", "CANN 9.0.0-beta.2", "9.0.0-beta.2"),
        ("cann", "9.1.0 beta", "9.1.0-beta"),
        ("cann", "Ascend-cann-toolkit_7.0.0.alpha001_linux-aarch64.run", "7.0.0.alpha001"),
        ("cann", "cann:9.1.1-950-ubuntu22.04-py3.12-devel", "9.1.1"),
        ("cann", "CANN 8.2.1", "8.2.1"),
        ("cann", "8.1.RC1.B110", "8.1.RC1.B110"),
        ("hdk", "driver 24.1 rc3", "24.1.rc3"),
        ("hdk", "npu-smi: v23.0.3", "23.0.3"),
        ("hdk", "npu-smi 25.0.rc1.1", "25.0.rc1.1"),
        ("hdk", "26.1.0.b083", "26.1.0.b083"),
        ("pep440", "torch-npu-2.10.post4", "2.10.0.post4"),
        ("pep440", "torch_npu 2.7.1.dev20250724", "2.7.1.dev20250724"),
        ("pep440", "2.9.0.post1+git4c901a4", "2.9.0.post1+git4c901a4"),
        ("python", "3.10.16 (main, Dec 11 2024)", "3.10.16"),
        ("branch", "26.1.0_core_r0.12.1", "26.1.0_core_r0.12.1"),
    ],
)
def test_free_spellings(family: str, text: str, expected: str) -> None:
    found = from_free_text(family, text)
    assert found is not None
    assert found.raw == expected
    assert found == parse(family, expected)


@pytest.mark.parametrize(("family", "text"), [("cann", "no version"), ("hdk", ""), ("name", "")])
def test_nothing_to_find(family: str, text: str) -> None:
    assert from_free_text(family, text) is None


@settings(max_examples=120, deadline=None)
@given(text=st.text(max_size=500), family=st.sampled_from(FAMILIES))
def test_any_text_gives_a_version_or_none(text: str, family: str) -> None:
    found = from_free_text(family, text)
    assert found is None or parse(family, found.raw) == found
