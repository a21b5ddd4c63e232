// The playground: painting, questions to the back end, and controls.

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
let problem, view; // the view is a map or a table
let painted = { weights: new Float64Array(0), when: "along", step: 0, start: 0 };
let seed = 0, misspecification = 0, answer = null, position = null;
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
  return { weights, when: "along", step: 0, start: problem.start };
}

// ---- painting ------------------------------------------------------------------------------------------------------

function remember() {
  undo.push({ weights: painted.weights.slice(), when: painted.when });
  if (undo.length > MAX_UNDO) undo.shift();
  redo = [];
}

function travel(from, to) {
  if (!from.length) return;
  to.push({ weights: painted.weights, when: painted.when });
  painted = { ...painted, ...from.pop() };
  changed();
}

function change(edit) {
  remember();
  edit(painted.weights);
  changed();
}

const brush = () => Number(document.querySelector("input[name=brush]:checked").value);
const toggled = (s) => (painted.weights[s] === brush() ? 0 : brush());

const events = {
  begin(s) {
    remember();
    stroke = s >= 0 ? toggled(s) : brush();
  },
  paint(s) {
    if (painted.weights[s] === stroke) return;
    painted.weights[s] = stroke;
    changed();
  },
  end() {
    const before = undo[undo.length - 1].weights;
    if (before.every((w, s) => w === painted.weights[s])) undo.pop();
    changed(performance.now());
  },
  stroke: (states) => change((weights) => states.forEach((s) => (weights[s] = brush()))),
  toggle: (s) => change((weights) => (weights[s] = toggled(s))),
  erase: (s) => change((weights) => (weights[s] = 0)),
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
  if (!problem.isReachable.has(s)) parts.push("unreachable within an episode");
  if (answer) parts.push(`${percent(answer.occupancy[s])} of the time`);
  if (answer) parts.push(`value ${number(answer.values[s])}`, matters(s) ? problem.actions[answer.policy[s]] : "no reward from here");
  return parts.join(" · ");
}

// ---- requests -----------------------------------------------------------------------------------------------

const pairs = () => Array.from(painted.weights, (w, s) => [s, w]).filter(([, w]) => w !== 0);
let isAsking = false, isStale = false, since = null;

// Request the plan for the painting: one request at a time, the latest painting wins.
async function refresh() {
  isStale = true;
  if (isAsking) return;
  isAsking = true;
  busy(true);
  const timer = setTimeout(() => say("working", `Planning for ${count(problem.states, "state")} …`), WAIT_MS);
  try {
    while (isStale) {
      isStale = false;
      const released = since;
      const weights = pairs();
      answer = weights.length
        ? await ask("plan", { weights, when: painted.when, step: painted.step, start: painted.start, seed, misspecification })
        : null;
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
const matters = (s) => hasCosts() || answer.values[s] > 1e-9; // whether the action in a state matters
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
  view.draw({ ...painted, starts: starts(), shade: scale().of, values: answer?.values, matters, policy, path, at: position ?? 0 });
  $("low").textContent = scale().low;
  $("high").textContent = scale().high;
  tell();
}

function show() {
  draw();
  document.querySelector(".result").classList.toggle("none", Boolean(answer && answer.is_vacuous));
  $("play").disabled = $("another").disabled = !answer;
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
  $("likely").textContent = likely(answer.likely);
  $("truth").textContent =
    answer.loss === null ? "\u00a0" : `True suboptimality ${number(answer.loss)}; known because this problem is simulated.`;
  const from = isDrawn() ? ` starts in ${view.place(answer.episode[0])} and` : "";
  $("episode").textContent = `This episode${from} collects ${number(collected())}.`;
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
  $("clear").onclick = () => change((weights) => weights.fill(0));
  $("fill").onclick = () => change((weights) => weights.fill(brush()));
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
    say("working", `Saved as ${anchor.download}: an array [H, S, A] for horizonfree plan --reward${hasCosts() ? " --scale rescale" : ""}.`);
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
  for (const part of [".legend", ".brushes", "#fill", "#map-keys"]) document.querySelector(part).hidden = true;
  return makeTable($("list"), problem, {
    set: (s, weight) => change((weights) => (weights[s] = weight)),
    refuse: (text) => say("working", text, true),
  });
}
