// States without cells: one row each, in pages.

import { number, stateName } from "./text.js";

const PAGE_ROWS = 100;

export function makeTable(list, problem, events) {
  let first = 0, view = null;
  const inputs = [];
  const $ = (id) => list.querySelector(`#${id}`);
  $("pager").hidden = problem.states <= PAGE_ROWS;

  function build() {
    const end = Math.min(first + PAGE_ROWS, problem.states);
    inputs.length = 0;
    $("rows").replaceChildren(...Array.from({ length: end - first }, (_, i) => row(first + i)));
    $("range").textContent = `states ${first} to ${end - 1} of ${problem.states}`;
    $("previous").disabled = first === 0;
    $("next").disabled = end === problem.states;
    if (view) draw(view);
  }

  function row(s) {
    const line = document.createElement("tr");
    const input = Object.assign(document.createElement("input"), { type: "number", min: -1, max: 1, step: 0.05 });
    input.setAttribute("aria-label", `reward of ${stateName(problem, s)}`);
    input.onchange = () => {
      const weight = Number(input.value);
      if (weight >= -1 && weight <= 1) events.set(s, weight);
      else {
        events.refuse(`The reward of ${stateName(problem, s)} must lie between -1 and 1.`);
        input.value = view.weights[s];
      }
    };
    const mark = Object.assign(document.createElement("input"), { type: "checkbox", disabled: problem.bound_refusal !== null });
    mark.setAttribute("aria-label", `avoid ${stateName(problem, s)}`);
    mark.onchange = () => events.mark(s, mark.checked);
    const cells = [problem.names ? stateName(problem, s) : s, input, mark, "", ""].map((content) => {
      const cell = document.createElement("td");
      cell.append(content);
      return cell;
    });
    cells[3].className = "value";
    line.append(...cells);
    inputs.push({ s, line, input, mark, value: cells[3], action: cells[4] });
    return line;
  }

  function draw(now) {
    view = now;
    for (const { s, line, input, mark, value, action } of inputs) {
      mark.checked = now.avoid[s] === 1;
      if (document.activeElement !== input || Number(input.value) !== now.weights[s]) input.value = now.weights[s];
      line.classList.toggle("start", now.starts.includes(s));
      line.classList.toggle("agent", Boolean(now.path) && now.path[Math.floor(now.at)] === s);
      value.textContent = now.values ? number(now.values[s]) : "";
      value.style.setProperty("--share", `${100 * now.shade(s)}%`);
      action.textContent = now.policy && now.matters(s) ? now.action(s) : "";
    }
  }

  $("previous").onclick = () => build((first -= PAGE_ROWS));
  $("next").onclick = () => build((first += PAGE_ROWS));
  build();
  return { draw, place: (s) => stateName(problem, s) };
}
