// A painted reward as the fragment of a link: #when=end&paint=12,20-27x-0.5&step=3&start=5

const MAX_PARTS = 5; // in a message
const MAX_LENGTH = 24; // characters of each

// Runs of states with one weight, written "from-to x weight"; weight 1 and runs of one state are written short.
export function write({ weights, when, step, start }, home) {
  const runs = [];
  for (let s = 0; s < weights.length; s++) {
    if (weights[s] === 0) continue;
    let end = s;
    while (end + 1 < weights.length && weights[end + 1] === weights[s]) end++;
    runs.push((end > s ? `${s}-${end}` : `${s}`) + (weights[s] === 1 ? "" : `x${weights[s]}`));
    s = end;
  }
  const parts = [`when=${when}`, `paint=${runs.join(",")}`];
  if (step) parts.push(`step=${step}`);
  if (start !== home) parts.push(`start=${start}`);
  return "#" + parts.join("&");
}

// The painting in a fragment, or null, and the parts of it that do not fit the problem.
export function read(fragment, { states, horizon, start: home }) {
  const text = fragment.replace(/^#/, "");
  const given = new URLSearchParams(text);
  if (!given.has("paint")) return { found: null, misfits: text ? [text] : [] };
  const weights = new Float64Array(states);
  const misfits = [];
  for (const run of given.get("paint").split(",").filter(Boolean)) {
    const parts = /^(\d+)(?:-(\d+))?(?:x(-?\d*\.?\d+(?:e-\d+)?))?$/.exec(run) ?? [];
    const first = Number(parts[1]), last = Number(parts[2] ?? parts[1]), weight = Number(parts[3] ?? 1);
    if (first <= last && last < states && Math.abs(weight) <= 1) weights.fill(weight, first, last + 1);
    else misfits.push(run);
  }
  const one = (name, isFit, otherwise) => {
    const value = given.get(name);
    if (value === null) return otherwise;
    if (isFit(value)) return value;
    misfits.push(`${name}=${value}`);
    return otherwise;
  };
  const below = (size) => (value) => /^\d+$/.test(value) && Number(value) < size;
  const found = {
    weights,
    when: one("when", (value) => ["along", "end", "reach"].includes(value), "end"),
    step: Number(one("step", below(horizon), 0)),
    start: Number(one("start", (value) => value === String(home) || below(states)(value), home)),
  };
  return { found, misfits };
}

// A message about the parts that do not fit.
export function misfitText(misfits) {
  const listed = misfits.slice(0, MAX_PARTS).map((part) => (part.length > MAX_LENGTH ? `${part.slice(0, MAX_LENGTH)}…` : part));
  const rest = misfits.length - listed.length;
  return `Parts of the link do not fit this run and were left out: ${listed.join(", ")}${rest ? ` and ${rest} more` : ""}.`;
}
