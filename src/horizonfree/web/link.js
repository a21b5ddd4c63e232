// A painted reward as the fragment of a link: #when=end&paint=12,20-27x0.5&step=3&start=5

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

// What a fragment says, null if it says nothing; what does not fit the problem is left out.
export function read(fragment, { states, horizon, start: home }) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!given.has("paint")) return null;
  const weights = new Float64Array(states);
  for (const run of given.get("paint").split(",")) {
    const found = /^(\d+)(?:-(\d+))?(?:x(\d*\.?\d+))?$/.exec(run);
    if (!found) continue;
    const weight = found[3] === undefined ? 1 : Number(found[3]);
    const last = Math.min(Number(found[2] ?? found[1]), states - 1);
    if (weight >= 0 && weight <= 1) for (let s = Number(found[1]); s <= last; s++) weights[s] = weight;
  }
  const whole = (name, size, otherwise) => {
    const text = given.get(name) ?? "";
    return /^\d+$/.test(text) && Number(text) < size ? Number(text) : otherwise;
  };
  return {
    weights,
    when: given.get("when") === "along" ? "along" : "end",
    step: whole("step", horizon, 0),
    start: whole("start", states, home),
  };
}
