// The map: states as cells on a canvas. It draws a view and reports painted cells.

import { stateName } from "./text.js";

const ARROWS = {
  up: [0, -1], right: [1, 0], down: [0, 1], left: [-1, 0],
  north: [0, -1], east: [1, 0], south: [0, 1], west: [-1, 0],
};
const MIN_ARROW_SIZE = 13; // pixels of a cell with an arrow
const MIN_SHARE = 0.05; // probability of an action that is drawn
const MOVES = { ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowDown: [0, 1], ArrowLeft: [-1, 0] };

export function makeBoard(canvas, problem, events) {
  const { cells, actions, start, reachable } = problem;
  const [columns, lines] = cells.reduce(([a, b], [x, y]) => [Math.max(a, x + 1), Math.max(b, y + 1)], [1, 1]);
  const stateAt = new Int32Array(columns * lines).fill(-1);
  cells.forEach(([x, y], s) => (stateAt[y * columns + x] = s));
  const context = canvas.getContext("2d");
  let size = 0, tall = 0, cursor = start < 0 ? reachable[0] : start, last = null, shown = null, colors = palette();

  function fit() {
    const room = canvas.parentElement.clientWidth;
    const height = Math.max(240, window.innerHeight * 0.74);
    size = Math.max(2, Math.floor(Math.min(room / columns, height / lines, 96)));
    tall = lines > 1 ? size : Math.floor(Math.max(size, Math.min(height * 0.4, 260))); // a chain is drawn as columns
    const ratio = window.devicePixelRatio || 1;
    canvas.style.width = `${size * columns}px`;
    canvas.style.height = `${tall * lines}px`;
    canvas.width = size * columns * ratio;
    canvas.height = tall * lines * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (shown) draw(shown);
  }

  function draw(view) {
    shown = view;
    context.clearRect(0, 0, size * columns, tall * lines);
    const gap = size > 6 ? 1 : 0;
    cells.forEach(([x, y], s) => {
      const share = view.shade(s);
      fill(x, y, share, gap);
      if (view.avoid[s]) hatch(x, y, gap);
      if (view.weights[s] !== 0) paint(x, y, view.weights[s]);
      if (!view.policy || size < MIN_ARROW_SIZE || !view.matters(s)) return;
      const drawn = view.draws.get(s)?.filter(([a]) => actions[a] in ARROWS || a === view.policy[s]); // one name at most
      for (const [a, p] of drawn ?? [[view.policy[s], 1]]) action(x, y, actions[a], share, p);
    });
    view.starts.forEach((s) => mark(cells[s], 0.43, colors.ink));
    if (view.path) trail(view.path, view.at);
    if (document.activeElement === canvas) {
      const [x, y] = cells[cursor];
      context.strokeStyle = colors.ink;
      context.lineWidth = 2;
      context.setLineDash([4, 3]);
      context.strokeRect(x * size + 1.5, y * tall + 1.5, size - 4, tall - 4);
      context.setLineDash([]);
    }
  }

  // A cell in its shade; for a chain, a column whose height is the share as well.
  function fill(x, y, share, gap) {
    const rise = lines > 1 ? tall - gap : Math.round(share * (tall - gap));
    context.fillStyle = colors.cell;
    context.fillRect(x * size, y * tall, size - gap, tall - gap);
    context.fillStyle = mix(colors.cell, colors.accent, share);
    context.fillRect(x * size, (y + 1) * tall - gap - rise, size - gap, rise);
  }

  // Oblique lines over a state to be avoided.
  function hatch(x, y, gap) {
    const wide = size - gap, high = tall - gap, distance = Math.max(3, size / 4);
    context.save();
    context.beginPath();
    context.rect(x * size, y * tall, wide, high);
    context.clip();
    context.strokeStyle = colors.bad;
    context.globalAlpha = 0.6; // arrows and names stay legible
    context.lineWidth = Math.max(1, size * 0.04);
    context.beginPath();
    for (let at = distance / 2; at < wide + high; at += distance) {
      context.moveTo(x * size + at, y * tall);
      context.lineTo(x * size + at - high, y * tall + high);
    }
    context.stroke();
    context.restore();
  }

  // A frame, dashed for costs, with the weight unless it is 1.
  function paint(x, y, weight) {
    const width = Math.max(1.5, size * 0.11), color = weight < 0 ? colors.bad : colors.warm;
    context.globalAlpha = 0.35 + 0.65 * Math.abs(weight);
    context.strokeStyle = color;
    context.lineWidth = width;
    if (weight < 0) context.setLineDash([1.6 * width, width]);
    context.strokeRect(x * size + width / 2, y * tall + width / 2, size - 1 - width, tall - 1 - width);
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (weight < 1 && size >= 30) {
      const w = size * 0.44, h = size * 0.25;
      context.fillStyle = color;
      context.fillRect((x + 1) * size - 1 - w, (y + 1) * tall - 1 - h, w, h);
      context.fillStyle = colors.on;
      context.font = `${Math.round(size * 0.19)}px system-ui, sans-serif`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(String(weight).replace("-", "−"), (x + 1) * size - 1 - w / 2, (y + 1) * tall - 1 - h / 2);
    }
  }

  // An action; those that are drawn with a probability p are small arrows beside the middle, the fainter the rarer.
  function action(x, y, name, share, p) {
    if (p < MIN_SHARE) return;
    const isDrawn = p <= 1 - MIN_SHARE;
    context.globalAlpha = isDrawn ? 0.35 + 0.65 * p : 1;
    act(x, y, name, share, isDrawn);
    context.globalAlpha = 1;
  }

  function act(x, y, name, share, isDrawn) {
    let cx = (x + 0.5) * size - 0.5, cy = (y + 0.5) * tall - 0.5;
    context.fillStyle = context.strokeStyle = share > 0.55 ? colors.on : colors.ink;
    const move = ARROWS[name];
    if (!move) {
      context.font = `${Math.min(14, Math.round(size * 0.32))}px system-ui, sans-serif`;
      const isWide = context.measureText(name).width > 0.7 * size; // it must fit into the ring of a start
      const text = isWide ? name.split(" ").pop().slice(0, size > 34 ? 4 : 2) : name;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(text, cx, cy);
      return;
    }
    const [dx, dy] = move, r = size * (isDrawn ? 0.15 : 0.26), w = size * (isDrawn ? 0.1 : 0.13);
    if (isDrawn) [cx, cy] = [cx + dx * 0.21 * size, cy + dy * 0.21 * size];
    context.lineWidth = Math.max(1, size * 0.045);
    context.beginPath();
    context.moveTo(cx - dx * r, cy - dy * r);
    context.lineTo(cx + dx * (r - w), cy + dy * (r - w));
    context.stroke();
    context.beginPath();
    context.moveTo(cx + dx * r, cy + dy * r);
    context.lineTo(cx + dx * (r - 1.5 * w) + dy * w, cy + dy * (r - 1.5 * w) + dx * w);
    context.lineTo(cx + dx * (r - 1.5 * w) - dy * w, cy + dy * (r - 1.5 * w) - dx * w);
    context.fill();
  }

  function mark([x, y], radius, color) {
    context.strokeStyle = color;
    context.lineWidth = Math.max(1, size * 0.035);
    context.beginPath();
    context.arc((x + 0.5) * size - 0.5, (y + 0.5) * tall - 0.5, size * radius, 0, 2 * Math.PI);
    context.stroke();
  }

  // The states passed so far and the agent, at a position that may lie between two steps.
  function trail(path, at) {
    const h = Math.floor(at), rest = at - h;
    const middle = (s) => [(cells[s][0] + 0.5) * size - 0.5, (cells[s][1] + 0.5) * tall - 0.5];
    const [ax, ay] = middle(path[h]), [bx, by] = middle(path[Math.min(h + 1, path.length - 1)]);
    const x = ax + rest * (bx - ax), y = ay + rest * (by - ay);
    context.strokeStyle = colors.warm;
    context.globalAlpha = 0.85;
    context.lineWidth = Math.max(1.5, size * 0.08);
    context.lineJoin = "round";
    context.beginPath();
    path.slice(0, h + 1).forEach((s) => context.lineTo(...middle(s)));
    context.lineTo(x, y);
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = colors.warm;
    context.strokeStyle = colors.on;
    context.beginPath();
    context.arc(x, y, Math.max(2, size * 0.2), 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }

  function cellOf(event) {
    const box = canvas.getBoundingClientRect();
    return [Math.floor((event.clientX - box.left) / size), Math.floor((event.clientY - box.top) / tall)];
  }
  const state = ([x, y]) => (x >= 0 && y >= 0 && x < columns && y < lines ? stateAt[y * columns + x] : -1);

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    last = cellOf(event);
    const s = state(last);
    events.look(s);
    events.begin(s);
    if (s >= 0) events.paint((cursor = s));
  });
  canvas.addEventListener("pointermove", (event) => {
    const cell = cellOf(event), s = state(cell);
    events.look(s);
    if (!last) return;
    // A fast pointer skips cells: paint every cell on the line from the last one.
    const n = Math.max(Math.abs(cell[0] - last[0]), Math.abs(cell[1] - last[1]));
    for (let i = 1; i <= n; i++) {
      const between = state([0, 1].map((k) => Math.round(last[k] + (i / n) * (cell[k] - last[k]))));
      if (between >= 0) events.paint((cursor = between));
    }
    last = cell;
  });
  const finish = () => {
    if (last) events.end();
    last = null;
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", finish);
  canvas.addEventListener("pointerleave", () => last || events.look(-1));

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = MOVES[event.key];
    if (move) {
      const next = nextState(move);
      if (next >= 0) cursor = next;
      if (event.shiftKey) events.stroke([cursor]);
      events.say(cursor);
    } else if (event.key === " " || event.key === "Enter") {
      events.toggle(cursor);
      events.say(cursor);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      events.erase(cursor);
      events.say(cursor);
    } else return;
    event.preventDefault();
    draw(shown);
  });

  // The next state in a direction, across walls and gaps.
  function nextState([dx, dy]) {
    let [x, y] = cells[cursor];
    for (;;) {
      [x, y] = [x + dx, y + dy];
      if (x < 0 || y < 0 || x >= columns || y >= lines) return -1;
      if (stateAt[y * columns + x] >= 0) return stateAt[y * columns + x];
    }
  }

  canvas.addEventListener("focus", () => shown && draw(shown));
  canvas.addEventListener("blur", () => shown && draw(shown));
  new ResizeObserver(fit).observe(canvas.parentElement);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colors = palette();
    if (shown) draw(shown);
  });
  fit();
  const cell = (s) => `cell (${cells[s][0]}, ${cells[s][1]})`;
  return { draw, place: (s) => (lines > 1 && !problem.names ? cell(s) : stateName(problem, s)) };
}

function palette() {
  const css = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ink", "cell", "accent", "warm", "bad", "on"].map((x) => [x, css.getPropertyValue(`--${x}`).trim()]));
}

function mix(from, to, share) {
  const channel = (color, i) => parseInt(color.slice(1 + 2 * i, 3 + 2 * i), 16);
  const part = [0, 1, 2].map((i) => Math.round(channel(from, i) + share * (channel(to, i) - channel(from, i))));
  return `rgb(${part.join(" ")})`;
}
