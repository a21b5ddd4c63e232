"use strict";
// A box that is not ticked hides its setting in every figure and table.
for (const box of document.querySelectorAll("input[data-setting]")) {
  const show = () => {
    for (const part of document.querySelectorAll(".setting-" + box.dataset.setting)) {
      part.classList.toggle("is-hidden", !box.checked);
    }
  };
  box.addEventListener("change", show);
  show(); // browsers remember what was ticked
}
// A click on the title of a column sorts by it, a second one the other way round; what is no number comes last.
for (const table of document.querySelectorAll("table.sortable")) {
  const titles = [...table.querySelectorAll("th")];
  titles.forEach((title, column) => title.addEventListener("click", () => {
    const isUp = title.getAttribute("aria-sort") !== "ascending";
    titles.forEach((other) => other.removeAttribute("aria-sort"));
    title.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const value = (row) => {
      const cell = row.cells[column];
      return column === 0 ? cell.textContent : parseFloat(cell.dataset.value);
    };
    const compare = (a, b) => {
      const x = value(a), y = value(b);
      if (column === 0) return isUp ? x.localeCompare(y) : y.localeCompare(x);
      if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);
      return isUp ? x - y : y - x;
    };
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(compare));
  }));
}
