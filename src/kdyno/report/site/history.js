// SPDX-License-Identifier: MIT
// Words at a point of a history, by pointer and by arrow keys. Stands behind frame.js.

const site = JSON.parse(document.getElementById("site-data").textContent);
const shape = { height: 240, edge: 14 }; // as in charts/history.py
const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
const cursor = document.createElement("div");
cursor.className = "cursor";
document.body.append(tip);

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
const leave = () => {
  tip.hidden = true;
  cursor.remove();
};
for (const svg of document.querySelectorAll(".strip")) {
  const series = site.series[svg.closest(".panel").dataset.series];
  let chosen = null;
  const point = (at) => {
    chosen = at;
    const { x, y } = place(series, at);
    svg.parentElement.append(cursor);
    const box = svg.getBoundingClientRect();
    cursor.style.left = `${x * box.width}px`;
    cursor.style.top = `${y * box.height}px`;
    tip.textContent = told(series, at);
    tip.hidden = false;
    const left = Math.min(box.left + x * box.width, root.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left - 20)}px`;
    const above = box.top + y * box.height - tip.offsetHeight - 14;
    tip.style.top = `${above > 4 ? above : box.bottom + 6}px`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * series.points.length);
    point(Math.max(0, Math.min(series.points.length - 1, at)));
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const last = series.points.length - 1;
    const now = chosen ?? (event.key === "ArrowLeft" ? last + 1 : -1);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") leave();
    if (next === undefined) return;
    event.preventDefault();
    point(Math.max(0, Math.min(last, next)));
  });
}
addEventListener("scroll", leave, { passive: true });
