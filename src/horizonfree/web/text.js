// Numbers and texts.

export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
export const max = (numbers) => numbers.reduce((a, b) => Math.max(a, b), -Infinity);
export const min = (numbers) => numbers.reduce((a, b) => Math.min(a, b), Infinity);

// A number with three digits and without an exponent.
export function number(x) {
  if (x < 0) return `-${number(-x)}`;
  if (x > 0 && x < 1e-6) return "under 0.000001";
  if (Number.isInteger(x)) return String(x);
  return x < 0.001 ? x.toFixed(6).replace(/0+$/, "") : x.toPrecision(3);
}

// Two numbers with enough digits to differ, up to eight.
export function distinct(low, high) {
  for (let digits = 4; digits < 9 && number(low) === number(high); digits++) {
    const [from, to] = [low, high].map((x) => x.toPrecision(digits));
    if (from !== to) return [from, to];
  }
  return [number(low), number(high)];
}

// A bound, rounded up; tiny ones with an exponent.
export function bound(x, largest = 1) {
  if (x <= 0) return "0";
  const digit = Math.floor(Math.log10(x)) - 2;
  const unit = 10 ** (x < 1e-6 ? digit : Math.max(-6, digit));
  const above = Math.min(largest, Math.ceil(x / unit - 1e-9) * unit);
  return x < 1e-6 ? String(Number(above.toPrecision(3))) : number(above);
}

// A confidence interval, rounded outwards to two digits of its width.
export function interval(low, high) {
  const digits = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(Math.max(high - low, 1e-6)))));
  const unit = 10 ** digits;
  const below = Math.floor(low * unit + 1e-9) / unit, above = Math.ceil(high * unit - 1e-9) / unit;
  const ends = [below, above].map((x) => x + 0).map((x) => (Number.isInteger(x) ? String(x) : x.toFixed(digits)));
  return `[${ends.join(", ")}]`;
}

// What the posterior says of a plan; null where there is none.
export const likely = (found) =>
  found === null
    ? "\u00a0"
    : `Likely: value in ${interval(found.low, found.high)}, suboptimality at most ${number(found.gap)}, ` +
      `with posterior probability ${found.level} (${found.label}).`;

// The bound for many rewards.
export const boundText = (name, { eps, is_vacuous }) =>
  is_vacuous ? `${name}: nothing is certified yet.` : `${name}: suboptimality at most ${bound(eps)}.`;

// The name of a state.
export const stateName = ({ names }, s) => (names ? names[s] : `state ${s}`);

// The source of the episodes.
export function origin({ episodes, is_logged, explorer, uses_reward }) {
  if (is_logged) return `${count(episodes, "logged episode")}.`;
  const mode = uses_reward ? "for one reward" : "without a reward";
  return `${count(episodes, "episode")} ${mode}. Explorer: ${explorer}.`;
}
