// Numbers for people.

export const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
export const most = (numbers) => numbers.reduce((a, b) => Math.max(a, b), -Infinity);
export const least = (numbers) => numbers.reduce((a, b) => Math.min(a, b), Infinity);

// A number for people: three digits, no exponents.
export function number(x) {
  if (x > 0 && x < 1e-6) return "under 0.000001";
  if (Number.isInteger(x)) return String(x);
  return x < 0.001 ? x.toFixed(6).replace(/0+$/, "") : x.toPrecision(3);
}

// A bound for people: rounded up, so that what is said stays true.
export function bound(x) {
  if (x < 1e-6) return "0.000001";
  const unit = 10 ** Math.max(-6, Math.floor(Math.log10(x)) - 2);
  return number(Math.min(1, Math.ceil(x / unit - 1e-9) * unit));
}
