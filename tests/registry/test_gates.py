"""Each gate passes good evidence, fails bad evidence with a remedy, and says so when rows are too few."""

from typing import Any

import numpy as np
import pytest

from registry import chance
from registry.errors import MachineFault
from registry.evidence import Bin, Champion, ClassSeen, Evidence, Offline, SliceSeen
from registry.gate_params import Floors, GateParams
from registry.gates import FULL, MODEL_GATES, SERVICE_GATES, judge
from registry.report import Verdict
from registry.service_evidence import (
    Batching,
    Behaviour,
    BehaviourKind,
    Case,
    Drill,
    Faults,
    Identity,
    Latency,
    Memory,
    Misbehaviour,
    Overload,
    Parity,
    Resident,
    Shutdown,
    Throughput,
    Way,
)
from training.metrics import CALIBRATION_BINS, calibration_error, confusion, macro_f1

DIGEST, GRAPH = "sha256:" + "1" * 64, "sha256:" + "2" * 64
LIMITS = GateParams(
    min_accuracy=0.0,
    min_macro_f1=0.0,
    corpus_floors={"hutto-gilbert": Floors(accuracy=0.75, macro_f1=0.68)},
    max_drop=0.02,
    min_slice_accuracy=0.5,
    min_class_f1=0.3,
    max_calibration_error=0.05,
    max_batch_bound=1e-4,
    max_p95_ms=500.0,
    min_share_of_raw=0.25,
    deploy_timeout_s=120.0,
    full=True,
)
OFFLINE = Offline(
    source="rows.csv",
    labels=("bad", "good"),
    rows=200,
    accuracy=0.9,
    macro_f1=0.89,
    calibration_error=0.02,
    majority_accuracy=0.6,
    majority_macro_f1=0.375,
    tfidf_accuracy=0.8,
    tfidf_macro_f1=0.79,
    classes={"bad": ClassSeen(f1=0.86, support=80), "good": ClassSeen(f1=0.92, support=120)},
    slices={"tweets": SliceSeen(accuracy=0.9, support=200)},
    reliability=(Bin(rows=200, score=0.9, accuracy=0.9),),
    confusion=((70, 10), (10, 110)),
    top_scores=(0.9,) * 200,
)
DRILL = Drill(
    what="SIGKILL of the only model replica",
    rule="503 until the next is up",
    replicas=1,
    clients=16,
    statuses={"200": 300, "503": 40},
    fine=("200", "503"),
    may_lose=0,
    recovered=True,
    recovery_s=9.0,
    slowest_s=4.1,
    looks=150,
    untrue=0,
    untrue_examples=(),
    after=Way(answers=200, labels_differ=0, worst=1e-6),
)
MB = 2**20


def resident(*megabytes: float) -> dict[str, Resident]:
    """A process whose memory was read so."""
    return {"Model r1": Resident(over_time=tuple((float(i), int(mb * MB)) for i, mb in enumerate(megabytes)))}


GOOD = Evidence(
    offline=OFFLINE,
    champion=None,
    identity=Identity(
        version="3",
        digest=DIGEST,
        graph_digest=GRAPH,
        nonce="n",
        runtime="torch-fp32",
        loaded={"r1": DIGEST},
        runtimes={"r1": "torch-fp32"},
        ingress={"graph_digest": GRAPH, "deployment": "n"},
        health={"version": "3", "digest": DIGEST, "graph_digest": GRAPH, "deployment": "n", "runtime": "torch-fp32"},
        header_version="3",
    ),
    behaviour=Behaviour(about=("bad", "good"), kinds={"minimum": BehaviourKind(cases=10, failing=())}),
    contract=(Case(name="one text", expected="200", got="200", ok=True),),
    parity=Parity(runtime="torch-fp32", rounding=0.0, ways={"alone": Way(answers=20, labels_differ=0, worst=1e-6)}),
    batching=Batching(max_batch_size=8, in_flight=16, texts_by_size={8: 80, 4: 8}, over_time=((0.1, 4), (0.9, 8))),
    latency=Latency(
        requests=20, p50_ms=(40, 41), p95_ms=(60, 70), p99_ms=(80, 81), raw_p50_ms=(12, 13), ms=(40.0, 41.0, 80.0)
    ),
    throughput=Throughput(
        in_flight=16,
        threads=1,
        served=(80.0, 82.0),
        raw=(150.0, 160.0),
        forward_ms=(200.0, 210.0),
        forward_flops=(18e9, 18e9),
        matmul_flops_per_s=(120e9, 118e9),
        statuses={"200": 300},
    ),
    overload=Overload(
        texts=1536,
        limit=1024,
        statuses={"200": 16, "429": 8},
        without_retry_after=0,
        health={"200": 20},
        health_s=(0.01,) * 20,
        after={"200": 5},
        after_ms=(30.0,) * 5,
    ),
    faults=Faults(rounding=0.0, drills={"replica killed": DRILL}),
    memory=Memory(texts=3000, seconds=24.0, processes=resident(600, 640, 650, 651, 650, 652, 651, 653, 652)),
    shutdown=Shutdown(in_flight=16, finished=16, refused=0, lost={}, seconds=3.0, orphans=(), port_free=True),
    last_words="serve.status(): RUNNING",
)

WRONG = Misbehaviour(text="Fine.", wanted="good", said="bad")


def verdict(gate: str, seen: Evidence = GOOD, limits: GateParams = LIMITS) -> Verdict:
    """The verdict of one gate."""
    return next(v for v in judge(seen, limits) if v.gate == gate)


def with_(part: str, **changes: Any) -> Evidence:
    """Good evidence with one part changed."""
    return GOOD.model_copy(update={part: getattr(GOOD, part).model_copy(update=changes)})


def drilled(**changes: Any) -> Evidence:
    """Good evidence with one drill changed."""
    return with_("faults", drills={"replica killed": DRILL.model_copy(update=changes)})


def against(ours: np.ndarray, theirs: np.ndarray, truth: np.ndarray, **changes: Any) -> Evidence:
    """Good evidence beside a champion's answers to the same rows."""
    rival = Champion(
        digest="sha256:" + "c" * 64,
        its_labels=("bad", "good"),
        labels=("bad", "good"),
        truth=tuple(truth.tolist()),
        ours=tuple(ours.tolist()),
        theirs=tuple(theirs.tolist()),
        slices=(None,) * len(truth),
        examples=(),
        left_out=0,
        training_known=True,
    )
    return GOOD.model_copy(update={"champion": rival.model_copy(update=changes)})


def answers(rows: int, right: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A truth of two classes and answers of which this share is right."""
    truth = np.arange(rows) % 2
    wrong = np.random.default_rng(seed).permutation(rows) >= round(rows * right)
    return truth, np.where(wrong, 1 - truth, truth)


def test_good_evidence_passes_every_gate_in_the_order_of_the_report() -> None:
    verdicts = judge(GOOD, LIMITS)
    assert [v.gate for v in verdicts] == [*MODEL_GATES, *SERVICE_GATES]
    assert {v.outcome for v in verdicts} == {"pass"}
    assert all(v.why and v.question.endswith("?") and v.reproduce.startswith("python -m ") for v in verdicts)


def test_the_full_set_is_judged_only_when_it_is_asked_for() -> None:
    default = LIMITS.model_copy(update={"full": False})
    assert {v.gate for v in judge(GOOD, LIMITS)} - {v.gate for v in judge(GOOD, default)} == FULL


@pytest.mark.parametrize("gate", sorted(FULL))
def test_a_gate_of_the_full_set_without_evidence_is_no_verdict(gate: str) -> None:
    unseen = GOOD.model_copy(update={"faults": None, "memory": None})
    with pytest.raises(MachineFault, match=r"gates\.full"):
        SERVICE_GATES[gate](unseen, LIMITS)


def test_memory_that_an_allocator_takes_and_gives_is_no_leak() -> None:
    small = with_("memory", processes=resident(60, 60, 60, 61, 62, 61, 66, 67, 66))
    assert verdict("memory", small).outcome == "pass"


def test_what_the_rule_of_a_fault_allows_is_no_loss() -> None:
    assert verdict("faults", drilled(statuses={"200": 9, "500": 16}, may_lose=16)).outcome == "pass"


BROKEN = {
    "no better than the majority": ("quality", with_("offline", accuracy=0.6), "majority"),
    "no better than guessing": (
        "quality",
        with_("offline", accuracy=0.55, majority_accuracy=0.5, confusion=((45, 55), (35, 65))),
        "dealt at random",
    ),
    "below the built-in corpus' floors": ("quality", with_("offline", source="hutto-gilbert", macro_f1=0.6), "floors"),
    "a bad slice": ("slices", with_("offline", slices={"nyt": SliceSeen(accuracy=0.4, support=99)}), "'nyt'"),
    "a bad class": ("slices", with_("offline", classes={"bad": ClassSeen(f1=0.1, support=99)}), "'bad'"),
    "boastful scores": ("calibration", with_("offline", calibration_error=0.2), "package.calibrate"),
    "a replica with other bytes": ("identity", with_("identity", loaded={"r1": GRAPH}), "r1"),
    "a replica in another runtime": (
        "identity",
        with_("identity", runtimes={"r1": "torch-fp32", "r2": "onnx-int8"}),
        "r2 answers in onnx-int8",
    ),
    "another runtime on the front": (
        "identity",
        with_("identity", health=GOOD.identity.health | {"runtime": "onnx-int8"}),
        "runtime 'onnx-int8' instead of 'torch-fp32'",
    ),
    "no replica asked": ("identity", with_("identity", loaded={}), "no replica"),
    "an old app on the port": (
        "identity",
        with_("identity", health=GOOD.identity.health | {"deployment": "old"}),
        "another app",
    ),
    "another graph": ("identity", with_("identity", health=GOOD.identity.health | {"graph_digest": "x"}), "graph_"),
    "another version in the header": ("identity", with_("identity", header_version="2"), "x-model-version"),
    "a score that moves with its batch-mates": (
        "parity",
        with_("parity", ways={"together": Way(answers=9, labels_differ=0, worst=1e-3)}),
        "together",
    ),
    "half precision that moves by more than its rounding": (
        "parity",
        with_("parity", rounding=3e-2, ways={"together": Way(answers=9, labels_differ=0, worst=5e-2)}),
        "together",
    ),
    "a label that differs": (
        "parity",
        with_("parity", ways={"alone": Way(answers=9, labels_differ=1, worst=0.0)}),
        "1 of 9",
    ),
    "no shared forwards": ("batching", with_("batching", texts_by_size={1: 50, 8: 8}), "batch_wait_s"),
    "small forwards only": ("batching", with_("batching", texts_by_size={3: 60}), "at least 4"),
    "a forward above the limit": ("batching", with_("batching", texts_by_size={9: 90}), "above"),
    "a slow answer": ("latency", with_("latency", p95_ms=(600, 700)), "max_p95_ms"),
    "slow under load": ("throughput", with_("throughput", served=(20.0, 20.0)), "below"),
    "plain sentences wrong": (
        "behaviour",
        with_("behaviour", kinds={"minimum": BehaviourKind(cases=10, failing=(WRONG, WRONG))}),
        "'Fine.' should be good, is bad",
    ),
    "slow by itself": ("throughput", with_("throughput", forward_ms=(400.0, 410.0)), "the bare model itself"),
    "time-outs under too much load": ("overload", with_("overload", statuses={"200": 12, "408": 4, "429": 8}), "lower"),
    "a queue without a limit": ("overload", with_("overload", statuses={"200": 24}), "nothing was refused"),
    "refused without a word when": ("overload", with_("overload", without_retry_after=2), "Retry-After"),
    "health red under load": ("overload", with_("overload", health={"200": 18, "503": 2}), "/health answered"),
    "health slow under load": ("overload", with_("overload", health_s=(0.1,) * 18 + (3.0, 3.0)), "max_health_s"),
    "no recovery": ("overload", with_("overload", after={"200": 1, "503": 4}), "did not recover"),
    "errors under load": ("throughput", with_("throughput", statuses={"200": 299, "500": 1}), "500"),
    "a fault that costs more than its rule": ("faults", drilled(statuses={"200": 9, "500": 1}), "{'500': 1}, the rule"),
    "a fault that stays": ("faults", drilled(recovered=False), "had not recovered"),
    "a fault that lasts": ("faults", drilled(recovery_s=61.0), "max_recovery_s is 60"),
    "health that lies": ("faults", drilled(untrue=3, untrue_examples=("200 while",)), "lied 3 of 150 times"),
    "mixed up after a fault": ("faults", drilled(after=Way(answers=9, labels_differ=2, worst=0.4)), "2 of 9 golden"),
    "memory that grows": (
        "memory",
        with_("memory", processes=resident(600, 610, 620, 630, 640, 650, 660, 670, 680)),
        "grew by 30 MB on 640 MB, 31,457 bytes a text",
    ),
    "a lost request": ("shutdown", with_("shutdown", lost={"ReadError": 1}), "lost"),
    "a process left": ("shutdown", with_("shutdown", orphans=("raylet 77",)), "raylet 77"),
    "a port left": ("shutdown", with_("shutdown", port_free=False), "port"),
    "a slow stop": ("shutdown", with_("shutdown", seconds=60.0), "max_shutdown_s"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_evidence_fails_its_gate_and_no_other(what: str) -> None:
    gate, seen, word = BROKEN[what]
    verdicts = judge(seen, LIMITS)
    assert [v.gate for v in verdicts if v.outcome == "fail"] == [gate]
    assert word in verdict(gate, seen).why


def test_a_wrong_status_fails_the_contract_and_names_the_request() -> None:
    seen = GOOD.model_copy(update={"contract": (Case(name="an empty text", expected="422", got="500", ok=False),)})
    assert verdict("contract", seen).outcome == "fail"
    assert "an empty text: expected 422, got 500" in verdict("contract", seen).why


def test_half_precision_is_allowed_its_own_rounding_and_fp32_is_not() -> None:
    moved = {"together": Way(answers=9, labels_differ=0, worst=2e-2)}
    for rounding, outcome in ((0.0, "fail"), (3e-2, "pass")):
        verdict = SERVICE_GATES["parity"](with_("parity", rounding=rounding, ways=moved), LIMITS)
        assert verdict.outcome == outcome


def test_batching_switched_off_is_stated() -> None:
    seen = with_("batching", max_batch_size=1, texts_by_size={1: 50})
    assert verdict("batching", seen).outcome == "pass"
    assert "off" in verdict("batching", seen).why


def test_the_mean_batch_counts_forwards_not_texts() -> None:
    measured = verdict("batching", with_("batching", texts_by_size={8: 8, 1: 2})).measured
    assert isinstance(measured, dict)
    assert measured["mean"] == pytest.approx(10 / 3)


def test_one_wrong_case_in_ten_is_forgiven_and_a_model_of_other_labels_is_not_asked() -> None:
    one = with_("behaviour", kinds={"minimum": BehaviourKind(cases=10, failing=(WRONG,))})
    assert (verdict("behaviour", one).outcome, verdict("behaviour", one).why) == ("pass", "minimum 90% of 10")
    other = verdict("behaviour", with_("behaviour", about=("ham", "spam"), kinds={}))
    assert other.outcome == "pass" and "about the labels ham, spam" in other.why


def test_a_tiny_model_whose_forward_is_no_arithmetic_is_not_called_slow() -> None:
    tiny = with_("throughput", forward_ms=(9.0, 9.5), forward_flops=(1e6, 1e6))
    assert verdict("throughput", tiny).outcome == "pass"


def test_a_small_model_that_http_slows_down_passes_on_its_pace() -> None:
    assert verdict("throughput", with_("throughput", served=(140.0, 150.0), raw=(9e3, 9e3))).outcome == "pass"


def test_thirty_good_rows_are_not_condemned() -> None:
    truth, ours = answers(30, 0.9, seed=1)
    seen = GOOD.model_copy(
        update={
            "offline": OFFLINE.model_copy(
                update={
                    "rows": 30,
                    "calibration_error": 0.1,
                    "top_scores": (0.8,) * 30,
                    "classes": {"bad": ClassSeen(f1=0.2, support=15), "good": ClassSeen(f1=0.9, support=15)},
                    "slices": {},
                }
            ),
            "champion": against(ours, truth, truth).champion,
        }
    )
    outcomes = {v.gate: v.outcome for v in judge(seen, LIMITS)}
    assert outcomes["calibration"] == outcomes["slices"] == outcomes["champion"] == "not_enough_rows"
    assert "fail" not in outcomes.values()
    assert "test rows" in verdict("calibration", seen).why and "test rows" in verdict("champion", seen).why


def test_a_first_promotion_says_that_there_is_no_champion() -> None:
    assert verdict("champion").outcome == "pass"
    assert "no champion yet" in verdict("champion").why


def test_an_equal_candidate_passes_against_the_champion() -> None:
    truth, ours = answers(4000, 0.8, seed=1)
    found = verdict("champion", against(ours, ours, truth))
    assert found.outcome == "pass"
    assert "sha256:cccc" in found.why


def test_a_worse_candidate_fails_against_the_champion() -> None:
    truth, ours = answers(4000, 0.75, seed=1)
    found = verdict("champion", against(ours, answers(4000, 0.8, seed=2)[1], truth))
    assert found.outcome == "fail"
    assert "max_drop" in found.why


def test_a_surely_worse_candidate_fails_even_on_thirty_rows() -> None:
    truth, ours = answers(30, 0.3, seed=1)
    assert verdict("champion", against(ours, truth, truth)).outcome == "fail"


def test_a_slice_that_is_surely_worse_fails_though_the_whole_is_not() -> None:
    truth, ours = answers(4000, 0.8, seed=1)
    theirs = ours.copy()
    theirs[:100] = truth[:100]
    slices = ("tweets",) * 100 + ("news",) * 3900
    assert verdict("champion", against(ours, theirs, truth)).outcome == "pass"
    found = verdict("champion", against(ours, theirs, truth, slices=slices))
    assert found.outcome == "fail" and "'tweets'" in found.why and "'news'" not in found.why
    thin = verdict("champion", against(ours, theirs, truth, slices=("few",) * 20 + (None,) * 3980))
    assert thin.outcome == "pass"


def test_users_are_told_how_many_answers_change_and_which_way() -> None:
    truth = np.array([0, 0, 1, 1] * 1000)
    theirs, ours = truth.copy(), truth.copy()
    theirs[:3], ours[10:12] = 1 - truth[:3], 1 - truth[10:12]
    found = verdict("champion", against(ours, theirs, truth))
    assert "5 answers change, 3 to right and 2 to wrong" in found.why
    assert isinstance(found.measured, dict)
    assert found.measured["churn"] == {"changed": 5, "mended": 3, "broken": 2}


def test_no_row_left_to_compare_on_neither_blocks_nor_blesses() -> None:
    nothing = np.array([], dtype=int)
    assert verdict("champion", against(nothing, nothing, nothing, left_out=30)).outcome == "not_enough_rows"


def test_other_labels_than_the_champions_fail_with_the_remedy_unless_allowed() -> None:
    truth, ours = answers(400, 0.9, seed=1)
    seen = against(ours, ours, truth, its_labels=("bad", "good", "so-so"))
    assert "registry.name" in verdict("quality", seen).why
    assert verdict("quality", seen).outcome == "fail"
    assert verdict("quality", seen, LIMITS.model_copy(update={"allow_new_labels": True})).outcome == "pass"


def test_the_bootstrap_measures_the_difference_of_our_own_macro_f1() -> None:
    rng = np.random.default_rng(3)
    truth, ours, theirs = (rng.integers(0, 3, 500) for _ in range(3))
    found = chance.macro_f1_difference(truth, ours, theirs)
    assert found.value == pytest.approx(macro_f1(truth, ours) - macro_f1(truth, theirs))
    assert found.low < found.value < found.high
    assert found == chance.macro_f1_difference(truth, ours, theirs)


def test_the_bootstrap_interval_covers_what_it_says() -> None:
    """A naive row-by-row bootstrap gives the same interval, up to its own noise."""
    rng = np.random.default_rng(4)
    truth, ours, theirs = (rng.integers(0, 2, 300) for _ in range(3))
    draws = [rng.integers(0, 300, 300) for _ in range(500)]
    naive = [macro_f1(truth[d], ours[d]) - macro_f1(truth[d], theirs[d]) for d in draws]
    found = chance.macro_f1_difference(truth, ours, theirs)
    assert found.high - found.low == pytest.approx(np.quantile(naive, 0.975) - np.quantile(naive, 0.025), rel=0.15)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.4, 0.3, 0.3)])
def test_hardly_any_guesses_are_above_the_accuracy_by_guessing(shares: tuple[float, ...]) -> None:
    rng = np.random.default_rng(5)
    draws = 2000
    truths, guesses = (rng.choice(len(shares), size=(draws, 60), p=shares) for _ in range(2))
    above = 0
    for truth, guess in zip(truths, guesses, strict=True):
        counts = confusion(truth, guess, len(shares))
        above += (truth == guess).mean() > chance.accuracy_by_guessing(counts)
    assert above / draws == pytest.approx(0.01, abs=0.02)  # few rows of a rare class are far from normal
    constant = confusion(truths[0], np.zeros(60, dtype=np.int64), len(shares))
    assert chance.accuracy_by_guessing(constant) == pytest.approx((truths[0] == 0).mean())


def test_chance_uses_the_bins_of_evaluate_and_shrinks_with_rows() -> None:
    assert chance.CALIBRATION_BINS == CALIBRATION_BINS
    few, many = (chance.calibration_error_by_chance(np.full(n, 0.8)) for n in (30, 3000))
    assert few > 0.1 > 0.03 > many
    rng = np.random.default_rng(0)
    top = rng.uniform(0.5, 1.0, 1000)
    right = (rng.random(1000) < top).astype(int)  # class 1 is the truth where the answer 1 is right
    assert calibration_error(np.stack([1 - top, top], axis=1), right) < chance.calibration_error_by_chance(top)
