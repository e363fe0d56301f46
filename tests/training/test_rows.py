"""What a file holds is what is read: literally, in any order, or not at all and with a reason."""

import csv
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from training.cells import Columns, Fault, Row
from training.params import DataParams
from training.rows import MAX_FAULTS, read

COLUMNS = Columns("text", "label")


def rows(path: Path, columns: Columns = COLUMNS, encoding: str = "utf-8") -> list[Row]:
    """All rows of a file without faults."""
    items = list(read(path, columns, encoding))
    assert not [item for item in items if isinstance(item, Fault)]
    return [item for item in items if isinstance(item, Row)]


def faults(path: Path, columns: Columns = COLUMNS, encoding: str = "utf-8") -> list[Fault]:
    return [item for item in read(path, columns, encoding) if isinstance(item, Fault)]


def write_csv(path: Path, cells: list[tuple[str, str]], quoting: int = csv.QUOTE_MINIMAL) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=quoting).writerows([("text", "label"), *cells])
    return path


def write_jsonl(path: Path, objects: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in objects), encoding="utf-8")
    return path


def write_bytes(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("count", [2, 60_000])
def test_d02_quoted_line_breaks_are_read_whatever_the_size(tmp_path: Path, count: int) -> None:
    cells = [(f"first line {i}\nsecond line, {i}", "ab"[i % 2]) for i in range(count)]
    found = rows(write_csv(tmp_path / "a.csv", cells))
    assert [(row.text, row.label) for row in found] == cells
    assert [row.number for row in found[:2]] == [2, 4], "a row is named by the line on which it starts"


@pytest.mark.parametrize(
    "labels", [["001", "002"], ["true", "false"], ["2024-01-02", "2024-01-03"], ["1", "1e5"], ["1.0", "1", "+1", "01"]]
)
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_d04_labels_are_the_literal_cell_text(tmp_path: Path, labels: list[str], quoting: int) -> None:
    found = rows(write_csv(tmp_path / "a.csv", [("words", label) for label in labels], quoting))
    assert [row.label for row in found] == labels


def test_d05_only_an_empty_cell_is_missing(tmp_path: Path) -> None:
    names = ["null", "NA", "None", "nan", "N/A", "", " "]
    found = rows(write_csv(tmp_path / "a.csv", [("NA", name) for name in names]))
    assert [row.label for row in found] == [name or None for name in names]
    assert {row.text for row in found} == {"NA"}


def test_d06_one_missing_label_changes_no_other(tmp_path: Path) -> None:
    cells = [(f"text {i}", str(i % 3)) for i in range(5000)]
    cells[4990] = ("text 4990", "")
    found = rows(write_csv(tmp_path / "a.csv", cells))
    assert {row.label for row in found} == {"0", "1", "2", None}
    assert [row.number for row in found if row.label is None] == [4992]


def test_d07_a_word_after_two_hundred_thousand_numbers_is_a_label_too(tmp_path: Path) -> None:
    cells = [("t", str(i % 3)) for i in range(200_000)] + [("t", "spam")]
    assert {row.label for row in rows(write_csv(tmp_path / "a.csv", cells))} == {"0", "1", "2", "spam"}


def test_d09_half_an_emoji_is_read_as_it_stands(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "a.jsonl", b'{"text":"great \\ud83d","label":"pos"}\n')
    assert rows(path)[0].text == "great \ud83d"


@pytest.mark.parametrize("missing", [{"label": None}, {}])
def test_d10_jsonl_reads_alike_in_either_order(tmp_path: Path, missing: dict[str, object]) -> None:
    objects: list[dict[str, object]] = [{"text": f"t {i}", **missing} for i in range(25_000)]
    objects += [{"text": f"t {i}", "label": "pos"} for i in range(25_000, 30_000)]
    objects[-1]["extra"] = {"nested": [1, {"label": "no"}]}
    forward = rows(write_jsonl(tmp_path / "a.jsonl", objects))
    backward = rows(write_jsonl(tmp_path / "b.jsonl", objects[::-1]))
    assert [row[1:] for row in forward] == [row[1:] for row in backward][::-1]
    assert sum(row.label is None for row in forward) == 25_000


@pytest.mark.parametrize("at", [0, 10])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_d11_a_text_of_three_mebibytes_is_one_row(tmp_path: Path, at: int, kind: str) -> None:
    cells = [(f"short {i}", "a") for i in range(20)]
    cells.insert(at, ("long " * 600_000 + "end", "b"))
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        write_csv(path, cells)
    else:
        write_jsonl(path, [{"text": text, "label": label} for text, label in cells])
    assert [(row.text, row.label) for row in rows(path)] == cells


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("quoted.csv", '"text","label"\nx,pos\n'),
        ("plain.csv", "text,label\nx,pos\n"),
        ("lines.jsonl", '{"text":"x","label":"pos"}\n'),
        ("label-first.csv", '"label","text"\npos,x\n'),
        ("tabs.tsv", "text\tlabel\nx\tpos\n"),
    ],
)
def test_d12_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path, name: str, content: str) -> None:
    path = write_bytes(tmp_path / name, content.encode("utf-8-sig"))
    assert [row[1:3] for row in rows(path)] == [("x", "pos")]


def test_d12_utf16_is_read_when_stated_and_named_when_not(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "a.csv", "text,label\nжук,pos\n".encode("utf-16"))
    assert rows(path, encoding="utf-16")[0].text == "жук"
    for encoding in ("utf-8", "latin-1"):
        (fault,) = faults(path, encoding=encoding)
        assert "UTF-16" in fault.message and "data.encoding: utf-16" in fault.message
    unmarked = write_bytes(tmp_path / "b.csv", "text,label\nx,pos\n".encode("utf-16-le"))
    assert "UTF-16" in faults(unmarked)[0].message


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("text, label", ["' label'", "blanks"]),
        ("text,la\u200bbel", ["'la\\u200bbel'", "invisible"]),
        ("text,l\u0430bel", ["l\\u0430bel"]),
        ("text,Label", ["'Label' differs in case"]),
        ("text;label", ["'text;label'", "separated by something else"]),
        ("text,", ["''"]),
    ],
)
def test_d12_an_unknown_column_shows_why_it_is_not_the_one(tmp_path: Path, header: str, says: list[str]) -> None:
    path = write_bytes(tmp_path / "a.csv", f"{header}\nx,pos\n".encode())
    (fault,) = faults(path)
    assert "data.label_column" in fault.message or "data.text_column" in fault.message
    for part in says:
        assert part in fault.message


def test_an_unknown_slice_column_may_be_set_to_null(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [("x", "pos")])
    assert "set it to null" in faults(path, Columns("text", "label", "domain"))[0].message
    jsonl = write_jsonl(tmp_path / "a.jsonl", [{"text": "x", "label": "pos"}])
    assert "data.slice_column" in faults(jsonl, Columns("text", "label", "domain"))[0].message


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "a.csv", b"text,label,label\nx,a,b\n")
    assert "2 columns named 'label'" in faults(path)[0].message


def test_d14_categorical_parquet_gives_its_words(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    groups = [
        (["b", "a", "unused"], [0, 1, None, 0], ["t0", "t1", "t2", "t3"]),
        (["a", "b", "unused"], [0, 1, 1, 0], ["t4", "t5", "t6", None]),
    ]
    schema = pa.schema([("text", pa.large_string()), ("label", pa.dictionary(pa.int8(), pa.string()))])
    with pq.ParquetWriter(path, schema) as file:
        for words, codes, texts in groups:
            labels = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(words))
            file.write_table(pa.table([pa.array(texts, pa.large_string()), labels], schema=schema))
    assert [(row.number, row.text, row.label) for row in rows(path)] == [
        (1, "t0", "b"),
        (2, "t1", "a"),
        (3, "t2", None),
        (4, "t3", "b"),
        (5, "t4", "a"),
        (6, "t5", "b"),
        (7, "t6", "b"),
        (8, None, "a"),
    ]


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.int64(), [0, 1, None], ["0", "1", None]),
        (pa.bool_(), [True, False], ["true", "false"]),
        (pa.float64(), [1.0, 0.1], ["1.0", "0.1"]),
        (pa.null(), [None, None], [None, None]),
        (pa.string(), ["", "001"], [None, "001"]),
        (pa.string_view(), ["x"], ["x"]),
        (pa.dictionary(pa.int32(), pa.int64()), [7, 8], ["7", "8"]),
    ],
)
def test_parquet_cells_are_written_as_text(
    tmp_path: Path, kind: object, values: list[object], texts: list[str]
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["t"] * len(values), "label": pa.array(values, kind)}), path)
    assert [row.label for row in rows(path)] == texts


@pytest.mark.parametrize("kind", [pa.date32(), pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.binary()])
def test_a_parquet_column_without_one_spelling_is_refused(tmp_path: Path, kind: object) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["t"], "label": pa.array([None], kind)}), path)
    (fault,) = faults(path)
    assert "save it as text" in fault.message


def test_d21_json_scalars_are_their_json_text_and_lists_are_refused(tmp_path: Path) -> None:
    scalars = [{"text": "t", "label": label} for label in (0, "1", True, False, 1.50, "x")]
    path = write_jsonl(tmp_path / "a.jsonl", scalars)
    assert [row.label for row in rows(path)] == ["0", "1", "true", "false", "1.5", "x"]
    literal = write_bytes(tmp_path / "b.jsonl", b'{"text":"t","label":1.50}\n{"text":"t","label":1E5}\n')
    assert [row.label for row in rows(literal)] == ["1.50", "1E5"]
    lists: list[dict[str, object]] = [
        {"text": "t", "label": ["0"]},
        {"text": "t", "label": {}},
        {"text": [], "label": "a"},
    ]
    found = faults(write_jsonl(tmp_path / "c.jsonl", [*scalars, *lists]))
    assert [fault.number for fault in found] == [7, 8, 9]
    assert "'label' is a list" in found[0].message and "'label' is an object" in found[1].message


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"text":"t","label":"a","label":"b"}', "'label' twice"),
        (b'{"text":"t","label":NaN}', "NaN"),
        (b'["t","a"]', "one object"),
        (b'{"text":"t",', "column"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_a_line_that_is_no_plain_object_is_named(tmp_path: Path, line: bytes, says: str) -> None:
    path = write_bytes(tmp_path / "a.jsonl", b'{"text":"t","label":"a"}\n\n' + line + b"\n")
    (fault,) = faults(path)
    assert fault.number == 3
    assert says in fault.message


def test_ragged_rows_are_named_and_blank_lines_are_none(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "a.csv", b'text,label\n"a\nb",x\n\nc,x,y\nd\n')
    assert [fault.number for fault in faults(path)] == [5, 6]
    assert "3 cells, the header 2" in faults(path)[0].message


def test_an_open_quote_names_the_line_where_its_row_starts(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "a.csv", b'text,label\ngood,x\n"never closed,x\nmore,x\n')
    (fault,) = faults(path)
    assert fault.number == 3 and "quote" in fault.message
    stray = write_bytes(tmp_path / "b.csv", b'text,label\n"he said "no" to it",x\n')
    assert faults(stray)[0].number == 2


def test_bytes_that_are_not_in_the_encoding_name_their_line(tmp_path: Path) -> None:
    body = b"".join(b"line %d,x\n" % i for i in range(5000))
    path = write_bytes(tmp_path / "a.csv", b"text,label\n" + body + b"caf\xe9,x\n")
    (fault,) = faults(path)
    assert fault.number == 5002 and "data.encoding" in fault.message
    assert rows(path, encoding="cp1252")[-1].text == "café"


def test_reading_stops_after_enough_faults(tmp_path: Path) -> None:
    path = write_bytes(tmp_path / "a.csv", b"text,label\n" + b"one\n" * 1000)
    assert len(list(read(path, COLUMNS))) == MAX_FAULTS


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.tsv"])
def test_an_empty_file_is_a_fault(tmp_path: Path, name: str) -> None:
    (fault,) = faults(write_bytes(tmp_path / name, b""))
    assert fault.number is None


def test_a_parquet_file_that_is_none_is_a_fault(tmp_path: Path) -> None:
    assert "cannot be read" in faults(write_bytes(tmp_path / "a.parquet", b"text,label\nx,y\n"))[0].message


def test_whatever_csv_writes_is_read_as_csv_reads_it(tmp_path: Path) -> None:
    rng = random.Random(3)
    letters = ["a", '"', ",", "\n", "\r", "\r\n", "\t", "\\", "é", "\u2028", "\x00", "😀", " ", "\x85", "\x1c", "'"]
    cells = [("".join(rng.choices(letters, k=rng.randint(0, 6))), rng.choice("ab")) for _ in range(3000)]
    path = write_csv(tmp_path / "a.csv", cells)
    with path.open(encoding="utf-8", newline="") as file:
        independent = [(row["text"] or None, row["label"]) for row in csv.DictReader(file)]
    assert [(row.text, row.label) for row in rows(path)] == independent


def test_whatever_json_writes_is_read_as_json_reads_it(tmp_path: Path) -> None:
    rng = random.Random(4)
    letters = ["a", '"', "\n", "\r", "\\", "\u2028", "\x00", "😀", "\ud83d", "\x85"]
    objects = [{"text": "x" + "".join(rng.choices(letters, k=5)), "label": rng.choice("ab")} for _ in range(3000)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(item) + "\r\n" for item in objects), encoding="utf-8", newline="")
    assert [{"text": row.text, "label": row.label} for row in rows(path)] == objects


def test_an_unknown_encoding_is_refused_with_the_params() -> None:
    with pytest.raises(ValidationError, match="is no text encoding"):
        DataParams(source="a.csv", text_column="text", label_column="label", encoding="utf8x")
