"""`horizonfree plan`: the best policy for a reward, or a given policy, with its certificate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli._shared import (
    AtLeastOption,
    AtMostOption,
    DeltaOption,
    GoalOption,
    JsonOption,
    MisspecificationOption,
    RewardOption,
    RunArgument,
    certificate_json,
    console,
    float_option,
    int_option,
    leave_out,
    make_event,
    make_output_folder,
    make_reward,
    only_one,
    open_run,
    output,
    print_forecast,
    print_line,
    round_bound,
    round_loss,
    spinner,
    state_option,
    table,
)
from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Plan, Problem
    from horizonfree.runs.credible import Likely
    from horizonfree.runs.plan import Comparison

FILE_FORMATS = "actions [H, S] or [S], or probabilities; .npy, .csv or .json."


def plan(
    folder: RunArgument,
    goal: GoalOption = None,
    stay: Annotated[
        list[str] | None,
        state_option("Reward the share of steps in this state; repeat for several.", "--stay"),
    ] = None,
    reach: Annotated[
        list[str] | None,
        state_option("Reward 1 for being in this state at least once; repeat for several.", "--reach"),
    ] = None,
    bounded: Annotated[
        str | None,
        typer.Option(
            "--property", help="A bounded property, such as 'Pmax=? [F<=12 \"goal\"]'.", metavar="TEXT"
        ),
    ] = None,
    reward: RewardOption = None,
    cost: Annotated[
        Path | None,
        typer.Option(help="Costs in any unit, from a file as for --reward.", metavar="FILE"),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="total: sums to at most 1; per-step: entries in [0, 1]; rescale: any.  [default: total]"
        ),
    ] = None,
    delta: DeltaOption = 0.05,
    model: Annotated[
        str, typer.Option(help="Plan in the maximum-`likelihood` estimate or the `explorer`'s own.")
    ] = "likelihood",
    policy: Annotated[
        Path | None,
        typer.Option(help=f"Evaluate this policy instead of planning: {FILE_FORMATS}", metavar="FILE"),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Also compare with this policy.", metavar="FILE")
    ] = None,
    start: Annotated[
        str | None, state_option("Plan from this state.  [default: where episodes start]")
    ] = None,
    horizon: Annotated[
        int | None, int_option("Plan for this many steps.  [default: the length of an episode]")
    ] = None,
    misspecification: MisspecificationOption = 0.0,
    discount: Annotated[
        float | None, float_option("Discount factor: step h counts discount^(h-1) times.  [default: 1]")
    ] = None,
    final: Annotated[
        Path | None,
        typer.Option(
            help="Reward for the state after the last step: [S], a file as for --reward.", metavar="FILE"
        ),
    ] = None,
    transition: Annotated[
        Path | None,
        typer.Option(help="Reward for transitions: [S, A, S], .npy or .json.", metavar="FILE"),
    ] = None,
    at_most: AtMostOption = None,
    at_least: AtLeastOption = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the certificate to this JSON file.", metavar="FILE.json")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "--policy-out", help="Write the policy to this .npy, .csv or .json file.", metavar="FILE"
        ),
    ] = None,
    draws: Annotated[
        int, int_option("Draws of the posterior, for what is likely; 0 leaves it out.  [default: 1000]")
    ] = 1000,
    json: JsonOption = False,
) -> None:
    """Plan for a reward, with a confidence interval and a suboptimality bound; or evaluate a policy.

    Examples:

        horizonfree plan runs/a --goal 56

        horizonfree plan runs/a --stay 7 --stay 8 --start 12 --horizon 5

        horizonfree plan runs/a --cost monthly.csv --out policy.npy

        horizonfree plan runs/a --reward profit.csv --scale rescale --discount 0.95 --final salvage.csv

        horizonfree plan runs/a --property 'Pmax=? [!"fail" U<=12 "goal"]'

        horizonfree plan runs/a --goal 56 --at-most danger.csv=0.01

        horizonfree plan runs/a --goal 56 --policy new.csv --compare current.csv
    """
    if policy is not None:
        leave_out(
            "belongs to a plan; leave it out with --policy", model=model if model != "likelihood" else None
        )
    radius = misspecification or None
    only_one("a reward", goal=goal, stay=stay, reach=reach, property=bounded, reward=reward, cost=cost)
    if reach or bounded:
        leave_out(
            "is for rewards; leave it out with --reach and --property",
            scale=scale,
            horizon=horizon,
            misspecification=radius,
            discount=discount,
            final=final,
            transition=transition,
            compare=compare,
        )
    if cost is not None and scale != "rescale":
        leave_out("is for rewards; costs have the scale rescale, and results their unit", scale=scale)
    if policy is not None or compare is not None:
        leave_out(
            "belongs to a plan; leave it out with --policy and --compare",
            misspecification=radius,
        )
    if discount is not None or final is not None or transition is not None:
        supported = "rewards without --discount, --final and --transition"
        leave_out(f"is for {supported}; leave it out", misspecification=radius)
        leave_out(f"is for {supported}; evaluate each policy with --policy", compare=compare)
    if policy is not None or save is not None:
        leave_out(
            "is for plans, whose certificates are not in files; leave --policy and --save out",
            at_most=at_most,
            at_least=at_least,
        )
    run = open_run(folder)
    from horizonfree.cli import plan_text
    from horizonfree.cli.array_files import is_csv, read_constraints, read_payment, read_policy, write_policy
    from horizonfree.mdp.rewards import occupancy
    from horizonfree.runs.credible import likely

    first = None if start is None else run.problem.state_number(start)
    is_moved = start is not None or horizon is not None
    problem = run.problem.with_start(first, horizon) if is_moved else run.problem
    scale = scale or ("total" if cost is None else "rescale")
    array: Any
    if reach or bounded:
        array = make_event(problem, reach, bounded)
    else:
        array = occupancy(problem, stay) if stay else make_reward(problem, goal, reward, cost)
    if array is None:
        if transition is None:
            raise OptionError(
                "give a reward: --goal STATE, --stay STATE, --reach STATE, --reward FILE or --cost FILE"
            )
        array = [0.0] * problem.num_states
    policy_array, other = (None if x is None else read_policy(x, problem) for x in (policy, compare))
    if out is not None:
        is_csv(out, "policy")
        make_output_folder(out.parent)
    files = {"final": final, "transition": transition}
    payments = {key: read_payment(x, problem, key, is_cost=cost is not None) for key, x in files.items() if x}
    options: dict[str, Any] = {"scale": scale, "delta": delta, "start": first, "horizon": horizon}
    payment_options: dict[str, Any] = {"discount": discount, **payments}
    constraints = read_constraints(problem, at_most or [], at_least or [])
    if constraints:
        payment_options["constraints"] = constraints
    with spinner("planning"):
        if policy_array is None:
            result = run.plan(
                array, model=model, misspecification=misspecification, **options, **payment_options
            )
        else:
            result = run.evaluate(array, policy_array, **options, **payment_options)
        comparison = None if other is None else run.compare(array, result.policy, other, **options)
        true_loss = (
            _true_loss(problem, array, result.policy, scale, **payment_options)
            if run.is_simulated and not constraints
            else None
        )
        guess = likely(result.credible, draws) if draws else None
        probability = None
        if comparison is not None and guess is not None and not guess.refusal:
            probability = comparison.probability
    if out is not None:
        write_policy(out, result.policy, problem)
    if save is not None:
        result.certificate.save(save)
    value: dict[str, Any] = {
        **{name: getattr(result, name) for name in ("value", "value_low", "value_high", "gap")},
        "certificate": certificate_json(result.certificate),
        "policy": result.policy,
        "path": plan_text.likely_path(result),
        "time": result.occupancy.mean(axis=0),
        "names": {key: problem.layout[key] for key in ("states", "actions") if key in problem.layout},
    }
    if "state_ids" in problem.layout:  # numbers in the whole problem of the states of a part
        value["state_ids"] = problem.layout["state_ids"]
    value |= _constraint_data(result)
    if cost is not None:
        value |= {"cost": -result.value, "cost_low": -result.value_high, "cost_high": -result.value_low}
    if true_loss is not None:
        value["true_loss"] = round_loss(true_loss)
    if comparison is not None:
        value["comparison"] = {
            **{name: getattr(comparison, name) for name in ("difference", "low", "high", "delta")},
            "summary": comparison.summary(),
            **({} if probability is None else {"probability": probability}),
        }
    if guess is not None:
        value["likely"] = guess.data()

    def show() -> None:
        rows = _rows(result, value.get("true_loss"), is_cost=cost is not None)
        rows += _constraint_rows(result)
        if comparison is not None:
            rows.append(_comparison_row(comparison, str(policy or "the plan"), str(compare)))
        if guess is not None:
            rows += _likely_rows(guess, probability, is_cost=cost is not None)
        console.print(table("", "", "", rows=rows))
        print_forecast(result.certificate)
        _print_plan(result)
        if out is not None:
            print_line("\npolicy written to {out}", out=out)

    output(value, json, show)


def _true_loss(
    problem: "Problem",
    reward: Any,
    policy: Any,
    scale: str,
    *,
    discount: float | None = None,
    final: Any = None,
    transition: Any = None,
) -> float | None:
    """The true suboptimality of a policy, in the reward's units; None if the truth is unknown."""
    if problem.truth is None:
        return None
    import numpy as np

    from horizonfree.mdp.events import expected_payment, payments
    from horizonfree.mdp.rewards import as_table
    from horizonfree.problems.problem import true_gap
    from horizonfree.runs.reward_spec import extend_reward

    if discount is None and final is None and transition is None:
        return true_gap(problem, reward, policy, scale=scale)
    table = as_table(problem, reward)
    if transition is not None:  # for the truth, the expected transition reward is a reward
        table = table + expected_payment(problem.kernel(), payments(problem.space, transition))
    extended, table, _ = extend_reward(problem, table, discount, final)
    if final is not None:
        policy = np.concatenate([policy, policy[-1:]])
    return true_gap(extended, table, policy, scale="rescale")


def _print_plan(plan: "Plan") -> None:
    """The policy as a grid or a table."""
    from horizonfree.cli import plan_text

    for part in plan_text.plan_lines(plan, console.width):
        console.print()
        if isinstance(part, tuple):
            lines, num_left_out = part
            console.print(table("state", "time", "actions", rows=lines))
            part = f"[dim]and {num_left_out:,} more states[/]" if num_left_out else None
        if part is not None:
            console.print(part)


def _rows(plan: "Plan", true_loss: float | None, *, is_cost: bool) -> list[tuple[str, Any, str]]:
    """Value, suboptimality bound, and true suboptimality if it is known."""
    from horizonfree.guarantees.certificate import confidence_of, interval

    low, high = (-plan.value_high, -plan.value_low) if is_cost else (plan.value_low, plan.value_high)
    proved = f"{confidence_of(plan.certificate.delta)} interval {interval(low, high)}"
    rows: list[tuple[str, Any, str]] = [
        (
            "cost" if is_cost else "value",
            -plan.value if is_cost else plan.value,
            "nothing proved" if plan.certificate.is_rejected else proved,
        ),
        ("certified", round_bound(plan.gap), str(plan.certificate)),
    ]
    if true_loss is not None:
        rows.append(("true", true_loss, "true suboptimality, as the truth is known here"))
    return rows


def _constraint_data(plan: "Plan") -> dict[str, Any]:
    """The status of a plan within constraints, and the constraints, for JSON."""
    from horizonfree.runs.plan import ConstrainedPlan

    if not isinstance(plan, ConstrainedPlan):
        return {}
    return {"status": plan.status, "constraints": [x.to_dict() for x in plan.constraints]}


def _constraint_rows(plan: "Plan") -> list[tuple[str, Any, str]]:
    """The constraints, each with its interval."""
    from horizonfree.runs.plan import ConstrainedPlan

    if not isinstance(plan, ConstrainedPlan):
        return []
    return [(x.name, x.value, x.summary()) for x in plan.constraints]


def _likely_rows(guess: "Likely", probability: float | None, *, is_cost: bool) -> list[tuple[str, Any, str]]:
    """What is likely, below what is proved."""
    from horizonfree.guarantees.certificate import interval

    if guess.refusal:
        return [("likely", "–", f"not available: {guess.refusal}")]
    ends = (-guess.high, -guess.low) if is_cost else (guess.low, guess.high)
    name, level = "cost" if is_cost else "value", f"with posterior probability {guess.level:g}"
    rows: list[tuple[str, Any, str]] = [
        (f"likely {name}", interval(*ends), f"{level}; {guess.label}"),
        ("likely gap", guess.gap, f"suboptimality at most this {level}; not proved"),
    ]
    if probability is not None:
        rows.append(
            ("likely better", probability, "posterior probability that the first is better; not proved")
        )
    return rows


def _comparison_row(comparison: "Comparison", a: str, b: str) -> tuple[str, Any, str]:
    from horizonfree.guarantees.certificate import confidence_of, interval

    better = a if comparison.low > 0 else b if comparison.high < 0 else None
    verdict = "either may be better" if better is None else f"{better} is better"
    level, ends = confidence_of(comparison.delta), interval(comparison.low, comparison.high)
    return ("difference", comparison.difference, f"{a} minus {b}: {level} interval {ends}; {verdict}")
