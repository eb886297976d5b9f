"""Probes on fake trees: both CANN layouts, mixed installs, shadowed modules, damaged packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from certify.environment.probes import PROBES, inspect
from certify.resolver.verdict import judge
from matrices.load import load
from tests.environment import trees

if TYPE_CHECKING:
    from pathlib import Path

    from certify.environment.stack import Stack


def versions(stack: Stack, component: str) -> list[str]:
    return [found.version for found in stack.components.get(component, ())]


def signals(stack: Stack) -> set[str]:
    return {signal.id for signal in stack.signals}


def look(root: Path, **environ: str) -> Stack:
    stack = inspect(str(root), tools=False, environ=environ)
    failed = [section for section in stack.sections if section.state == "unparsed"]
    assert not failed, failed
    return stack


def test_a_whole_reference_host(tmp_path: Path) -> None:
    trees.reference_host(tmp_path)
    stack = look(tmp_path, ATB_HOME_PATH="/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1")
    expected = {
        "os": "ubuntu 22.04", "arch": "aarch64", "glibc": "2.35", "libstdcxx": "3.4.30",
        "python": "3.11", "cann": "8.5.0", "cann_ops": "8.5.0", "nnal": "8.5.0",
        "driver": "25.5.0", "firmware": "7.7.0.1.231", "torch": "2.9.0+cpu",
        "torch_npu": "2.9.0", "torch_abi": "1", "atb_abi": "1", "numpy": "1.26.4",
    }  # fmt: skip
    assert {name: versions(stack, name)[0] for name in expected} == expected
    assert signals(stack) == set()
    assert stack.components["cann"][0].detail["path"] == "/usr/local/Ascend/cann-8.5.0"


def test_the_old_layout_is_read_through_its_links(tmp_path: Path) -> None:
    trees.cann_old(tmp_path, "8.2.RC1")
    stack = look(tmp_path)
    assert versions(stack, "cann") == ["8.2.RC1"]
    assert stack.components["cann"][0].detail["path"] == "/usr/local/Ascend/ascend-toolkit/8.2.RC1"
    assert versions(stack, "cann_ops") == ["8.2.RC1"]


def test_the_variable_decides_between_several_versions(tmp_path: Path) -> None:
    trees.cann_old(tmp_path, "8.2.RC1")
    trees.cann_new(tmp_path, "8.5.0")
    trees.cann_new(tmp_path, "9.0.0", current=False)
    plain = look(tmp_path)
    assert versions(plain, "cann")[0] == "8.5.0"
    assert set(versions(plain, "cann")) == {"8.2.RC1", "8.5.0", "9.0.0"}
    assert "cann-several" in signals(plain)
    chosen = look(tmp_path, ASCEND_HOME_PATH="/usr/local/Ascend/cann-9.0.0")
    assert versions(chosen, "cann")[0] == "9.0.0"
    assert chosen.components["cann"][0].detail["in_force"] == "yes"


def test_a_user_install_wins_over_the_system_when_the_variable_says_so(tmp_path: Path) -> None:
    trees.cann_old(tmp_path, "8.1.RC1", base="home/user/Ascend")
    trees.cann_old(tmp_path, "8.2.RC1.alpha001")
    stack = look(tmp_path, ASCEND_HOME_PATH="/home/user/Ascend/ascend-toolkit/latest")
    assert versions(stack, "cann")[0] == "8.1.RC1"


def test_paths_of_two_trees_are_a_signal(tmp_path: Path) -> None:
    trees.cann_new(tmp_path, "8.5.0")
    stack = look(
        tmp_path,
        ASCEND_HOME_PATH="/usr/local/Ascend/cann-8.5.0",
        LD_LIBRARY_PATH="/usr/local/Ascend/cann-8.5.0/lib64:"
        "/usr/local/Ascend/ascend-toolkit/8.2.RC1/lib64:/usr/local/Ascend/cann-8.5.0/lib64",
    )
    assert {"cann-paths-mixed", "cann-paths-repeated"} <= signals(stack)


def test_a_product_that_is_given_need_not_be_seen(tmp_path: Path) -> None:
    trees.reference_host(tmp_path)
    stack, matrix = look(tmp_path), load()
    unseen, given = judge(stack, matrix), judge(stack, matrix, product="A2")
    assert (unseen.verdict, [m.component for m in unseen.missing]) == ("unverified", ["product"])
    assert (given.verdict, given.missing) == ("reference", ())


@pytest.mark.parametrize("opp", [True, False])
def test_a_toolkit_without_its_ops_package_cannot_run(tmp_path: Path, opp: bool) -> None:
    tree = "usr/local/Ascend/cann-9.0.0"
    info = "package_name=Ascend-cann-toolkit\nversion=9.0.0\n"
    trees.write(tmp_path, f"{tree}/aarch64-linux/ascend_toolkit_install.info", info)
    if opp:
        (tmp_path / tree / "opp").mkdir()
    stack = look(tmp_path)
    assert "kernels-absent" in signals(stack)
    found = [f for f in judge(stack, load()).findings if f.rule == "cann-kernels"]
    assert [f.severity for f in found] == ["error"]


def test_an_old_910_compiles_operators_and_only_a_doubt_is_left(tmp_path: Path) -> None:
    trees.cann_old(tmp_path, "8.0.0")
    tree = tmp_path / "usr/local/Ascend/ascend-toolkit/8.0.0"
    (tree / "opp_kernel/version.info").unlink()
    stack = look(tmp_path)
    severities = {
        product: [f.severity for f in judge(stack, load(), product=product).findings
                  if f.rule == "cann-kernels"]
        for product in ("910", "A2")
    }  # fmt: skip
    assert severities == {"910": ["warning"], "A2": ["error"]}


def test_a_tree_that_holds_no_toolkit_asks_for_no_operators(tmp_path: Path) -> None:
    trees.write(tmp_path, "usr/local/Ascend/cann-9.0.0/runtime/version.info", "Version=9.0.0\n")
    assert "kernels-absent" not in signals(look(tmp_path))


def test_two_trees_of_a_module_name_the_one_that_is_imported(tmp_path: Path) -> None:
    trees.package(tmp_path, "mindspeed", "0.12.1")
    trees.write(tmp_path, f"{trees.SITE}/mindspeed/__init__.py", "")
    trees.write(tmp_path, "opt/MindSpeed/mindspeed/__init__.py", "")
    trees.git(tmp_path, "opt/MindSpeed", "ref: refs/heads/26.1.0_core_r0.12.1")
    alone = look(tmp_path)
    assert "module-several" not in signals(alone)
    assert alone.components["mindspeed_core"][0].detail["install"] == "pip"
    stack = look(tmp_path, PYTHONPATH="/opt/MindSpeed")
    assert versions(stack, "mindspeed_core")[0] == "26.1.0_core_r0.12.1"
    assert stack.components["mindspeed_core"][0].detail["install"] == "checkout"
    (signal,) = [s for s in stack.signals if s.id == "module-several"]
    assert signal.data["first"] == "/opt/MindSpeed/mindspeed"
    (found,) = [f for f in judge(stack, load()).findings if f.rule == "module-shadow"]
    assert found.severity == "warning"


def test_git_version_and_post_level_of_torch_npu(tmp_path: Path) -> None:
    trees.torch_npu(tmp_path, "2.7.1.post4", git="d99d6cda" + "0" * 32)
    stack = look(tmp_path)
    assert versions(stack, "torch_npu") == ["2.7.1.post4"]
    assert versions(stack, "torch_npu_git") == ["d99d6cda" + "0" * 32]
    assert versions(stack, "torch_npu_requires") == ["==2.7.1"]


def test_a_source_folder_on_the_path_shadows_the_wheel(tmp_path: Path) -> None:
    trees.torch_npu(tmp_path, "2.7.1")
    trees.write(tmp_path, "srv/pytorch/torch_npu/__init__.py", "")
    trees.write(tmp_path, "srv/pytorch/torch_npu/version.py", "__version__ = '2.7.1'\n")
    stack = look(tmp_path, PYTHONPATH="/srv/pytorch")
    assert "module-shadow-path" in signals(stack)
    assert versions(stack, "torch_npu") == ["2.7.1"]


@pytest.mark.parametrize("module", ["torch_npu", "triton", "mindspeed"])
def test_an_empty_folder_is_a_namespace(tmp_path: Path, module: str) -> None:
    trees.write(tmp_path, f"{trees.SITE}/{module}/leftover.txt", "")
    assert "namespace-folder" in signals(look(tmp_path))


def test_triton_ascend_as_installed_is_quiet(tmp_path: Path) -> None:
    trees.triton_ascend(tmp_path, "3.2.1")
    stack = look(tmp_path)
    assert versions(stack, "triton_ascend") == ["3.2.1"]
    assert not signals(stack)


@pytest.mark.parametrize("library", [b"short", b"plain!" * 10])
def test_a_library_of_plain_triton_is_found_by_size_or_hash(tmp_path: Path, library: bytes) -> None:
    trees.triton_ascend(tmp_path, "3.2.0")
    trees.write(tmp_path, f"{trees.SITE}/triton/_C/libtriton.so", library)
    trees.package(tmp_path, "triton", "3.6.0")
    trees.write(
        tmp_path,
        f"{trees.SITE}/triton-3.6.0.dist-info/RECORD",
        trees.record_row("triton/_C/libtriton.so", library),
    )
    assert "triton-files-foreign" in signals(look(tmp_path))


def test_files_that_pip_took_away_are_found(tmp_path: Path) -> None:
    trees.triton_ascend(tmp_path, "3.2.0")
    (tmp_path / trees.SITE / "triton/_C/libtriton.so").unlink()
    assert "triton-files-missing" in signals(look(tmp_path))


def test_checkouts_by_branch_tag_submodule_and_link(tmp_path: Path) -> None:
    commit = "a" * 40
    trees.write(tmp_path, "srv/MindSpeed-LLM/mindspeed_llm/__init__.py", "")
    trees.git(tmp_path, "srv/MindSpeed-LLM", "ref: refs/heads/26.0.0")
    core = "srv/MindSpeed-LLM/3rdparty/MindSpeed"
    trees.write(tmp_path, f"{core}/mindspeed/__init__.py", "")
    trees.write(tmp_path, f"{core}/.git", "gitdir: ../../.git/modules/MindSpeed\n")
    modules = "srv/MindSpeed-LLM/.git/modules/MindSpeed"
    trees.write(tmp_path, f"{modules}/HEAD", commit)
    trees.write(
        tmp_path,
        f"{modules}/packed-refs",
        f"{'b' * 40} refs/tags/v26.0.0_core_r0.12.1\n^{commit}\n",
    )
    trees.link(tmp_path, "srv/MindSpeed-LLM/mindspeed", "3rdparty/MindSpeed/mindspeed")
    trees.write(
        tmp_path,
        "srv/MindSpeed-LLM/megatron/core/package_info.py",
        "MAJOR = 0\nMINOR = 12\nPATCH = 1\nPRE_RELEASE = ''\n",
    )
    stack = look(tmp_path, PYTHONPATH="/srv/MindSpeed-LLM")
    assert versions(stack, "mindspeed_llm") == ["26.0.0"]
    assert versions(stack, "mindspeed_core") == ["26.0.0_core_r0.12.1"]
    assert stack.components["mindspeed_core"][0].detail["commit"] == commit
    assert stack.components["mindspeed_core"][0].detail["link"] == "3rdparty/MindSpeed/mindspeed"
    assert versions(stack, "megatron") == ["0.12.1"]


def test_a_link_of_another_name_is_found(tmp_path: Path) -> None:
    trees.write(tmp_path, "src/MindSpeed/mindspeed/__init__.py", "")
    trees.link(tmp_path, "srv/MindSpeed", "../src/MindSpeed/mindspeed")
    assert "module-link-name" in signals(look(tmp_path, PYTHONPATH="/srv"))
    trees.link(tmp_path, "srv/mindspeed", "../src/MindSpeed/mindspeed")
    assert "module-link-name" not in signals(look(tmp_path, PYTHONPATH="/srv"))


def test_a_copied_tree_is_told_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from certify.environment import fingerprints

    old, new = b"x = 1\n", b"x = 2\n"
    rows = [
        ("mindspeed_core", "a.py", fingerprints.blob_id(old), ("2.2.0_core_r0.12.1",)),
        ("mindspeed_core", "a.py", fingerprints.blob_id(new), ("2.3.0_core_r0.12.1", "master")),
        ("mindspeed_core", "b.py", fingerprints.blob_id(old), ("master",)),
        ("mindspeed_core", "b.py", fingerprints.blob_id(new), ("2.3.0_core_r0.12.1",)),
    ]
    monkeypatch.setattr(fingerprints, "_rows", lambda: rows)
    trees.write(tmp_path, "srv/mindspeed/__init__.py", "")
    for name in ("a.py", "b.py"):
        trees.write(tmp_path, f"srv/mindspeed/{name}", new)
    found = look(tmp_path, PYTHONPATH="/srv").components["mindspeed_core"][0]
    assert (found.version, found.confidence) == ("2.3.0_core_r0.12.1", "inferred")
    trees.write(tmp_path, "srv/mindspeed/b.py", b"edited\n")
    assert versions(look(tmp_path, PYTHONPATH="/srv"), "mindspeed_core") == ["unknown"]


def test_the_table_of_fingerprints_tells_releases_apart() -> None:
    from certify.environment.fingerprints import _rows

    by_release: dict[str, set[tuple[str, str]]] = {}
    for component, path, blob, releases in _rows():
        for release in releases:
            by_release.setdefault(f"{component} {release}", set()).add((path, blob))
    assert len(by_release) > 20
    marks = [frozenset(marks) for marks in by_release.values()]
    assert len(set(marks)) >= len(marks) - 6


def test_two_megatrons_are_reported_with_both_places(tmp_path: Path) -> None:
    for folder, patch in (("opt/Megatron-LM", "0"), (trees.SITE, "1")):
        trees.write(
            tmp_path,
            f"{folder}/megatron/core/package_info.py",
            f"MAJOR = 0\nMINOR = 12\nPATCH = {patch}\n",
        )
    stack = look(tmp_path, PYTHONPATH="/opt/Megatron-LM")
    assert versions(stack, "megatron") == ["0.12.0", "0.12.1"]
    signal = next(s for s in stack.signals if s.id == "megatron-several")
    assert signal.data["first"] == "/opt/Megatron-LM/megatron"


def test_editable_installs_by_pth_and_by_finder(tmp_path: Path) -> None:
    trees.write(tmp_path, "src/MindSpeed/mindspeed/__init__.py", "")
    trees.git(tmp_path, "src/MindSpeed", "ref: refs/heads/core_r0.12.1")
    trees.write(tmp_path, f"{trees.SITE}/__editable__.mindspeed-0.12.1.pth", "/src/MindSpeed\n")
    trees.write(tmp_path, "src/llm/mindspeed_llm/__init__.py", "")
    trees.git(tmp_path, "src/llm", "ref: refs/heads/master")
    trees.write(
        tmp_path,
        f"{trees.SITE}/__editable___mindspeed_llm_26_finder.py",
        "MAPPING: dict[str, str] = {'mindspeed_llm': '/src/llm/mindspeed_llm'}\n",
    )
    stack = look(tmp_path)
    assert versions(stack, "mindspeed_core") == ["core_r0.12.1"]
    assert versions(stack, "mindspeed_llm") == ["master"]


def test_a_broken_probe_takes_nothing_else_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(host: object) -> None:
        raise RuntimeError("no such luck")

    trees.driver(tmp_path, "25.5.0")
    monkeypatch.setitem(PROBES, "cann", broken)
    stack = inspect(str(tmp_path), tools=False, environ={})
    assert versions(stack, "driver") == ["25.5.0"]
    assert [(s.kind, s.state) for s in stack.sections] == [("cann", "unparsed")]


def test_secrets_and_foreign_variables_are_not_recorded(tmp_path: Path) -> None:
    stack = look(
        tmp_path, HCCL_CONNECT_TIMEOUT="1800", HF_TOKEN="hf_x", ASCEND_API_KEY="x", HOME="/root"
    )
    assert stack.variables == {"HCCL_CONNECT_TIMEOUT": "1800"}


def test_hostile_trees_end_quickly(tmp_path: Path) -> None:
    trees.write(
        tmp_path, f"{trees.SITE}/torch/version.py", "__version__ = '" + "9" * 200_000 + "'\n"
    )
    trees.link(tmp_path, "usr/local/Ascend/cann", "/../../../../etc")
    trees.link(tmp_path, "usr/local/Ascend/ascend-toolkit", "ascend-toolkit")
    trees.write(tmp_path, f"{trees.SITE}/torch_npu/version.py", b"\x00\xff\xfe" * 1000)
    trees.write(
        tmp_path, f"{trees.SITE}/triton_ascend-3.2.0.dist-info/RECORD", b"\xff,\x00\n" * 999
    )
    stack = look(tmp_path)
    assert all(len(f.version) < 200 for found in stack.components.values() for f in found)


@pytest.mark.parametrize("there", ["4.51.0", "4.57.1"])
def test_two_records_of_one_distribution(tmp_path: Path, there: str) -> None:
    for version in ("4.51.0", "4.57.1"):
        trees.package(tmp_path, "transformers", version)
    trees.write(tmp_path, f"{trees.SITE}/transformers/version.py", f"__version__ = '{there}'\n")
    stack = look(tmp_path)
    assert sorted(versions(stack, "transformers")) == ["4.51.0", "4.57.1"]
    assert versions(stack, "transformers")[0] == stack.packages["transformers"] == there
    twice = next(s for s in stack.signals if s.id == "distribution-twice")
    assert twice.data["there"] == there


def test_two_records_of_torch_npu(tmp_path: Path) -> None:
    trees.package(tmp_path, "torch_npu", "2.6.0")
    trees.torch_npu(tmp_path, "2.7.1")
    stack = look(tmp_path)
    assert "distribution-twice" in signals(stack)
    assert stack.packages["torch-npu"] == versions(stack, "torch_npu")[0] == "2.7.1"
