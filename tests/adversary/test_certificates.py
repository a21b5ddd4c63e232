"""Every number that a run reports must be true for every parameter of its confidence set: one violation is a failure.

The quick form covers every pair of options of a few systems. The long form covers all systems and options with new
seeds for as long as ADVERSARY_SECONDS says, and prints its counts:

    ADVERSARY_SECONDS=600 ADVERSARY_SEED=1 pytest -m slow -s tests/adversary
"""

import os
import time

import jax
import pytest

from horizonfree import testing
from tests.adversary import cases
from tests.adversary.pairwise import covers, pairwise

QUICK = cases.FACTORS | {
    "system": ("kernels", "table_any", "table_certain", "linear"),
    "where": ("here", "state", "shorter"),
    "data": ("full", "ragged", "arbitrary", "extreme"),
    "episodes": (2, 50),
}
# Systems and options in which defects were found, or which few cases above have.
SELECTED = [
    # transition= once inherited the certificate for every reward of the problem without it
    {"system": "equal_actions", "question": "plan", "where": "here", "pays": "transition", "data": "full"},
    {"system": "duplicates", "question": "direct", "where": "here", "pays": "total", "data": "extreme"},
    {"system": "sharp_kernels", "question": "uniform", "where": "here", "pays": "total", "data": "full"},
    {"system": "redundant", "question": "weights", "where": "here", "pays": "total", "data": "full"},
    {"system": "table_terminal", "question": "uniform", "where": "here", "pays": "total", "data": "budget"},
    {"system": "linear_declared", "question": "goals", "where": "here", "pays": "goal", "data": "budget"},
    {"system": "linear_declared", "question": "plan", "where": "state", "pays": "goal", "data": "arbitrary"},
]


def by_system(cases):
    """Cases with their numbers, those of a system one after the other: they share programs."""
    return sorted(enumerate(cases), key=lambda x: (x[1]["system"], x[0]))


def test_every_pair_of_levels_occurs():
    cases = pairwise(QUICK)
    pairs = set().union(*(covers(case, list(QUICK)) for case in cases))
    sizes = [len(levels) for levels in QUICK.values()]
    assert len(pairs) == (sum(sizes) ** 2 - sum(n * n for n in sizes)) // 2


@pytest.mark.parametrize("system", QUICK["system"])
def test_no_member_of_a_confidence_set_violates_a_certificate(system):
    audit = testing.Audit()
    for i, case in enumerate(pairwise(QUICK)):
        if case["system"] == system:
            cases.check_case(audit, case, i)
    report = audit.report()
    report.raise_for_violations()
    assert report.statements > 5_000
    assert 0.5 < report.worst_ratio <= 1 + 1e-6  # the adversary is sharp


@pytest.mark.parametrize("case", SELECTED, ids=lambda case: f"{case['system']}-{case['question']}")
def test_selected_cases(case):
    audit = testing.Audit()
    for seed, episodes, delta in ((0, 2, 0.05), (1, 2, 0.5), (2, 50, 0.05)):
        cases.check_case(audit, case | {"allowed": "all", "episodes": episodes, "delta": delta}, seed)
    audit.report().raise_for_violations()


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_long_form():
    audit, seed = testing.Audit(), int(os.environ.get("ADVERSARY_SEED", "0"))
    end, rounds = time.monotonic() + float(os.environ.get("ADVERSARY_SECONDS", "300")), 0
    while time.monotonic() < end:
        last = None
        for i, case in by_system(pairwise(cases.FACTORS, seed=seed + rounds)):
            if time.monotonic() >= end:
                break
            if case["system"] != last:
                jax.clear_caches()  # programs of all systems at once need too many memory maps
                last = case["system"]
            cases.check_case(audit, case, 1000 * (seed + rounds) + i)
        rounds += 1
    report = audit.report()
    print(
        f"{report.runs} systems, {report.parameters} parameters, {report.statements} statements, "
        f"{report.refused} refused, largest ratio {report.worst_ratio:.6f}, {len(report.violations)} violations"
    )
    report.raise_for_violations()
