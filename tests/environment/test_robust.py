"""Whatever is pasted: an answer, never an exception, in bounded time and memory."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certify.environment.redact import identities, secrets
from certify.environment.render.document import document
from certify.environment.render.junit import junit
from certify.environment.render.markdown import markdown
from certify.environment.render.text import text as as_text
from certify.environment.report import read_report
from certify.environment.report.text import clean
from certify.resolver.verdict import judge
from matrices.load import Matrix, load
from tests.environment.test_npu_smi import A2, A3, A950, FIRST, P310
from tests.environment.test_report import (
    COMPONENT_TABLES,
    NO_INSTALLATION,
    NO_SIGHTING,
    SENTENCES,
    TABLE,
)
from tests.environment.test_symptoms import TEXTS

ROOT = Path(__file__).resolve().parents[2]
SEEDS = [
    A2, A3, A950, FIRST, P310, *TEXTS, *NO_SIGHTING.values(), *(t for t, _ in TABLE.values()),
    *COMPONENT_TABLES.values(), *NO_INSTALLATION.values(), *SENTENCES,
]  # fmt: skip
VERDICTS = ("reference", "compatible", "unverified", "incompatible", "unknown")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def answer(raw: str | bytes, matrix: Matrix) -> str:
    """The whole way of a report, all output forms included."""
    stack = read_report(raw)
    verdict = judge(stack, matrix)
    for lang in ("en", "zh"):
        shown = document(stack, verdict, matrix, lang)
        assert identities(as_text(shown, lang))
    assert markdown(shown, "en")
    assert junit(shown).endswith("</testsuites>")
    return verdict.verdict


def mutate(text: str, chance: random.Random) -> str:
    """A sample cut, repeated, mixed with another one, with characters changed."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 6)):
        kind = chance.randrange(8)
        place = chance.randrange(len(lines))
        if kind == 0:
            lines[place] = lines[place][: chance.randrange(len(lines[place]) + 1)]
        elif kind == 1:
            lines.insert(place, chance.choice(SEEDS)[:200])
        elif kind == 2:
            lines[place] = "".join(
                chance.choice("|+-=: \t0.\x00\xff国\u202e" + c) if chance.random() < 0.1 else c
                for c in lines[place]
            )
        elif kind == 3:
            del lines[place]
            lines = lines or [""]
        elif kind == 4:
            lines[place] = lines[place] * chance.randint(2, 40)
        elif kind == 5:
            chance.shuffle(lines)
        elif kind == 6:
            lines[place] = lines[place].replace(".", chance.choice(["..", "", "9" * 90, ".rc"]))
        else:
            lines[place] = lines[place].swapcase()
    return "\n".join(lines)[:10_000_000]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.binary(max_size=400), st.text(max_size=400)))
def test_any_input_gets_a_verdict(matrix: Matrix, raw: str | bytes) -> None:
    assert answer(raw, matrix) in VERDICTS


def fuzz(count: int, seed: int, matrix: Matrix) -> float:
    """Mutates samples; returns the longest CPU time in seconds that one of them took."""
    chance = random.Random(seed)
    longest = 0.0
    for number in range(count):
        raw = mutate(chance.choice(SEEDS), chance)
        start = time.process_time()
        try:
            stack = read_report(raw)
            verdict = judge(stack, matrix)
            document(stack, verdict, matrix, "zh")
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {number}: {raw!r}") from error
        longest = max(longest, time.process_time() - start)
        assert verdict.verdict in VERDICTS
    return longest


def test_mutated_samples(matrix: Matrix) -> None:
    fuzz(400, 20261130, matrix)


@pytest.mark.fuzz
def test_a_hundred_thousand_mutated_samples(matrix: Matrix, request: pytest.FixtureRequest) -> None:
    if "fuzz" not in request.config.getoption("markexpr"):
        pytest.skip("takes minutes: pytest -m fuzz")
    assert fuzz(100_000, int(os.environ.get("CERTIFY_SEED", "1")), matrix) < 2.0


BIG = {
    "one line": lambda: "CANN 8.5.0 " * 900_000,
    "log": lambda: "2026-01-01 00:00:00 INFO torch.distributed rank 3 step 1 loss 2.0\n" * 150_000,
    "npu table": lambda: A2 * 9_000,
    "pip list": lambda: "".join(f"package{n}      {n}.1.2\n" for n in range(400_000)),
    "errors": lambda: f"{next(iter(TEXTS))}\n" * 90_000,
    "digits": lambda: "torch 2." + "9" * 10_000_000,
    "short lines": lambda: "a\n" * 5_000_000,
    "no lines": lambda: "x" * 10_000_000,
    "pipes": lambda: "|" * 5_000_000 + "\n| 0 910B3 | OK |\n" * 200_000,
    "Chinese": lambda: "昇腾910B3，CANN：8.0.RC2，驱动：24.1.rc3。" * 300_000,
    "slashes": lambda: "a/" * 5_000_000 + ":b",
    "spaces": lambda: "torch" + " " * 10_000_000 + "2.1",
    "HTML tables": lambda: "<table><tr><td>torch</td><td>x</td></tr></table>\n" * 220_000,
    "HTML without an end": lambda: "<table><tr><td>a<td title='" * 380_000,
    "HTML lines without an end": lambda: "".join(f"<tr><td>torch {n}\n" for n in range(600_000)),
    "particles": lambda: "CANN 版本号的了已经目前 is of at now version " * 160_000,
    "ansi": lambda: "\x1b[31mtorch 2.1\x1b[0m\n" * 500_000,
}


# The others are run with -m slow: together they would take most of the default suite's time.
ALWAYS = ("errors", "pipes", "pip list", "digits")


@pytest.mark.parametrize(
    "name", [n if n in ALWAYS else pytest.param(n, marks=pytest.mark.slow) for n in BIG]
)
def test_ten_megabytes_stay_within_two_seconds_and_two_hundred_megabytes(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    report = tmp_path / "report.txt"
    report.write_text(BIG[name](), encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = (
        "import sys\nfrom certify.cli import main\n"
        "code = main(['check-env', '--report', sys.argv[1], '--json'])\n"
        # Not ru_maxrss: that still counts the memory of the process that started this one.
        "peak = next(l for l in open('/proc/self/status') if l.startswith('VmHWM'))\n"
        "print(peak.split()[1], file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(report)], capture_output=True, text=True, cwd=ROOT
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 1, 3), done.stderr[-500:]
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert int(done.stderr.split()[-1]) < 200 * 1024
    if "slow" in request.config.getoption("markexpr").replace("not slow", ""):
        # Seconds are asserted only where the machine is known to be quiet.
        assert spent < 2.0 * float(os.environ.get("CERTIFY_SLOW", "1"))


def test_redaction_never_fails_and_takes_secrets_out() -> None:
    text = (
        "HF_TOKEN=hf_abcdefghijklmnopqrst api_key: 'sk-abcdefghijklmnopqrstuv' password=hunter22 "
        "https://user:pass1234@host/x"
    )
    shown = secrets(text)
    for secret in ("hf_abc", "sk-abc", "hunter22", "pass1234"):
        assert secret not in shown
    assert "x.x.x.x" in identities("peer 10.1.2.3 down")
    assert identities("driver 25.0.0.1") == "driver 25.0.0.1"
    assert identities("/home/alice/env and bob@example.com") == "/home/USER/env and USER@HOST"


def test_open_escapes_need_no_memory() -> None:
    import tracemalloc

    tracemalloc.start()
    clean("\x1b]0;" * 500_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize("place", range(65_500, 65_560, 3))
def test_an_escape_across_the_border_of_two_pieces_goes(place: int) -> None:
    filling = "x" * place
    for escape in ("\x1b[31;1m", "\x1b]0;" + "t" * 150 + "\x1b\\", "\x1b]0;title\x07"):
        assert clean(filling + escape + "end") == filling + "end"


@pytest.mark.parametrize("row", ["| torch | x{} |", "torch, word{}, more", "torch\tx{}"])
def test_rows_that_are_no_versions_are_looked_at_once(row: str) -> None:
    start = time.monotonic()
    read_report("\n".join(row.format(number) for number in range(30_000)))
    assert time.monotonic() - start < 30
