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
  const y = shape.height - shape.edge - ((series.points[at][1] - series.low) / span) * inner;
  return [(at + 0.5) / series.points.length, y / shape.height];
};
for (const svg of document.querySelectorAll(".strip")) {
  const series = site.series[svg.closest(".panel").dataset.series];
  const nearest = (event, box) => Math.floor(((event.clientX - box.left) / box.width) * series.points.length);
  const last = () => series.points.length - 1;
  pointer(svg, nearest, last, (at) => [...place(series, at), told(series, at)]);
}
