"""Rows on PRISM models with unknown constants: certified intervals and gaps against the truth and against Storm.

python experiments/prism_models/run.py [--only NAME ...] [--seeds 200] [--out FILE]

Needs stormpy (extra storm), whose folder of examples has the models of others. For each seed a model is explored and a
property certified with delta = 0.5; a statement is false if the true value is outside the interval, or the true loss
above the gap. That may happen where the truth has left the confidence set, in at most half of the runs, and only there.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import stormpy

import horizonfree as hf

HERE = Path(__file__).parent
EXAMPLES = Path(stormpy.__file__).parent / "examples" / "files"
DELTA = 0.5
MODELS = {  # file, unknown constants with their true values, horizon, episodes, property
    "knuth-yao die": (
        EXAMPLES / "pdtmc/parametric_die.pm",
        {"p": 0.4, "q": 0.6},
        12,
        50,
        'P=? [F<=12 "six"]',
    ),
    "two dice": (EXAMPLES / "pmdp/two_dice.nm", {"p1": 0.45, "p2": 0.55}, 20, 50, 'Pmax=? [F<=20 "seven"]'),
    "slip grid": (EXAMPLES / "mdp/slipgrid.nm", {"p": 0.4}, 12, 50, 'Pmax=? [F<=12 "goal"]'),
    "herman 5": (EXAMPLES / "pdtmc/herman5.pm", {"p": 0.4}, 12, 50, 'P=? [F<=6 "stable"]'),
    "consensus coin": (
        EXAMPLES / "pmdp/coin2_2.pm",
        {"p1": 0.45, "p2": 0.6},
        40,
        50,
        'Pmin=? [F<=40 "finished"]',
    ),
    "brp": (
        EXAMPLES / "pdtmc/brp16_2.pm",
        {"pL": 0.9, "pK": 0.8},
        60,
        50,
        'P=? [F<=60 "error"]',
    ),
    "zeroconf": (HERE / "models/zeroconf.prism", {"q": 0.3, "l": 0.2}, 15, 50, 'P=? [F<=15 "error"]'),
    "maintenance": (
        HERE / "models/maintenance.prism",
        {"w": 0.25, "f": 0.1},
        20,
        50,
        'R{"cost"}min=? [C<=20]',
    ),
    "channel": (HERE / "models/csma.prism", {"a": 0.4, "b": 0.7}, 10, 50, 'Pmax=? [!"failed" U<=10 "sent"]'),
}
CONSTANTS = {"brp": {"TOMsg": 1.0, "TOAck": 1.0}}  # rewards only


def storm_value(path: Path, constants: dict, text: str) -> tuple[float, float]:
    """Storm's answer at the true constants, and the seconds that it takes."""
    program = stormpy.parse_prism_program(str(path))
    open_ = {c.name for c in program.constants if not c.defined}
    program, _ = stormpy.io.instantiate_constants(program, {k: x for k, x in constants.items() if k in open_})
    storm_model, start_time = stormpy.build_model(program), time.perf_counter()
    result = stormpy.model_checking(storm_model, stormpy.parse_properties(text)[0])
    return result.get_value(storm_model.initial_states[0]), time.perf_counter() - start_time


def rows(name: str, seeds: int) -> list[dict]:
    """A row for each seed."""
    path, truth, horizon, episodes, text = MODELS[name]
    file_constants = CONSTANTS.get(name, {})
    unknown = list(truth)
    source = path.read_text()
    defined = [x for x in unknown if f"double {x} =" in source or f"double    {x} =" in source]
    constants = file_constants | {x: value for x, value in truth.items() if x not in defined}
    problem = hf.from_prism(path, unknown=unknown, constants=constants, horizon=horizon)
    question = hf.property(text)
    exact, storm_seconds = storm_value(path, file_constants | truth, text)
    common = {"model": name, "states": problem.num_states, "actions": problem.num_actions, "horizon": horizon}
    common |= {"unknown": problem.model.num_unknown, "episodes": episodes, "property": text, "storm": exact}
    oracle = exact_run(problem)
    out = []
    for seed in range(seeds):
        start_time = time.perf_counter()
        run = hf.explore(problem, episodes=episodes, budget=episodes, seed=seed, progress=False)
        explore_seconds = time.perf_counter() - start_time
        start_time = time.perf_counter()
        plan = run.plan(question, delta=DELTA)
        plan_seconds = time.perf_counter() - start_time
        true_value = oracle(question, plan.policy)
        loss = abs(exact - true_value)
        is_wrong = not (
            plan.value_low - 1e-9 <= true_value <= plan.value_high + 1e-9 and loss <= plan.gap + 1e-9
        )
        row = {
            "seed": seed,
            "value": plan.value,
            "low": plan.value_low,
            "high": plan.value_high,
            "gap": plan.gap,
        }
        outside = float(problem.model.violation(run.evidence, problem.truth, np.asarray(DELTA))) > 0
        assert outside or not is_wrong, f"{name}, seed {seed}: a false statement, but the truth is in the set"
        row |= {"own": true_value, "loss": loss, "is_wrong": is_wrong, "outside": outside}
        row |= {"seconds": {"explore": explore_seconds, "plan": plan_seconds, "storm": storm_seconds}}
        out.append(common | row)
    return out


def exact_run(problem):
    """The value of a policy in the true system, of an event or a sum of rewards."""
    from horizonfree.mdp.events import Event
    from horizonfree.planning import evaluate

    kernel = problem.kernel()

    def value(question, policy) -> float:
        encoded = question.on_problem(problem)
        if not isinstance(encoded, Event):
            table = np.broadcast_to(encoded.paid, (encoded.steps, *encoded.paid.shape))
            return float(problem.space.at_start(evaluate(kernel, table, policy)[0]))
        space = problem.with_start(None, encoded.steps + 1, is_paid_after=True).space
        lift = encoded.lift(space)
        actions = np.concatenate([policy, policy[-1:]])[:, lift.origin]
        total = float(lift.space.at_start(evaluate(lift.kernel(kernel), encoded.reward(space), actions)[0]))
        return total if encoded.is_max else 1 - total

    return value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    with args.out.open("w") as file:
        for name in args.only:
            for row in rows(name, args.seeds):
                file.write(json.dumps(row) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
