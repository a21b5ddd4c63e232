// A painted reward as the fragment of a link: #when=end&paint=12,20-27x-0.5&avoid=3,5-8&bound=0.01&step=3&start=5

const MAX_PARTS = 5; // in a message
const MAX_LENGTH = 24; // characters of each
export const BOUND = 0.05; // until another is given

// Runs of states with one weight, written "from-to x weight"; weight 1 and runs of one state are written short.
function runsOf(weights) {
  const runs = [];
  for (let s = 0; s < weights.length; s++) {
    if (weights[s] === 0) continue;
    let end = s;
    while (end + 1 < weights.length && weights[end + 1] === weights[s]) end++;
    runs.push((end > s ? `${s}-${end}` : `${s}`) + (weights[s] === 1 ? "" : `x${weights[s]}`));
    s = end;
  }
  return runs.join(",");
}

export function write({ weights, when, avoid, bound, step, start }, home) {
  const parts = [`when=${when}`, `paint=${runsOf(weights)}`];
  if (avoid.includes(1)) parts.push(`avoid=${runsOf(avoid)}`, `bound=${bound}`);
  if (step) parts.push(`step=${step}`);
  if (start !== home) parts.push(`start=${start}`);
  return "#" + parts.join("&");
}

// The painting in a fragment, or null, and the parts of it that do not fit the problem.
export function read(fragment, { states, horizon, start: home, bound_refusal }) {
  const text = fragment.replace(/^#/, "");
  const given = new URLSearchParams(text);
  if (!given.has("paint")) return { found: null, misfits: text ? [text] : [] };
  const misfits = [];
  const filled = (text, isFit, prefix) => {
    const found = new Float64Array(states);
    for (const run of (text ?? "").split(",").filter(Boolean)) {
      const parts = /^(\d+)(?:-(\d+))?(?:x(-?\d*\.?\d+(?:e-\d+)?))?$/.exec(run) ?? [];
      const first = Number(parts[1]), last = Number(parts[2] ?? parts[1]), weight = Number(parts[3] ?? 1);
      if (first <= last && last < states && isFit(weight)) found.fill(weight, first, last + 1);
      else misfits.push(prefix + run);
    }
    return found;
  };
  const one = (name, isFit, otherwise) => {
    const value = given.get(name);
    if (value === null) return otherwise;
    if (isFit(value)) return value;
    misfits.push(`${name}=${value}`);
    return otherwise;
  };
  const below = (size) => (value) => /^\d+$/.test(value) && Number(value) < size;
  const isBound = (value) => bound_refusal === null && /^\d*\.?\d+(?:e-\d+)?$/.test(value) && Number(value) <= 1;
  const found = {
    weights: filled(given.get("paint"), (weight) => Math.abs(weight) <= 1, ""),
    avoid: filled(given.get("avoid"), (mark) => mark === 1 && bound_refusal === null, "avoid="),
    bound: Number(one("bound", isBound, BOUND)),
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
