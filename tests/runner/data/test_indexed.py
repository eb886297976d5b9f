"""Megatron's indexed dataset, byte for byte: against its own builder and an own reading of BPE."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certify.errors import InfrastructureError, UsageError
from certify.runspec import IndexedSpec, read_indexed_spec, write_indexed_spec
from runner.data import indexed, indexed_tokenizer, prepare_indexed

pytestmark = pytest.mark.torch
ids = st.lists(st.integers(0, 65535), max_size=6)
documents = st.lists(st.lists(ids, max_size=4), max_size=6)


def builder(path: Path, dtype: str, multimodal: bool = False) -> Any:
    module = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    return module.IndexedDatasetBuilder(f"{path}.bin", getattr(np, dtype), multimodal)


def same(one: Path, other: Path) -> None:
    for suffix in (".bin", ".idx"):
        assert Path(f"{one}{suffix}").read_bytes() == Path(f"{other}{suffix}").read_bytes(), suffix


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(documents, st.sampled_from(["uint16", "int32"]), st.booleans())
def test_same_bytes_as_the_builder(
    tmp_path: Path, content: list[list[list[int]]], dtype: str, multimodal: bool
) -> None:
    theirs = builder(tmp_path / "theirs", dtype, multimodal)
    with (tmp_path / "ours.bin").open("wb") as file:
        ours = indexed.IndexedWriter(file, dtype, multimodal=multimodal)
        for number, sequences in enumerate(content):
            flat = [one for sequence in sequences for one in sequence]
            modes = [(number + i) % 3 for i in range(len(sequences))]
            theirs.add_document(flat, [len(one) for one in sequences], modes)
            ours.add_document(sequences, "here", modes)
    theirs.finalize(f"{tmp_path / 'theirs'}.idx")
    with (tmp_path / "ours.idx").open("wb") as file:
        ours.write_index(file)
    same(tmp_path / "ours", tmp_path / "theirs")


@pytest.mark.parametrize("size", [None, 1, 65499, 65500, 151936])
def test_same_dtype(size: int | None) -> None:
    module = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    assert indexed.optimal_dtype(size) == module.DType.optimal_dtype(size).__name__
    assert indexed.CODES["uint16"] == module.DType.code_from_dtype(np.uint16)


def test_an_id_that_does_not_fit(tmp_path: Path) -> None:
    with (tmp_path / "x.bin").open("wb") as file:
        writer = indexed.IndexedWriter(file, "uint16")
        with pytest.raises(UsageError, match="from 7 to 65536 do not fit uint16") as caught:
            writer.add_document([[7, 65536]], "corpus.jsonl:3")
    assert caught.value.where == "corpus.jsonl:3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Hugging Face tokenizer folder that puts <s> before a text when asked to."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(["the cat sat on the mat. 猫坐在垫子上。"] * 3, trainer)
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    made = tmp_path_factory.mktemp("tokenizer")
    backend.save(str(made / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "bos_token": "<s>"}
    (made / "tokenizer_config.json").write_text(json.dumps(config))
    return made


RECORDS: list[Any] = [
    "the cat sat on the mat",
    "",
    "猫坐在垫子上。 </s> is a token",
    ["the cat", "", "sat"],
    [],
    "  two\tspaces\n",
]


def write(path: Path, records: list[Any], key: str = "text") -> Path:
    path.write_text("".join(json.dumps({key: one}, ensure_ascii=False) + "\n" for one in records))
    return path


def spec(tmp_path: Path, source: Path, **changes: Any) -> IndexedSpec:
    return IndexedSpec(str(source), str(tmp_path / "ours"), **changes)


def megatron(tmp_path: Path, records: list[Any], tokenizer: Any, eod: int | None) -> Path:
    """What tools/preprocess_data.py does with each record, on Megatron's own builder."""
    module = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    prefix = tmp_path / "theirs_text_document"
    made = builder(prefix, module.DType.optimal_dtype(tokenizer.vocab_size).__name__)
    for record in records:
        found = [
            tokenizer.text_to_ids(one) for one in ([record] if isinstance(record, str) else record)
        ]
        found = [one for one in found if one]
        if found and eod is not None:
            found[-1] = [*found[-1], eod]
        made.add_document([x for one in found for x in one], [len(one) for one in found])
    made.finalize(f"{prefix}.idx")
    return prefix


def theirs_of(folder: Path, special: bool) -> Any:
    """Megatron-Core's own tokenizer of a Hugging Face folder."""
    name = "megatron.core.tokenizers.text.libraries.huggingface_tokenizer"
    module = pytest.importorskip(name)
    return module.HuggingFaceTokenizer(str(folder), include_special_tokens=special)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("eod", [None, 1])
def test_same_bytes_as_the_tool(
    tmp_path: Path, folder: Path, eod: int | None, special: bool
) -> None:
    theirs = megatron(tmp_path, RECORDS, theirs_of(folder, special), eod)
    source = write(tmp_path / "a.jsonl", RECORDS)
    wanted = spec(
        tmp_path, source, tokenizer_path=str(folder), append_eod=eod is not None,
        special_tokens=special,
    )  # fmt: skip
    found = prepare_indexed.prepare(wanted)
    same(tmp_path / "ours_text_document", theirs)
    assert (found["documents"], found["dtype"]) == (6, "uint16")
    assert found["empty_documents"] == (0 if special else 2) + (1 if special else 0)


def test_megatron_reads_it_back(tmp_path: Path, folder: Path) -> None:
    module = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    source = write(tmp_path / "a.jsonl", RECORDS)
    prepare_indexed.prepare(spec(tmp_path, source, tokenizer_path=str(folder), append_eod=True))
    dataset = module.IndexedDataset(str(tmp_path / "ours_text_document"))
    encoder = indexed_tokenizer.from_folder(folder, append_eod=True)
    texts = [encoder.backend.decode(list(map(int, one))) for one in dataset]
    assert texts[0] == "the cat sat on the mat"
    assert len(texts) == 5
    assert dataset.document_indices.tolist() == [0, 1, 1, 2, 4, 4, 5]


def test_the_layout_of_mindspeed_llm(tmp_path: Path, folder: Path) -> None:
    """int32 whatever the vocabulary, the tokenizer's own marks, empty documents dropped."""
    source = write(tmp_path / "a.jsonl", ["the cat", "", "sat"])
    tokenizer = theirs_of(folder, special=True)
    prefix = tmp_path / "theirs_text_document"
    made = builder(prefix, "int32")
    for text in ("the cat", "sat"):
        made.add_item(__import__("torch").IntTensor([*tokenizer.text_to_ids(text), 1]))
        made.end_document()
    made.finalize(f"{prefix}.idx")
    wanted = spec(
        tmp_path, source, tokenizer_path=str(folder), append_eod=True, layout="mindspeed-llm"
    )
    assert prepare_indexed.prepare(wanted)["dtype"] == "int32"
    same(tmp_path / "ours_text_document", prefix)


def _gpt2_files(tmp_path: Path) -> tuple[Path, Path, list[tuple[str, str]], dict[str, int]]:
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [
        ("t", "h"),
        ("th", "e"),
        ("Ġ", "the"),
        ("a", "t"),
        ("Ġ", "c"),
        ("Ġc", "at"),
        ("1", "2"),
    ]
    table = {token: number for number, token in enumerate(alphabet)}
    for first, second in merges:
        table[first + second] = len(table)
    table["<|endoftext|>"] = len(table)
    (tmp_path / "vocab.json").write_text(json.dumps(table))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "vocab.json", tmp_path / "merges.txt", merges, table


def plain_bpe(text: str, merges: list[tuple[str, str]], table: dict[str, int]) -> list[int]:
    """GPT-2's rule by hand: split, map bytes, merge the pair that is listed first."""
    regex = pytest.importorskip("regex")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shown = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in shown:
            shown[byte] = chr(256 + len(shown) - len(printable))
    rank = {pair: number for number, pair in enumerate(merges)}
    words = regex.findall(
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", text
    )
    found = []
    for word in words:
        parts = [shown[byte] for byte in word.encode()]
        while len(parts) > 1:
            best = min(pairwise(parts), key=lambda pair: rank.get(pair, len(rank)))
            if best not in rank:
                break
            joined, at = [], 0
            while at < len(parts):
                both = tuple(parts[at : at + 2]) == best
                joined.append("".join(best) if both else parts[at])
                at += 2 if both else 1
            parts = joined
        found += [table[part] for part in parts]
    return found


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([" the", "cat", "'ll", "12", "  ", "\n", "<|endoftext|>", "é", "猫"]),
            st.characters(exclude_categories=["Cs", "Cn"]),
        ),
        max_size=12,
    ).map("".join)
)
def test_gpt2_bpe_by_hand(tmp_path: Path, text: str) -> None:
    vocab, merges, pairs, table = _gpt2_files(tmp_path)
    encoder = indexed_tokenizer.from_gpt2_files(vocab, merges, append_eod=False)
    (found,) = encoder.encode([text], ["here"], special_tokens=False)
    assert found == plain_bpe(text, pairs, table)


def test_gpt2_files_to_bytes(tmp_path: Path) -> None:
    vocab, merges, pairs, table = _gpt2_files(tmp_path)
    source = write(tmp_path / "a.jsonl", ["the cat <|endoftext|>", "12"], key="body")
    files = {"vocab_path": str(vocab), "merges_path": str(merges)}
    found = prepare_indexed.prepare(
        spec(tmp_path, source, json_key="body", append_eod=True, **files)
    )
    assert found["vocab_size"] == len(table)
    expected = [
        *plain_bpe("the cat <|endoftext|>", pairs, table), table["<|endoftext|>"],
        *plain_bpe("12", pairs, table), table["<|endoftext|>"],
    ]  # fmt: skip
    stored = np.fromfile(tmp_path / "ours_body_document.bin", dtype="<u2")
    assert stored.tolist() == expected


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda v, m: m.write_text("#v\na b c\n"), "found 3 words"),
        (lambda v, m: m.write_text("#v\nq z\n"), "token 'qz' is not in the vocabulary"),
        (lambda v, m: v.write_text('{"a": 0}'), "255 of the 256 bytes are no tokens"),
        (lambda v, m: v.write_text("[1]"), "not a vocabulary"),
        (lambda v, m: v.write_text("[" * 100000), "not JSON"),
        (lambda v, m: v.write_text('{"a": 0, "b": 0}'), "two tokens have one id"),
        (lambda v, m: v.write_bytes(b"\xff"), "not UTF-8 at byte 0"),
        (lambda v, m: m.unlink(), "cannot read the file"),
    ],
)
def test_gpt2_files_that_do_not_fit(tmp_path: Path, change: Any, what: str) -> None:
    vocab, merges, *_ = _gpt2_files(tmp_path)
    change(vocab, merges)
    with pytest.raises(UsageError, match=what):
        indexed_tokenizer.from_gpt2_files(vocab, merges, append_eod=True)


def test_all_sources_give_the_same_bytes(tmp_path: Path, folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    texts = ["the cat", "sat on\r the mat", "猫"]
    sources = {
        "jsonl": write(tmp_path / "a.jsonl", texts),
        "list": tmp_path / "a.json",
        "parquet": tmp_path / "a.parquet",
        "lines": tmp_path / "a.txt",
        "folder": tmp_path / "many",
    }
    sources["list"].write_text(json.dumps([{"text": one} for one in texts], indent=2))
    table = pyarrow.table({"n": [1, 2, 3, 4], "text": [*texts[:2], None, texts[2]]})
    pyarrow.parquet.write_table(table, sources["parquet"])
    sources["lines"].write_bytes("\r\n".join(texts).encode())
    sources["folder"].mkdir()
    for number, text in enumerate(texts):
        (sources["folder"] / f"{number}.txt").write_bytes(text.encode())
    digests = {}
    for name, source in sources.items():
        unit = "line" if name == "lines" else "file"
        wanted = IndexedSpec(
            str(source), str(tmp_path / name), tokenizer_path=str(folder), text_unit=unit
        )
        found = prepare_indexed.prepare(wanted)
        digests[name] = (found["bin_sha256"], found["idx_sha256"])
        assert found["nulls_left_out"] == (name == "parquet")
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize(
    ("content", "what", "where"),
    [
        (b'{"text": "a"}\n{"txt": "b"}\n', "no key 'text': found txt", ":2"),
        (b'{"text": "a"}\n{"text": 3}\n', "'text' is int", ":2"),
        (b'{"text": "a"}\n\n{"text": "b\n', "not JSON", ":3"),
        (b'{"text": "a"}\n{"text": "\xff"}\n', "byte 0xff is not UTF-8", ":2"),
        (b'{"text": "a"}\n{"text": "x\\ud800"}\n', "half of a surrogate pair", ":2"),
        (b"[1]\n", "found list", ":1"),
        (b'{"text": ""}\n', "the data holds no text", "a.jsonl"),
        (b"", "the data holds no text", "a.jsonl"),
    ],
)
def test_bad_input_names_file_and_line(
    tmp_path: Path, folder: Path, content: bytes, what: str, where: str
) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(content)
    with pytest.raises(UsageError, match=what) as caught:
        prepare_indexed.prepare(spec(tmp_path, source, tokenizer_path=str(folder)))
    assert str(caught.value.where).endswith(where)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_a_file_that_is_no_parquet(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(UsageError, match="cannot read the parquet file"):
        prepare_indexed.prepare(spec(tmp_path, tmp_path / "a.parquet", tokenizer_path=str(folder)))


def test_existing_files_stay_unless_told(tmp_path: Path, folder: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["the cat"])
    wanted = spec(tmp_path, source, tokenizer_path=str(folder))
    (tmp_path / ".ours_text_document.bin.999999999.partial").write_bytes(b"of a killed run")
    first = prepare_indexed.prepare(wanted)
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(UsageError, match="there already"):
        prepare_indexed.prepare(wanted)
    write(source, ["the cat sat"])
    again = prepare_indexed.prepare(
        spec(tmp_path, source, tokenizer_path=str(folder), overwrite=True)
    )
    assert again["tokens"] > first["tokens"]
    assert json.loads((tmp_path / "ours_text_document.info").read_text()) == again


def test_a_run_that_fails_leaves_the_old_pair(tmp_path: Path, folder: Path) -> None:
    source = write(tmp_path / "a.jsonl", ["the cat"])
    prepare_indexed.prepare(spec(tmp_path, source, tokenizer_path=str(folder)))
    before = (tmp_path / "ours_text_document.bin").read_bytes()
    source.write_text("{\n")
    with pytest.raises(UsageError):
        prepare_indexed.prepare(spec(tmp_path, source, tokenizer_path=str(folder), overwrite=True))
    assert (tmp_path / "ours_text_document.bin").read_bytes() == before
    assert (tmp_path / "ours_text_document.idx").is_file()


def test_a_disk_that_refuses(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(indexed.IndexedWriter, "write_index", full)
    source = write(tmp_path / "a.jsonl", ["the cat"])
    with pytest.raises(InfrastructureError, match="No space left"):
        prepare_indexed.prepare(spec(tmp_path, source, tokenizer_path=str(folder)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_batches_do_not_show(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a.jsonl", RECORDS * 3)
    whole = prepare_indexed.prepare(spec(tmp_path, source, tokenizer_path=str(folder)))
    monkeypatch.setattr(prepare_indexed, "BATCH_TEXTS", 2)
    parts = prepare_indexed.prepare(
        spec(tmp_path, source, tokenizer_path=str(folder), overwrite=True)
    )
    assert parts == whole


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tokenizer_path": "t", "vocab_path": "v", "merges_path": "m"},
        {"vocab_path": "v"},
        {"tokenizer_path": "t", "layout": "x"},
        {"tokenizer_path": "t", "workers": 0},
        {"tokenizer_path": "t", "json_key": "../x"},
    ],
)
def test_specs_are_checked(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_indexed_spec(IndexedSpec("in", "out", **changes), tmp_path / "spec.json")
    with pytest.raises(UsageError):
        read_indexed_spec(tmp_path / "spec.json")
