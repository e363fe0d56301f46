"""The key alone decides; what comes in goes out or is itemised; the same rows make the same bytes."""

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cluster import RayParams, cluster
from registry.files import sha256
from tests import tiny
from tests.training.test_rows import write_csv, write_jsonl
from training import splits
from training.data_report import DataRefused, judge, report, warnings
from training.keys import SPLITS, key_of, rate, split_of
from training.params import DataParams, RatingThresholds
from training.settle import COLUMNS
from training.splits import split_files, write_golden
from training.tally import Tally, add

PARAMS = DataParams(source="any", text_column="text", label_column="label")


@pytest.fixture(scope="module")
def ray_data() -> Iterator[None]:
    with cluster(RayParams(num_cpus=2)):
        yield


def split(folder: Path, *files: Path, params: DataParams = PARAMS) -> tuple[Tally, dict[str, list[dict[str, str]]]]:
    """What was counted, and the rows of each split."""
    folder.mkdir()
    tally = split_files({file.name: file for file in files}, params, folder)
    return tally, {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in SPLITS}


def flat(found: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
    return [row for rows in found.values() for row in rows]


def digests(folder: Path) -> list[str]:
    return [sha256(folder / f"{name}.parquet") for name in SPLITS]


def texts(count: int, seed: int = 0) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(f"text {i} {rng.random()}", "ab"[i % 2]) for i in range(count)]


# --- keys ------------------------------------------------------------------------------------------------------------


def test_case_blanks_and_spelling_do_not_change_the_key_but_words_and_seed_do() -> None:
    key = key_of("Café  au lait", 7)
    assert key == key_of(" cafe\u0301\tAU lait\n", 7)
    assert key_of("STRASSE", 7) == key_of("straße", 7)
    assert key != key_of("Café au thé", 7)
    assert key != key_of("Café  au lait", 8)


def test_a_key_never_changes_its_split_when_test_grows() -> None:
    more = PARAMS.model_copy(update={"test_fraction": 0.2})
    keys = [key_of(str(i), 7) for i in range(2000)]
    assert all(split_of(key, more) == "test" for key in keys if split_of(key, PARAMS) == "test")


def test_shares_are_within_four_standard_deviations() -> None:
    n = 20_000
    found = Counter(split_of(key_of(f"text {i}", 7), PARAMS) for i in range(n))
    for name, fraction in (("val", 0.1), ("test", 0.1), ("train", 0.8)):
        assert abs(found[name] / n - fraction) <= 4 * math.sqrt(fraction * (1 - fraction) / n)


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        ("-0.5", "negative"),
        ("-0.49", "neutral"),
        ("0", "neutral"),
        (" +.5 ", "positive"),
        ("1e0", "positive"),
        ("-4", "negative"),
        ("nan", None),
        ("inf", None),
        ("1_0", None),
        ("good", None),
        ("١", None),
        ("", None),
    ],
)
def test_a_rating_is_a_plain_number_or_nothing(cell: str, label: str | None) -> None:
    assert rate(cell, RatingThresholds(negative_at_most=-0.5, positive_at_least=0.5)) == label


# --- the flow --------------------------------------------------------------------------------------------------------


def test_rows_that_come_in_go_out_or_are_itemised(ray_data: None, tmp_path: Path) -> None:
    good = texts(400)
    bad = ["", "   ", "\u200b" * 5, "\ufeff", "\u00ad", "\x00", "\t"]  # d19
    cells = [*good, *((text, "a") for text in bad), *((f"unlabelled {i}", "") for i in range(4))]  # d13: 1 % empty
    path = write_csv(tmp_path / "a.csv", cells)
    tally, found = split(tmp_path / "out", path)
    assert Counter((row["text"], row["label"]) for row in flat(found)) == Counter(good)
    assert tally.dropped == {"missing_text": 1, "blank_text": 6, "missing_label": 4}
    assert tally.dropped_rows["missing_label"] == [f"a.csv:{line}" for line in range(409, 413)]
    assert tally.read == {"a.csv": 411}
    assert report(tally, 0, PARAMS)["rows"]["in"] == 411


def test_split_files_have_the_stated_columns_and_order(ray_data: None, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [dict(row) for row in tiny.rows(200)])
    _, found = split(tmp_path / "out", path, params=PARAMS.model_copy(update={"slice_column": "slice"}))
    for name in SPLITS:
        assert pq.read_schema(tmp_path / "out" / f"{name}.parquet").equals(COLUMNS)
        assert found[name] == sorted(found[name], key=lambda row: (row["key"], row["row"]))
        assert all(split_of(row["key"], PARAMS) == name for row in found[name])
    assert {row["slice"] for row in flat(found)} == set(tiny.SLICES)
    assert all(row["key"] == key_of(row["text"], 7) for row in flat(found))
    assert not [entry for entry in (tmp_path / "out").iterdir() if entry.suffix != ".parquet"]


def test_d09_half_an_emoji_drops_its_row_and_counts_it(ray_data: None, tmp_path: Path) -> None:
    objects: list[dict[str, object]] = [{"text": text, "label": label} for text, label in texts(100)]
    objects += [{"text": "great \ud83d", "label": "a"}, {"text": "fine", "label": "\ud83d"}]
    tally, found = split(tmp_path / "out", write_jsonl(tmp_path / "a.jsonl", objects))
    assert tally.dropped == {"lone_surrogate": 2}
    assert len(flat(found)) == 100


def test_d13_parts_without_any_label_and_files_without_rows_do_no_harm(ray_data: None, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("1.parquet", "2.parquet", "3.csv", "4.parquet")]
    words, labels = zip(*texts(60), strict=True)
    pq.write_table(pa.table({"text": [f"no label {i}" for i in range(30)], "label": pa.nulls(30)}), files[0])
    pq.write_table(pa.table({"text": words, "label": labels}), files[1])
    write_csv(files[2], [])
    pq.write_table(pa.table({"text": pa.array([], pa.string()), "label": pa.array([], pa.string())}), files[3])
    tally, found = split(tmp_path / "out", *files)
    assert tally.dropped == {"missing_label": 30}
    assert tally.read == {"1.parquet": 30, "2.parquet": 60, "3.csv": 0, "4.parquet": 0}
    assert len(flat(found)) == 60


def test_d16_repeats_never_straddle(ray_data: None, tmp_path: Path) -> None:
    cells = [(f"Some text number {i}", "ab"[i % 2]) for i in range(1000)]
    cells += [(f"some TEXT number {i} ", "ab"[i % 2]) for i in range(300)]
    cells += [(f"Some\u00a0text  number {i}", "ab"[i % 2]) for i in range(300)]
    tally, found = split(tmp_path / "out", write_csv(tmp_path / "a.csv", cells))
    keys = [{row["key"] for row in found[name]} for name in SPLITS]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 1000
    assert tally.repeats == {"texts": 300, "rows": 600}
    assert len(flat(found)) == 1600


@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_d17_conflicts_are_counted_and_treated_as_stated(ray_data: None, tmp_path: Path, policy: str) -> None:
    cells = [*texts(200), *((f"torn {i}", label) for i in range(50) for label in "ab")]
    params = PARAMS.model_copy(update={"on_conflict": policy})
    tally, found = split(tmp_path / "out", write_csv(tmp_path / "a.csv", cells), params=params)
    assert tally.conflicts == {"texts": 50, "rows": 100}
    assert tally.dropped == ({"conflict": 100} if policy == "drop" else {})
    assert len(flat(found)) == (200 if policy == "drop" else 300)
    example = report(tally, 0, params)["conflicts"]["examples"][0]
    assert len(example) == 2 and all(row.startswith("a.csv:") for row in example)
    assert any("50 texts carry two labels" in warning for warning in warnings(tally, params))


def test_d20_order_of_files_and_size_of_parts_change_no_byte(
    ray_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [write_csv(tmp_path / f"{i}.csv", [*texts(150, seed=i), ("again", "a"), ("again", "b")]) for i in range(3)]
    one, _ = split(tmp_path / "one", *parts)
    monkeypatch.setattr(splits, "PART_BYTES", 1000)
    other, _ = split(tmp_path / "other", *parts[::-1])
    assert digests(tmp_path / "one") == digests(tmp_path / "other")
    assert report(one, 0, PARAMS) == report(other, 0, PARAMS)


def test_d20_renamed_files_keep_every_row_in_its_split(ray_data: None, tmp_path: Path) -> None:
    one, other = (
        split(tmp_path / f"out-{name}", write_csv(tmp_path / f"{name}.csv", texts(200)))[1] for name in ("z", "a")
    )
    for name in SPLITS:
        assert [(row["text"], row["label"]) for row in one[name]] == [
            (row["text"], row["label"]) for row in other[name]
        ]


def test_new_rows_never_move_old_ones(ray_data: None, tmp_path: Path) -> None:
    _, before = split(tmp_path / "before", write_csv(tmp_path / "a.csv", texts(300)))
    _, after = split(tmp_path / "after", write_csv(tmp_path / "a.csv", [*texts(10, seed=9), *texts(300)]))
    for name in SPLITS:
        assert {row["text"] for row in before[name]} <= {row["text"] for row in after[name]}


def test_csv_jsonl_and_parquet_of_the_same_rows_give_the_same_splits(ray_data: None, tmp_path: Path) -> None:
    cells = [(f'a "text", {i}\nwith a line', str(i % 3)) for i in range(120)]
    write_csv(tmp_path / "a.csv", cells)
    write_jsonl(tmp_path / "a.jsonl", [{"text": text, "label": int(label)} for text, label in cells])
    words, labels = zip(*cells, strict=True)
    pq.write_table(pa.table({"text": words, "label": pa.array(labels).dictionary_encode()}), tmp_path / "a.parquet")
    found = [
        {name: [(row["text"], row["label"]) for row in rows] for name, rows in split(tmp_path / kind, path)[1].items()}
        for kind in ("csv", "jsonl", "parquet")
        for path in [tmp_path / f"a.{kind}"]
    ]
    assert found[0] == found[1] == found[2]


def test_faults_of_all_files_are_told_at_once_and_in_order(ray_data: None, tmp_path: Path) -> None:
    one = write_csv(tmp_path / "1.csv", [("x", "0.3"), ("y", "good"), ("z", "nan")])
    other = tmp_path / "2.csv"
    other.write_text("text,rating\nx,1\n", encoding="utf-8")
    thresholds = RatingThresholds(negative_at_most=-0.5, positive_at_least=0.5)
    tally, _ = split(tmp_path / "out", one, other, params=PARAMS.model_copy(update={"rating_thresholds": thresholds}))
    with pytest.raises(DataRefused) as refusal:
        judge(tally)
    first, second, third, *remedies = str(refusal.value).splitlines()[1:]
    assert "1.csv:3: 'good'" in first
    assert "1.csv:4: 'nan'" in second
    assert "2.csv: has no column 'label'" in third
    assert len(remedies) == 2
    assert "data.rating_thresholds: null" in remedies[0] and "data.label_column" in remedies[1]


# --- what the counts say ---------------------------------------------------------------------------------------------


def classes(**counts: tuple[int, int, int]) -> Tally:
    rows = {label: dict(zip(SPLITS, of_class, strict=True)) for label, of_class in counts.items()}
    return Tally(read={"a.csv": sum(map(sum, counts.values()))}, classes=rows)


def test_m04_one_class_is_refused_by_name() -> None:
    with pytest.raises(DataRefused, match=r"needs at least 2 classes, found 1 \(`ok`\)"):
        judge(classes(ok=(80, 10, 10)))


def test_no_rows_are_refused_with_what_became_of_them() -> None:
    with pytest.raises(DataRefused, match="7 read, 7 missing_label"):
        judge(Tally(read={"a.csv": 7}, dropped={"missing_label": 7}))


def test_d15_small_classes_are_refused_with_names_counts_and_remedy() -> None:
    with pytest.raises(DataRefused) as refusal:
        judge(classes(a=(80, 10, 10), b=(80, 10, 10), c=(1, 0, 0), d=(3, 1, 0), e=(20, 0, 4)))
    message = str(refusal.value)
    assert "3 of 5 classes" in message
    assert "`c`: 1 row, none in val, test" in message
    assert "`d`: 4 rows, none in test" in message
    assert "`e`: 24 rows, none in val" in message
    assert "data.seed" in message and "`a`" not in message


def test_thousands_of_classes_are_not_listed_one_by_one() -> None:
    with pytest.raises(DataRefused, match="and 4,990 more"):
        judge(classes(**{f"c{i:04}": (1, 0, 0) for i in range(5000)}))


def test_few_rows_of_a_class_in_a_split_are_a_warning() -> None:
    found = classes(a=(80, 10, 10), d=(10, 4, 6))
    judge(found)
    assert [warning for warning in warnings(found, PARAMS) if "only 4 rows in val" in warning]


def test_d05_names_that_look_missing_or_alike_are_warned_about_and_kept() -> None:
    found = warnings(classes(**dict.fromkeys(("null", "pos", "Pos ", "fine"), (80, 10, 10))), PARAMS)
    assert len(found) == 2
    assert any("'null' looks like a missing value" in warning for warning in found)
    assert any("'Pos ', 'pos' differ only in case or blanks" in warning for warning in found)


def test_an_uneven_share_is_warned_about() -> None:
    assert any("in test, not 0.1" in warning for warning in warnings(classes(a=(80, 10, 10), b=(500, 60, 200)), PARAMS))


def test_the_report_is_numbers_without_times_or_texts() -> None:
    tally = add(
        [
            classes(a=(80, 10, 10), b=(80, 10, 10)),
            Tally(slices={"x": {"a": 3}}, chars={1: 50, 9: 50}, words={1: 99, 7: 1}),
            Tally(slices={"x": {"a": 2, "b": 1}}, dropped={"blank_text": 12}),
            Tally(dropped_rows={"blank_text": [f"a.csv:{i}" for i in range(12, 0, -1)]}),
        ]
    )
    found = report(tally, 20, PARAMS)
    json.dumps(found, allow_nan=False)
    assert found["slices"] == {"x": {"a": 5, "b": 1}}
    assert found["lengths"] == {
        "chars": {"p50": 1, "p90": 9, "p99": 9, "max": 9},
        "words": {"p50": 1, "p90": 1, "p99": 1, "max": 7},
    }
    assert found["dropped"]["blank_text"]["examples"] == [f"a.csv:{i}" for i in range(1, 6)]
    assert found["classes"]["a"]["shares"] == {"train": 0.8, "val": 0.1, "test": 0.1}


# --- golden ----------------------------------------------------------------------------------------------------------


def golden(tmp_path: Path, labels: list[str]) -> tuple[int, list[dict[str, Any]]]:
    rows = [{"text": "t", "label": label, "row": f"a:{i}", "key": f"{i:064x}"} for i, label in enumerate(labels)]
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS), tmp_path / "test.parquet")
    count = write_golden(tmp_path / "test.parquet", tmp_path / "golden.parquet", sorted(set(labels)))
    return count, pq.read_table(tmp_path / "golden.parquet").to_pylist()


def test_golden_is_the_smallest_keys_and_ten_of_each_class(tmp_path: Path) -> None:
    count, rows = golden(tmp_path, ["a"] * 500 + ["b"] * 12 + ["c"] * 3)
    assert count == 200
    assert Counter(row["label"] for row in rows) == {"a": 187, "b": 10, "c": 3}
    assert [row["row"] for row in rows if row["label"] == "a"] == [f"a:{i}" for i in range(187)]
    assert rows == sorted(rows, key=lambda row: row["key"])


def test_golden_takes_all_of_a_small_test_split(tmp_path: Path) -> None:
    assert golden(tmp_path, ["a", "b"] * 15)[0] == 30


@pytest.mark.parametrize("count", [150, 300])
def test_golden_stays_small_with_many_classes(tmp_path: Path, count: int) -> None:
    size, rows = golden(tmp_path, [f"class {i % count:03}" for i in range(900)])
    assert size == 200
    assert len({row["label"] for row in rows}) == min(count, 200)
