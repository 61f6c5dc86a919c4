// SPDX-License-Identifier: MIT
// Words at a point of a history, by pointer and by arrow keys. Stands behind tip.js.

const site = JSON.parse(document.getElementById("site-data").textContent);
const shape = { height: 240, edge: 14 }; // as in charts/panels.py
const figure = (series, value) =>
  series.unit ? `${value.toLocaleString("en", { maximumSignificantDigits: 5 })} ${series.unit}` : `×${value.toFixed(4)}`;
const told = (series, at) => {
  const [run, value, low, high, kernel] = series.points[at];
  const [name, when] = site.runs[run];
  const span = low === null ? "" : ` (${figure(series, low)} … ${figure(series, high)})`;
  const version = site.kernels[kernel] ? `, kernel ${site.kernels[kernel]}` : "";
  return `${when} UTC${version}: ${figure(series, value)}${span}; ${name}`;
};
const place = (series, at) => {
  const span = series.high - series.low || 1;
  const inner = shape.height - 2 * shape.edge;
  return {
    x: (at + 0.5) / series.points.length,
    y: (shape.height - shape.edge - ((series.points[at][1] - series.low) / span) * inner) / shape.height,
  };
};
for (const svg of document.querySelectorAll(".strip")) {
  const series = site.series[svg.closest(".panel").dataset.series];
  let chosen = null;
  const point = (at) => {
    chosen = at;
    const { x, y } = place(series, at);
    showTip(svg, x, y, told(series, at));
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * series.points.length);
    point(Math.max(0, Math.min(series.points.length - 1, at)));
  });
  svg.addEventListener("pointerleave", hideTip);
  svg.addEventListener("blur", hideTip);
  svg.addEventListener("keydown", (event) => {
    const last = series.points.length - 1;
    const now = chosen ?? (event.key === "ArrowLeft" ? last + 1 : -1);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") hideTip();
    if (next === undefined) return;
    event.preventDefault();
    point(Math.max(0, Math.min(last, next)));
  });
}
