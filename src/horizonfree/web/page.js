// The playground: painting, questions to the back end, and controls.

import { drawn, makeAvoid, option, told } from "./avoid.js";
import { ask, linkNote, open } from "./backend.js";
import { makeBoard } from "./board.js";
import * as link from "./link.js";
import { makeTable } from "./table.js";
import { bound, boundText, count, distinct, interval, likely, max, min, number, origin } from "./text.js";

const WAIT_MS = 150; // before "Planning ..." is shown
const STEP_MS = 280; // of a step of an episode
const MAX_UNDO = 200;

const $ = (id) => document.getElementById(id);
const isStill = window.matchMedia("(prefers-reduced-motion: reduce)");
let problem, view, avoiding; // the view is a map or a table
let painted = { weights: new Float64Array(0), when: "along", avoid: new Float64Array(0), bound: link.BOUND, step: 0, start: 0 };
let seed = 0, misspecification = 0, isAfter = false, answer = null, position = null;
let undo = [], redo = [], stroke = null;
let pointed = -1; // the state under the pointer

main().catch((error) => say("working", error.message, true));

async function main() {
  await open((text) => ($("about").textContent = text));
  problem = await ask("problem");
  problem.isReachable = new Set(problem.reachable);
  document.title = `${problem.name}: reward playground`;
  $("name").textContent = problem.name;
  $("about").textContent =
    `${count(problem.states, "state")}, ${count(problem.horizon, "step")} an episode, ${origin(problem)} ` +
    `${problem.is_rejected ? `Warning: ${problem.summary}. ` : ""}Paint a reward to see its plan.`;
  showCertificates();
  $("wrong").hidden = problem.misspecifications.length < 2;
  $("misspecification").max = problem.misspecifications.length - 1;
  $("step").max = problem.horizon - 1;
  $("start").min = Math.min(problem.start, 0);
  $("start").max = problem.states - 1;
  view = problem.cells ? map() : table();
  avoiding = makeAvoid($("avoid"), problem, {
    set: (bound) => change(() => (painted.bound = bound)),
    refuse: (text) => say("working", text, true),
    restore: () => avoiding.show(painted, isAfter),
    unmark: () => change(() => painted.avoid.fill(0)),
    look(after) {
      isAfter = after;
      refresh();
    },
  });
  load(follow() ?? example());
  listen();
}

// The painting in the address, or null; parts that do not fit are reported.
function follow() {
  const { found, misfits } = link.read(location.hash, problem);
  $("misfits").hidden = !misfits.length;
  $("misfits").textContent = misfits.length ? link.misfitText(misfits) : "";
  return found;
}

// The certificates of all plans, and forecasts.
function showCertificates() {
  $("certificates").hidden = problem.is_rejected;
  $("confidence").textContent = problem.confidence;
  $("goals").textContent = boundText(capitalize(problem.goals.name), problem.goals);
  $("every").textContent = boundText("Every reward r_h(s, a) of total at most 1", problem);
  for (const [id, { forecast }] of Object.entries({ "goals-need": problem.goals, "every-need": problem })) {
    $(id).textContent = forecast ? `${forecast}.` : "";
    $(id).hidden = !forecast;
  }
}

const capitalize = (text) => text[0].toUpperCase() + text.slice(1);

function example() {
  const s = problem.reachable[Math.floor(problem.reachable.length * 0.45)];
  const weights = new Float64Array(problem.states);
  weights[s] = 1;
  return { weights, when: "along", avoid: new Float64Array(problem.states), bound: link.BOUND, step: 0, start: problem.start };
}

// ---- painting ------------------------------------------------------------------------------------------------------

const copy = ({ weights, when, avoid, bound }) => ({ weights: weights.slice(), when, avoid: avoid.slice(), bound });

function remember() {
  undo.push(copy(painted));
  if (undo.length > MAX_UNDO) undo.shift();
  redo = [];
}

function travel(from, to) {
  if (!from.length) return;
  to.push(copy(painted));
  painted = { ...painted, ...from.pop() };
  changed();
}

function change(edit) {
  remember();
  edit();
  changed();
}

// The brush of a weight changes the reward, that of marks the marks; the eraser takes both away.
const brush = () => document.querySelector("input[name=brush]:checked").value;
const isMarking = () => brush() === "avoid";
const isOn = (s) => (isMarking() ? painted.avoid[s] === 1 : painted.weights[s] === Number(brush()));

function put(s, isPut) {
  if (isMarking()) painted.avoid[s] = Number(isPut);
  else painted.weights[s] = isPut ? Number(brush()) : 0;
  if (brush() === "0") painted.avoid[s] = 0;
}

const same = (a, b) => a.weights.every((w, s) => w === b.weights[s]) && a.avoid.every((mark, s) => mark === b.avoid[s]);
const isBounded = () => painted.avoid.includes(1);

const events = {
  begin(s) {
    remember();
    stroke = s < 0 || brush() === "0" || !isOn(s);
  },
  paint(s) {
    const before = [painted.weights[s], painted.avoid[s]];
    put(s, stroke);
    if (before[0] !== painted.weights[s] || before[1] !== painted.avoid[s]) changed();
  },
  end() {
    stroke = null;
    if (same(undo[undo.length - 1], painted)) undo.pop();
    changed(performance.now());
  },
  stroke: (states) => change(() => states.forEach((s) => put(s, true))),
  toggle: (s) => change(() => put(s, brush() === "0" || !isOn(s))),
  erase: (s) => change(() => (painted.weights[s] = painted.avoid[s] = 0)),
  look(s) {
    pointed = s;
    tell();
  },
  say(s) {
    $("here").setAttribute("aria-live", "polite");
    events.look(s);
  },
};

function tell() {
  const text = pointed < 0 ? "\u00a0" : describe(pointed);
  if ($("here").textContent !== text) $("here").textContent = text;
}

function describe(s) {
  const parts = [view.place(s), `reward ${number(painted.weights[s])}`];
  if (painted.avoid[s]) parts.push("to be avoided");
  if (!problem.isReachable.has(s)) parts.push("unreachable within an episode");
  if (answer) parts.push(`${percent(answer.occupancy[s])} of the time`);
  if (answer) parts.push(`value ${number(answer.values[s])}`, matters(s) ? action(s) : "no reward from here");
  return parts.join(" · ");
}

// ---- requests -----------------------------------------------------------------------------------------------

const marks = () => Array.from(painted.avoid, (mark, s) => (mark ? s : -1)).filter((s) => s >= 0);
const pairs = () => Array.from(painted.weights, (w, s) => [s, w]).filter(([, w]) => w !== 0);
let isAsking = false, isStale = false, since = null;

const isWaiting = () => isBounded() && stroke !== null; // plans within a bound are made at the end of a stroke

// What is asked besides the weights.
function where() {
  const { when, step, start, bound } = painted;
  return { when, step, start, ...(isBounded() ? { avoid: marks(), bound, after: isAfter } : {}) };
}

// Request the plan for the painting: one request at a time, the latest painting wins.
async function refresh() {
  isStale = true;
  if (isAsking || isWaiting()) return;
  isAsking = true;
  busy(true);
  const within = isBounded() ? " within the bound, which is the work of dozens of plans" : "";
  const timer = setTimeout(() => say("working", `Planning for ${count(problem.states, "state")}${within} …`), WAIT_MS);
  try {
    while (isStale && !isWaiting()) {
      isStale = false;
      const released = since;
      const weights = pairs();
      answer = weights.length
        ? await ask("plan", { weights, ...where(), seed, misspecification })
        : null;
      if (answer) answer.draws = new Map(answer.draws);
      show();
      if (released !== null && released === since) {
        since = null;
        requestAnimationFrame(() => performance.measure("repaint", { start: released, end: performance.now() }));
      }
    }
    say("working", "");
  } catch (error) {
    answer = null;
    show();
    say("working", error.message, true);
  } finally {
    clearTimeout(timer);
    isAsking = false;
    busy(false);
  }
}

const busy = (is) => document.querySelector(".result").setAttribute("aria-busy", is);

// ---- display ---------------------------------------------------------------------------------------------------------

function changed(released = null) {
  since = released;
  history.replaceState(null, "", link.write(painted, problem.start));
  controls();
  draw();
  refresh();
}

function load(state) {
  painted = state;
  stop();
  changed();
}

function controls() {
  document.querySelector(`input[name=when][value=${painted.when}]`).checked = true;
  $("undo").disabled = !undo.length;
  $("redo").disabled = !redo.length;
  $("clear").disabled = $("share").disabled = $("save").disabled = !painted.weights.some((w) => w !== 0);
  avoiding.show(painted, isAfter);
  $("step").value = painted.step;
  $("step-is").textContent = `${painted.step + 1} of ${problem.horizon}`;
  $("start").value = painted.start;
  const isHome = painted.start === problem.start;
  $("start-is").textContent = isDrawn()
    ? `one of ${count(problem.num_starts, "state")}, drawn`
    : view.place(painted.start) + (isHome ? " (the start)" : "");
  $("start").setAttribute("aria-valuetext", $("start-is").textContent);
  $("ring").hidden = !starts().length;
  $("ring-is").textContent = isDrawn() ? "possible start" : "start";
  $("start-note").textContent = isHome ? "" : "Value and episode from this start, in the estimate. The certificate is for the start of the problem.";
}

const isDrawn = () => painted.start < 0;
const starts = () => (isDrawn() ? problem.starts : [painted.start]); // to be marked

const showsTime = () => Boolean(problem.cells) && document.querySelector("input[name=shows]:checked").value === "time";
const hasCosts = () => painted.weights.some((w) => w < 0);
const matters = (s) => hasCosts() || Boolean(answer.bounded) || answer.values[s] > 1e-9; // whether the action in a state matters
const action = (s) => (answer.draws.has(s) ? drawn(answer.draws.get(s), problem.actions) : problem.actions[answer.policy[s]]);
const percent = (share) => `${number(100 * share)} %`;

// Shades from no time to the longest, or from the lowest value of the step to the highest; dark if these are equal.
function scale() {
  if (!answer) return { of: () => 0, low: "value", high: "" };
  const shown = showsTime() ? answer.occupancy : answer.values;
  const low = showsTime() ? 0 : min(shown), high = max(shown);
  const of = (s) => (high > low ? (shown[s] - low) / (high - low) : Number(high > 0));
  if (showsTime()) return { of, low: "time: 0", high: `${percent(high)} of the steps` };
  const [from, to] = distinct(low, high);
  return { of, low: `value ${from}`, high: to };
}

function draw() {
  const path = position === null || !answer ? null : answer.episode;
  const policy = showsTime() ? null : answer?.policy;
  const draws = answer?.draws;
  view.draw({ ...painted, starts: starts(), shade: scale().of, values: answer?.values, matters, policy, draws, action, path, at: position ?? 0 });
  $("low").textContent = scale().low;
  $("high").textContent = scale().high;
  tell();
}

function show() {
  draw();
  document.querySelector(".result").classList.toggle("none", Boolean(answer && answer.is_vacuous));
  $("play").disabled = $("another").disabled = !answer;
  $("bounded").hidden = $("forecast").hidden = !answer?.bounded;
  if (!answer) {
    $("value").textContent = "–";
    $("proof").textContent = "Paint a reward to begin.";
    $("between").textContent = $("likely").textContent = $("truth").textContent = $("episode").textContent = "\u00a0";
    return;
  }
  $("value").textContent = number(answer.value);
  const when = painted.when === "end" ? "at the end" : "along the way";
  $("value-of").textContent = painted.when === "reach"
    ? "probability to be there at least once"
    : `expected reward ${when}${hasCosts() ? ", minus costs" : ", at most 1"}`;
  showEveryReward();
  $("between").textContent = between();
  $("proof").textContent = proof();
  $("likely").textContent = answer.bounded ? "Likely: not available within a bound." : likely(answer.likely);
  if (answer.bounded) showBounded();
  else $("truth").textContent =
    answer.loss === null ? "\u00a0" : `True suboptimality ${number(answer.loss)}; known because this problem is simulated.`;
  const from = isDrawn() ? ` starts in ${view.place(answer.episode[0])} and` : "";
  $("episode").textContent = `This episode${from} collects ${number(collected())}${entered()}.`;
}

// The status of a plan within a bound, and its risk.
function showBounded() {
  const { status, risk, proof, forecast, truth } = told(answer, painted.start === problem.start);
  $("status").textContent = status;
  $("status").className = answer.bounded.status;
  $("risk").textContent = risk;
  if (!answer.is_rejected) $("proof").textContent = proof;
  $("forecast").textContent = forecast;
  $("truth").textContent = truth;
}

// When the episode was in a marked state first.
function entered() {
  const step = answer.episode.slice(0, problem.horizon).findIndex((s) => painted.avoid[s]);
  return answer.bounded && step >= 0 ? `, and is in a marked state at step ${step + 1}` : "";
}

// The bound for every reward, for the misspecification of the slider.
function showEveryReward() {
  const isRight = answer.misspecification === 0;
  $("goals").hidden = $("goals-need").hidden = !isRight;
  $("every-need").hidden = !isRight || !problem.forecast;
  $("every").textContent = boundText("Every reward r_h(s, a) of total at most 1", isRight ? problem : answer.every);
  $("misspecification-note").textContent = isRight
    ? "The bounds then hold for every such system."
    : `The data show that no parameter is closer than ${number(answer.every.low)}.`;
}

// The confidence interval of the value, for the start of the problem.
function between() {
  if (answer.is_rejected || answer.value_low === null) return "\u00a0";
  return `${capitalize(problem.confidence)} interval ${interval(answer.value_low, answer.value_high)}.`;
}

function proof() {
  if (answer.is_rejected) return `Nothing is certified: ${answer.summary}.`;
  if (answer.is_vacuous) return `Nothing is certified for this reward yet: ${answer.summary.replace("vacuous: ", "")}.`;
  const condition = answer.misspecification ? ` if every row of the kernel is within ${answer.misspecification} of one parameter` : "";
  return `Suboptimality at most ${bound(answer.gap, hasCosts() ? 2 : 1)} (${problem.confidence}, any stopping time)${condition}.`;
}

function collected() {
  const rewards = answer.episode.slice(0, problem.horizon).map((s) => painted.weights[s]);
  if (painted.when === "reach") return rewards.some((weight) => weight > 0) ? 1 : 0;
  return painted.when === "end" ? rewards.at(-1) : rewards.reduce((a, b) => a + b, 0) / problem.horizon;
}

function say(id, text, isFailure = false) {
  $(id).textContent = text || "\u00a0";
  $(id).classList.toggle("failed", isFailure);
}

// ---- an episode ------------------------------------------------------------------------------------------------------

let frame = null;

function play() {
  if (!answer) return;
  if (frame !== null) return stop();
  $("play").textContent = "Stop";
  const began = performance.now();
  const tick = (now) => {
    const at = Math.min(Math.max(0, now - began) / STEP_MS, problem.horizon - 1);
    position = isStill.matches ? Math.floor(at) : at;
    const step = Math.floor(position);
    if (step !== painted.step) {
      painted.step = step;
      isAfter = isBounded() && answer.episode.slice(0, step).some((s) => painted.avoid[s]);
      controls();
      refresh();
    }
    draw();
    if (at < problem.horizon - 1) frame = requestAnimationFrame(tick);
    else finish();
  };
  frame = requestAnimationFrame(tick);
}

function finish() {
  if (frame !== null) cancelAnimationFrame(frame);
  frame = null;
  $("play").textContent = "Play an episode";
  if (problem) history.replaceState(null, "", link.write(painted, problem.start));
}

function stop() {
  finish();
  position = null;
}

// ---- controls --------------------------------------------------------------------------------------------------------

function listen() {
  $("undo").onclick = () => travel(undo, redo);
  $("redo").onclick = () => travel(redo, undo);
  $("clear").onclick = () => change(() => painted.weights.fill(0));
  $("fill").onclick = () => change(() => painted.weights.forEach((_, s) => put(s, true)));
  $("play").onclick = play;
  $("another").onclick = () => {
    stop();
    seed += 1;
    refresh().then(play);
  };
  $("share").onclick = share;
  $("save").onclick = save;
  document.querySelectorAll("input[name=when]").forEach((input) => (input.onchange = () => {
    remember();
    painted.when = input.value;
    changed();
  }));
  document.querySelectorAll("input[name=shows]").forEach((input) => (input.onchange = draw));
  $("step").oninput = () => {
    stop();
    painted.step = Number($("step").value);
    changed();
  };
  $("misspecification").oninput = () => {
    misspecification = Number($("misspecification").value);
    const radius = problem.misspecifications[misspecification];
    $("misspecification-is").textContent = radius ? `at most ${radius}` : "none";
    $("misspecification").setAttribute("aria-valuetext", $("misspecification-is").textContent);
    refresh();
  };
  $("start").oninput = () => {
    stop();
    painted.start = Number($("start").value);
    changed();
  };
  window.addEventListener("hashchange", () => {
    const found = follow();
    if (found) load(found);
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input[type=number]");
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !isTyping) {
      event.preventDefault();
      event.shiftKey ? travel(redo, undo) : travel(undo, redo);
    } else if (event.key === "p" && !event.ctrlKey && !event.metaKey && !isTyping) play();
  });
}

async function share() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("working", `Link copied. ${linkNote}`);
  } catch {
    say("working", "Copy the address of this page; it contains the reward.");
  }
}

async function save() {
  try {
    const file = await ask("reward.npy", { weights: pairs(), when: painted.when });
    const anchor = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: `${problem.name}-reward.npy` });
    anchor.click();
    URL.revokeObjectURL(anchor.href);
    say("working", `Saved as ${anchor.download}: an array [H, S, A] for horizonfree plan --reward${hasCosts() ? " --scale rescale" : ""}${option(painted)}.`);
  } catch (error) {
    say("working", error.message, true);
  }
}

// ---- the two views ------------------------------------------------------------------------------------------

function map() {
  $("map").hidden = false;
  $("board").setAttribute("aria-label", `Map of ${count(problem.states, "state")}; paint the reward here`);
  return makeBoard($("board"), problem, events);
}

function table() {
  $("list").hidden = false;
  for (const part of document.querySelectorAll(".legend, .brushes, #fill, #map-keys")) part.hidden = true;
  return makeTable($("list"), problem, {
    set: (s, weight) => change(() => (painted.weights[s] = weight)),
    mark: (s, isMarked) => change(() => (painted.avoid[s] = Number(isMarked))),
    refuse: (text) => say("working", text, true),
  });
}
