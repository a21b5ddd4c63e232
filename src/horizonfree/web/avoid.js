// States to be avoided, and a bound on the probability to be in one of them at least once.

import { count, number } from "./text.js";

const MIN_SHARE = 0.005; // of an action that is named
const MAX_LISTED = 20; // states in a command

const capitalize = (text) => text[0].toUpperCase() + text.slice(1);

// The control: the brush for marks, the bound, and the choice of what to show of a plan that remembers.
export function makeAvoid(box, problem, events) {
  const $ = (id) => document.getElementById(id);
  const isRefused = problem.bound_refusal !== null;
  box.disabled = isRefused;
  $("bound").onchange = () => {
    const bound = Number($("bound").value);
    if ($("bound").value !== "" && bound >= 0 && bound <= 1) events.set(bound);
    else {
      events.refuse("The bound must lie between 0 and 1: it is a probability.");
      events.restore();
    }
  };
  $("unmark").onclick = events.unmark;
  document.querySelectorAll("input[name=memory]").forEach((input) => (input.onchange = () => events.look(input.value === "after")));

  // Show the marks and the bound of a painting.
  function show({ avoid, bound }, isAfter) {
    const marked = avoid.reduce((sum, mark) => sum + mark, 0);
    if (document.activeElement !== $("bound") || Number($("bound").value) !== bound) $("bound").value = bound;
    $("unmark").disabled = !marked;
    $("avoided").hidden = $("memory").hidden = !marked;
    document.querySelector(`input[name=memory][value=${isAfter ? "after" : "before"}]`).checked = true;
    $("avoid-note").textContent = isRefused ? problem.bound_refusal : note(marked, bound);
  }
  return { show, isRefused };
}

function note(marked, bound) {
  if (!marked) return "Mark states; the plan is then the best one that keeps to the bound.";
  const zero = bound === 0 ? " Zero is never certified as feasible: try 0.000001." : "";
  return `${count(marked, "state")} marked. The bound is on being in one of them at least once in an episode.${zero}`;
}

// The status of a plan, its risk beside the bound, and what else is known; isHome: from the start of the problem.
export function told({ bounded, summary }, isHome) {
  const { status, risk, risk_summary, forecast, true_risk } = bounded;
  const here = isHome ? "" : `${number(risk)} from here; from the start of the problem `;
  const shown = status === "infeasible" ? " The plan shown has the smallest probability in the estimate." : "";
  return {
    status: `${capitalize(status)}.`,
    risk: `Ever in a marked state: ${here}${risk_summary}.`,
    proof: `${capitalize(summary)}.${shown}`,
    forecast: forecast ? `${capitalize(forecast)}.` : "",
    truth: true_risk === null ? "\u00a0" : `True probability ${number(true_risk)}; known because this problem is simulated.`,
  };
}

// The actions that a plan draws in a state, the likeliest first.
export const drawn = (draws, actions) =>
  draws
    .filter(([, p]) => p >= MIN_SHARE)
    .sort(([, p], [, q]) => q - p)
    .map(([a, p]) => `${actions[a]} ${number(100 * p)} %`)
    .join(", ");

// The bound as an option of `horizonfree plan`.
export function option({ avoid, bound }) {
  const states = Array.from(avoid, (mark, s) => (mark ? s : -1)).filter((s) => s >= 0);
  if (!states.length) return "";
  return ` --at-most reach:${states.length > MAX_LISTED ? "STATE,…" : states.join(",")}=${bound}`;
}
