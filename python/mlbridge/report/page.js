"use strict";
// Text takes the page's color, so that light and dark need no other chart.
const text = "currentColor";
const named = { labelColor: text, titleColor: text, labelLimit: 260, titleFontWeight: 500 };
const config = {
  background: null,
  font: "system-ui, sans-serif",
  view: { stroke: null },
  axis: { ...named, domainColor: "#888", tickColor: "#888", gridColor: "#88888850", labelOverlap: "greedy", labelSeparation: 6 },
  legend: { ...named, orient: "top" },
  title: { color: text },
};

for (const data of document.querySelectorAll("script[data-chart]")) {
  const place = document.getElementById(data.dataset.chart);
  vegaEmbed(place, JSON.parse(data.textContent), { actions: false, ast: true, config, renderer: "svg" })
    .catch((error) => { place.textContent = `The chart can't be drawn: ${error.message}`; throw error; });
}

// A click on a column's name sorts by it, the next one the other way round.
const key = (row, at) => {
  const cell = row.cells[at], exact = cell.querySelector("data");
  return exact ? Number(exact.value) : cell.textContent;
};
const compare = (a, b) => {
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return typeof a === "number" ? a - b : a.localeCompare(b);
};
for (const head of document.querySelectorAll("thead th")) {
  head.querySelector("button").addEventListener("click", () => {
    const body = head.closest("table").tBodies[0];
    const sign = head.ariaSort === "descending" ? 1 : -1;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const at = head.cellIndex;
    body.append(...[...body.rows].sort((a, b) => sign * compare(key(a, at), key(b, at))));
  });
}
