"""One case: a system, data, a question with options, and every member of the confidence set against the answer."""

import tempfile
from pathlib import Path

import numpy as np

import horizonfree as hf
from horizonfree import testing
from horizonfree.models.registry import diagnostics_of
from tests.adversary import rewards, sets
from tests.adversary.systems import CLASSES, A, H, S

FACTORS = {
    "system": tuple(CLASSES),
    "question": (
        "plan",
        "explorer plan",
        "evaluate",
        "evaluate stochastic",
        "compare",
        "uniform",
        "direct",
        "goals",
        "occupancies",
        "list",
        "weights",
    ),
    "where": ("here", "state", "distribution", "shorter", "longer", "drawn start"),
    "pays": (
        "total",
        "goal",
        "final",
        "discount",
        "separable",
        "transition",
        "all of these",
        "per-step",
        "rescale",
        "rescaled",
        "function",
    ),
    "data": (
        "full",
        "ragged",
        "short",
        "arbitrary",
        "extreme",
        "budget",
        "explored",
        "resumed",
        "batch",
        "stored",
    ),
    "allowed": ("all", "some"),
    "episodes": (1, 2, 5, 50),
    "delta": (0.5, 0.05),
}


def make_problem(case, rng):
    start = [0.5, 0.25, 0.25] if case["where"] == "drawn start" else 0
    settings = {"horizon": H, "start": start}
    if case["allowed"] == "some":
        allowed = np.ones((S, A), bool)
        allowed[rng.integers(S), rng.integers(A)] = False
        settings["actions_allowed"] = allowed
    return CLASSES[case["system"]](rng, settings)


def make_run(case, problem, rng):
    K, data, seed = case["episodes"], case["data"], int(rng.integers(1000))
    if data == "batch":
        return hf.explore_many(problem, episodes=K, seeds=[seed], curves=(), progress=False)[0]
    if data in ("explored", "resumed", "stored"):
        run = hf.explore(problem, episodes=1 if data == "resumed" else K, seed=seed, progress=False)
        run = run.resume(episodes=K - 1) if data == "resumed" and K > 1 else run
        if data == "stored":
            with tempfile.TemporaryDirectory() as folder:
                run.save(Path(folder) / "run")
                return hf.load(Path(folder) / "run")
        return run
    return hf.from_episodes(problem, make_log(data, K, problem, rng), budget=K if data == "budget" else None)


def make_log(data, K, problem, rng):
    """States and actions of K episodes; "arbitrary" and "extreme" ones are not drawn from the truth."""
    P, allowed, space = problem.kernel().dense(), np.asarray(problem.actions_allowed), problem.space
    start = np.eye(S)[problem.start] if np.ndim(problem.start) == 0 else problem.start
    states, actions = [], []
    for _ in range(K):
        length = {"ragged": int(rng.integers(1, H + 1)), "short": H - 1}.get(data, H)
        s, a = [int(rng.choice(S, p=start))], []
        for _ in range(length):
            a.append(int(rng.choice(np.flatnonzero(allowed[s[-1]]))))
            p = P[s[-1], a[-1]]
            successors = np.asarray(space.succ[s[-1], a[-1]])[np.asarray(space.support[s[-1], a[-1]])]
            if data == "arbitrary":
                s.append(int(rng.choice(successors)))
            elif data == "extreme":
                s.append(int(successors[np.argmin(p[successors])]) if len(states) % 2 else int(p.argmax()))
            else:
                s.append(int(rng.choice(S, p=p / p.sum())))
        states.append(s), actions.append(a)
    return states, actions


def make_options(case, problem, rng):
    """A reward and the options of `run.plan` beside delta."""
    where_to_start, pays, options = case["where"], case["pays"], {}
    steps = {"shorter": H - 1, "longer": H + 1}.get(where_to_start, H)
    if where_to_start == "state":
        options["start"] = int(rng.integers(S))
    if where_to_start == "distribution":
        options["start"] = rng.dirichlet(np.ones(S))
    if steps != H:
        options["horizon"] = steps
    reward = testing.random_reward(problem, rng)[0] if steps != H else testing.random_reward(problem, rng)
    reward = reward / (steps if reward.ndim == 2 else 1)
    if pays == "goal":
        reward = np.zeros((steps, S, A))
        reward[-1, rng.integers(S)] = 1.0
    if pays == "final":
        reward, options["final"] = reward / 2, rng.random(S) / 2
    if pays in ("discount", "all of these"):
        options["discount"] = 0.8
    if pays == "separable":
        options["transition"] = rng.normal(size=(S, A, 1)) + rng.normal(size=S)
    if pays == "transition":
        options["transition"] = rng.normal(size=(S, A, S))
    if pays == "all of these":
        options |= {"final": rng.normal(size=S), "transition": rng.normal(size=(S, A, S))}
    if pays == "per-step":
        reward, options["scale"] = rng.random((S, A)), "per-step"
    if pays in ("rescale", "separable", "transition", "all of these", "discount"):
        size = {"transition": 0.0, "separable": 0.3, "all of these": 0.3}.get(pays, 5.0)
        reward, options["scale"] = size * rng.normal(size=(S, A)), "rescale"
    if pays == "rescaled":
        restarted = problem.with_start(options.get("start"), options.get("horizon"))
        reward = hf.rescale(restarted, 5 * rng.normal(size=(S, A)))
    if pays == "function":
        table = np.broadcast_to(reward, (steps, S, A))
        reward = lambda h, s, a: table[h, s, a]  # noqa: E731
    return reward, options


def check_case(audit, case, seed):
    """Ask the question and compare; refusals with a HorizonfreeError count."""
    rng = np.random.default_rng([seed, 77])
    problem = make_problem(case, rng)
    run = make_run(case, problem, rng)
    delta = case["delta"]
    confidence_set = sets.confidence_set(run, delta)
    members = confidence_set.members(rng, 24)
    audit.runs, audit.parameters = audit.runs + 1, audit.parameters + len(members)
    if not len(members):
        return
    if run.log is not None and "linear" not in case["system"]:
        check_membership(run, confidence_set, members, delta)
    name = ", ".join(f"{key} {value}" for key, value in case.items()) + f", seed {seed}"
    with audit.refusals():
        ask(audit, name, case, run, confidence_set, members, rng)


def check_membership(run, confidence_set, members, delta):
    """The library's `violation` must agree that members are in the set."""
    if isinstance(confidence_set, sets.TableSet):
        succ, support = np.asarray(run.problem.space.succ), np.asarray(run.problem.space.support)
        members = np.where(
            support, np.take_along_axis(members, np.broadcast_to(succ, (len(members), *succ.shape)), -1), 0
        )
    assert testing.is_inside(run, members, delta).all()


def ask(audit, name, case, run, confidence_set, members, rng):
    question, delta, problem = case["question"], case["delta"], run.problem
    if question == "weights":
        low, high = run.weight_intervals.T
        weights = (
            np.stack([diagnostics_of(problem.model).in_units(x) for x in confidence_set.members(rng, 24)])
            if delta == 0.05
            else []
        )
        for i in range(len(low) if len(weights) else 0):
            audit.at_most(f"{name}: weight {i} low", low[i] - weights[:, i], 0.0)
            audit.at_most(f"{name}: weight {i} high", weights[:, i] - high[i], 0.0)
        return
    if question in ("goals", "occupancies", "list"):
        return ask_family(audit, name, question, delta, run, confidence_set, members, rng)
    reward, options = make_options(case, problem, rng)
    if question in ("uniform", "direct"):
        return ask_uniform(audit, name, question, delta, run, confidence_set, members, options, rng)
    task = testing.task_of(problem, reward, **options)
    restarted = problem.with_start(options.get("start"), options.get("horizon"))

    def policy(*, is_stochastic):
        return testing.random_policy(restarted, rng, is_stochastic=is_stochastic)

    if question == "compare":
        if options.keys() & {"discount", "final", "transition"}:
            audit.refused += 1  # `compare` has no such options
            return
        first = policy(is_stochastic=False)
        other_policy = first.copy()
        other_policy[0] = policy(is_stochastic=False)[0]
        constant = [np.broadcast_to(np.asarray(restarted.actions_allowed).argmax(1), first.shape)]
        constant.append(
            np.broadcast_to(A - 1 - np.asarray(restarted.actions_allowed)[:, ::-1].argmax(1), first.shape)
        )
        for a, b in ((first, policy(is_stochastic=True)), (first, other_policy), constant):
            ask_comparison(
                audit,
                name,
                run,
                confidence_set,
                members,
                task,
                (reward, a, b),
                {"delta": delta, **options},
                rng,
            )
        return
    if question.startswith("evaluate"):
        plan = run.evaluate(reward, policy(is_stochastic="stochastic" in question), delta=delta, **options)
    else:
        model = "explorer" if question == "explorer plan" else "likelihood"
        plan = run.plan(reward, delta=delta, model=model, **options)
    scores = (
        lambda P: testing.optimal_values(P, task) - testing.policy_values(P, task, plan.policy),
        lambda P: testing.policy_values(P, task, plan.policy),
        lambda P: -testing.policy_values(P, task, plan.policy),
    )
    for score in scores:
        audit.plan(name, plan, confidence_set.kernels(confidence_set.improve(members, score, rng)), task)


def ask_comparison(audit, name, run, confidence_set, members, task, arguments, options, rng):
    """Two policies and members at which their difference is as large or as small as can be found."""
    _, a, b = arguments
    comparison = run.compare(*arguments, **options)
    for sign in (1, -1):
        score = lambda P: sign * (testing.policy_values(P, task, a) - testing.policy_values(P, task, b))  # noqa: B023, E731
        kernels = confidence_set.kernels(confidence_set.improve(members, score, rng))
        audit.comparison(name, comparison, kernels, task, a, b)


def ask_uniform(audit, name, question, delta, run, confidence_set, members, options, rng):
    """The plans of rewards that linear programmes find, against the certificate for every reward."""
    restarted = (
        run.restart_from(options.get("start"), options.get("horizon"))
        if options.keys() & {"start", "horizon"}
        else run
    )
    certificate = restarted.certificate(delta, method=question)
    estimate = np.asarray(restarted.confidence(delta).kernel.dense())
    kernels = confidence_set.kernels(members)
    candidates = rewards.search(restarted.problem, kernels, estimate, rng)
    candidates += [testing.random_reward(restarted.problem, rng) for _ in range(2)]
    for reward in candidates:
        task, plan = testing.task_of(restarted.problem, reward), restarted.plan(reward, delta=delta)
        score = lambda P: testing.optimal_values(P, task) - testing.policy_values(P, task, plan.policy)  # noqa: B023, E731
        worst = confidence_set.kernels(confidence_set.improve(members, score, rng))
        audit.plan(name, plan, worst, task)
        if not certificate.is_rejected:
            audit.at_most(f"{name}: eps", score(worst), certificate.eps)
            audit.summary(name, score(worst), certificate.summary())


def ask_family(audit, name, question, delta, run, confidence_set, members, rng):
    """The plan of every reward of a family against the certificate of the family."""
    problem = run.problem
    families = {
        "goals": lambda: [hf.goal(problem, s) for s in range(S)],
        "occupancies": lambda: [hf.occupancy(problem, s) for s in range(S)],
        "list": lambda: [testing.random_reward(problem, rng), hf.rescale(problem, rng.normal(size=(S, A)))],
    }[question]()
    certificate = run.certificate(delta, rewards=families if question == "list" else question)
    if certificate.is_rejected:
        return
    for reward in families:
        task, plan = testing.task_of(problem, reward), run.plan(reward, delta=delta)
        factor = getattr(reward, "factor", 1.0)  # eps of a family is on the scale of totals of 1
        score = lambda P: testing.optimal_values(P, task) - testing.policy_values(P, task, plan.policy)  # noqa: B023, E731
        worst = confidence_set.kernels(confidence_set.improve(members, score, rng))
        audit.plan(name, plan, worst, task)
        audit.at_most(f"{name}: eps", score(worst) / factor, certificate.eps)
