"""Gates on what the running graph answers: it is the one under test, and it answers as promised and as the bytes do."""

from registry.evidence import AboutService
from registry.gate_params import GateParams
from registry.report import Verdict, again
from registry.service_evidence import Identity


def identity(seen: AboutService, _limits: GateParams) -> Verdict:
    """The bytes, the graph and the deployment that answer are those that were asked for."""
    who = seen.identity
    faults = _identity_faults(who)
    return Verdict(
        gate="identity",
        question="Is what answers the version and the graph under test?",
        outcome="fail" if faults else "pass",
        measured={
            "loaded": dict(who.loaded),
            "runtimes": dict(who.runtimes),
            "ingress": dict(who.ingress),
            "health": dict(who.health),
            "x-model-version": who.header_version,
        },
        limit={
            "digest": who.digest,
            "graph_digest": who.graph_digest,
            "version": who.version,
            "deployment": who.nonce,
            "runtime": who.runtime,
        },
        why="; ".join(faults)
        or f"{len(who.loaded)} replica(s) and /health name version {who.version}, {who.digest[:19]}, {who.runtime}, "
        "this deployment",
        reproduce=again("identity"),
    )


def _identity_faults(who: Identity) -> list[str]:
    expected = {
        "version": who.version,
        "digest": who.digest,
        "graph_digest": who.graph_digest,
        "deployment": who.nonce,
        "runtime": who.runtime,
    }
    faults = [
        f"/health answers {field} {who.health.get(field)!r} instead of {value!r}: another app or graph answers here"
        for field, value in expected.items()
        if who.health.get(field) != value
    ]
    faults += [
        f"the ingress says {field} {said!r} through its handle"
        for field, said in who.ingress.items()
        if said != expected[field]
    ]
    faults += [f"replica {r} loaded {digest}" for r, digest in who.loaded.items() if digest != who.digest]
    faults += [f"replica {r} answers in {name}" for r, name in who.runtimes.items() if name != who.runtime]
    if not who.loaded:
        faults.append("no replica said which bytes it loaded")
    if who.header_version != who.version:
        faults.append(f"x-model-version is {who.header_version!r}")
    return faults


def behaviour(seen: AboutService, limits: GateParams) -> Verdict:
    """The running app gets plain sentences right, and is moved by what should move it and by nothing else."""
    found, rates = seen.behaviour, limits.min_behaviour.model_dump()
    faults = [
        f"{name}: {len(kind.failing)} of {kind.cases} cases fail, {rates[name]:.0%} must come out right; "
        f"the first: {kind.failing[0].text!r} should be {kind.failing[0].wanted}, is {kind.failing[0].said}"
        for name, kind in found.kinds.items()
        if kind.pass_rate < rates[name]
    ]
    held = ", ".join(f"{name} {kind.pass_rate:.0%} of {kind.cases}" for name, kind in found.kinds.items())
    off = f"not asked: data/behaviour.yaml is about the labels {', '.join(found.about)}; write cases of your own"
    return Verdict(
        gate="behaviour",
        question="Does it do what any such model must do?",
        outcome="fail" if faults else "pass",
        measured={name: kind.pass_rate for name, kind in found.kinds.items()},
        limit=dict(rates),
        why="; ".join(faults) or held or off,
        reproduce=again("behaviour"),
    )


def contract(seen: AboutService, _limits: GateParams) -> Verdict:
    """Every request of the table gets the status and the body that docs/HTTP.md promises."""
    wrong = [case for case in seen.contract if not case.ok]
    listed = "; ".join(f"{case.name}: expected {case.expected}, got {case.got}" for case in wrong)
    return Verdict(
        gate="contract",
        question="Do good and bad requests get the promised answers?",
        outcome="fail" if wrong else "pass",
        measured={"right": len(seen.contract) - len(wrong), "wrong": [case.name for case in wrong]},
        limit={"right": len(seen.contract)},
        why=listed or f"all {len(seen.contract)} requests were answered as promised",
        reproduce=again("contract"),
    )


def parity(seen: AboutService, limits: GateParams) -> Verdict:
    """The app answers what the registry's bytes answer in a clean process, whatever the batch-mates."""
    found, bound = seen.parity, max(limits.max_batch_bound, seen.parity.rounding)
    faults = [
        f"asked {name}: {way.labels_differ} of {way.answers} labels differ, scores by up to {way.worst:.1e}"
        for name, way in found.ways.items()
        if way.labels_differ or way.worst > bound
    ]
    worst = max((way.worst for way in found.ways.values()), default=0.0)
    return Verdict(
        gate="parity",
        question="Does it answer over HTTP what the registered bytes answer alone?",
        outcome="fail" if faults else "pass",
        measured={"worst": worst, "ways": {name: way.model_dump() for name, way in found.ways.items()}},
        limit=bound,
        why="; ".join(faults)
        or f"{found.runtime}: scores differ by at most {worst:.1e} in {sum(w.answers for w in found.ways.values()):,} "
        f"answers and {len(found.ways)} ways of asking, every label agrees",
        reproduce=again("parity"),
    )
