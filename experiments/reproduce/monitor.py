"""E7: the sums of the proof of HF-UCRL-RFE++, run by run, beside the bounds of their lemmas (explorers/audit.py)."""

import horizonfree as hf
from horizonfree.explorers.audit import audit
from horizonfree.sweeps.spec import parse
from horizonfree.sweeps.tasks import build_problem, build_tasks, explorer_options


def tasks(given: dict, lines: list[dict]) -> list[dict]:
    """As those of a sweep."""
    return list(build_tasks(parse(given)).values())


def rows(task: dict) -> list[dict]:
    """Every sum with its bound. Of the orders of a sum the one that comes nearest to its bound is kept, and order 0."""
    batch = hf.explore_many(
        build_problem(task["world"]),
        task["who"]["name"],
        episodes=task["episodes"],
        budget=task["episodes"],
        seeds=task["seeds"],
        delta=task["delta"],
        progress=False,
        **explorer_options(task["who"]),
    )
    out = []
    for run in batch:
        found = audit(run)
        for name in dict.fromkeys(x.name for x in found):
            mine = [x for x in found if x.name == name]
            for x in dict.fromkeys([mine[0], max(mine, key=lambda x: x.share)]):
                row = {"seed": run.seed, "sum": name, "order": -1 if x.order is None else x.order}
                out.append(row | {"value": x.value, "bound": x.bound, "share": x.share})
    return out
