"""Runs as users set them up, and everything that they state, against the exact values of the hidden system.

Statements are at delta = 1e-8, so a correct library fails here with a probability of at most 1e-6. The long form:

    ADVERSARY_SECONDS=600 ADVERSARY_SEED=1 pytest -m slow -s tests/adversary/test_setups.py
"""

import os
import time
import warnings

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, LogWarning, OptionError, TargetWarning
from tests.adversary.hidden import Hidden
from tests.adversary.setups import SETUPS, Positions
from tests.adversary.statements import Checks, check_run

DELTA = 1e-8
NUM_QUESTIONS = 6  # of each run


def attack(checks, setup, seed):
    rng = np.random.default_rng([seed, SETUPS.index(setup)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LogWarning)  # few different episodes are possible
        warnings.simplefilter("ignore", TargetWarning)
        try:
            run, system, *more = setup(rng)
        except HorizonfreeError as error:  # kernels of any weights that depend on each other
            checks.refuse(setup.__name__, error)
            return
        check_run(checks, f"{setup.__name__} {seed}", run, system, rng, DELTA, *more, number=NUM_QUESTIONS)


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.__name__)
def test_no_statement_is_false(setup):
    checks = Checks()
    for seed in (0, 1):
        attack(checks, setup, seed)
    assert not checks.false, "\n".join(checks.false)
    assert checks.statements > 20


# Refuted at first: the law in a cell depends on the position in it, as far as the Lipschitz constant says.
def test_errors_of_cells_do_not_refute_the_class():
    rng, H = np.random.default_rng(0), 6
    # In each of two cells: at 0.1 an episode stays with probability 0.7, at 0.9, where it enters, with 0.3.
    laws = [[0.7, 0, 0, 0.3], [0.3, 0, 0, 0.7], [0, 0.3, 0.7, 0], [0, 0.7, 0.3, 0]]
    P = np.repeat(np.array(laws)[:, None], 2, axis=1)
    env = hf.discretize(Positions(P, 0), [2], lipschitz=0.5)
    problem = hf.explore(env, "uniform", episodes=1, horizon=H, progress=False).problem
    states, actions = np.zeros((500, H + 1), int), rng.integers(2, size=(500, H))
    for k in range(500):
        env.reset(seed=k)
        states[k, 1:] = [env.step(a)[0] for a in actions[k]]
    run = hf.from_episodes(problem, (states, actions))
    exact = hf.from_episodes(problem._replace(layout={}), (states, actions))
    assert exact.check().is_refuted  # the test has an effect
    assert not run.check().is_refuted
    assert not hf.audit(run, hf.goal(problem, 1), np.zeros((H, 3), int)).is_refuted
    with pytest.raises(OptionError, match="cells have errors"):
        run.check(alternatives=["memory"])


# Rejected at first: what an episode did not show counted as steps that stay (runs/logged.py).
def test_a_log_of_a_run_has_no_more_transitions_in_another_run():
    kernels = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
    problem = hf.Mixture.from_kernels(kernels, horizon=5, weights=[0.5, 0.5])
    log = hf.simulate(problem, np.zeros((5, 3), int), episodes=50)
    short = [x[: 2 + k % 4] for k, x in enumerate(log.s)], [x[: 1 + k % 4] for k, x in enumerate(log.a)]
    run = hf.from_episodes(problem, short)
    again = hf.from_episodes(problem, run.log)
    assert np.array_equal(run.visits, again.visits)
    assert run.certificate().eps == again.certificate().eps


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_long_form():
    checks, seed = Checks(), int(os.environ.get("ADVERSARY_SEED", "0"))
    end, number = time.monotonic() + float(os.environ.get("ADVERSARY_SECONDS", "300")), 100 + 1000 * seed
    while time.monotonic() < end:
        for setup in SETUPS:
            attack(checks, setup, number)
        number += 1
        jax.clear_caches()  # programs of all shapes at once need too many memory maps
    print(
        f"{checks.statements} statements, {sum(checks.refused.values())} refused, {len(checks.false)} false"
    )
    assert not checks.false, "\n".join(checks.false)


# Named "the distribution of starts" at first, and one step more where a reward is paid later (models/certify.py).
def test_certificates_name_the_start_and_the_number_of_steps():
    problem = hf.make("river-swim", states=4, horizon=8)
    run = hf.explore(problem, "uniform", episodes=20, progress=False)
    reward, within = hf.goal(problem, 3), [hf.at_most(hf.reach(problem, 2, within=8), 0.5)]
    there = run.restart_from(2)
    assert there.certificate().holds_for == "plans of run.plan(reward, delta=0.05), from state 2, 8 steps"
    for options in ({"final": np.zeros(4)}, {"transition": np.zeros((4, 2, 4))}, {"discount": 0.9}):
        assert run.plan(reward, **options).certificate.holds_for == "this policy, from state 0, 8 steps"
    later = run.plan(np.zeros(4), start=2, horizon=3, final=np.ones(4)).certificate
    assert later.holds_for == "this policy, from state 2, 3 steps"
    constrained = run.plan(reward, constraints=within).certificate
    assert constrained.holds_for.startswith("this policy, from state 0, 8 steps, among policies")


# Counted as actions of their own at first, which can differ from those that they stand for (models/tabular/bounds.py).
@pytest.mark.parametrize("misspecification", [0.0, 0.05])
def test_forbidden_actions_of_tables_change_no_number(misspecification):
    rng = np.random.default_rng(0)
    P, table = rng.dirichlet(np.ones(3), (3, 2)), rng.normal(size=(4, 3, 2))
    s, a = Hidden.of(P, 0).simulate(rng, 30, 4)
    wide, allowed = np.concatenate([P, P[:, :1]], axis=1), np.array([[True, True, False]] * 3)
    problems = (
        hf.Tabular.from_table(P, horizon=4),
        hf.Tabular.from_table(wide, horizon=4, actions_allowed=allowed),
    )
    rewards = table, np.concatenate([table, np.zeros((4, 3, 1))], axis=2)
    numbers = []
    for problem, reward in zip(problems, rewards):
        run, how = hf.from_episodes(problem, (s, a)), {"misspecification": misspecification}
        plan = run.plan(reward, scale="rescale", **how)
        family = run.certificate(rewards="goals", **how)
        numbers.append(
            [run.certificate(**how).eps, family.eps, plan.value, plan.value_low, plan.value_high, plan.gap]
        )
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-12)
    assert numbers[0][-1] > 0.01
