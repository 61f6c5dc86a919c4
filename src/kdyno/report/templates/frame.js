// SPDX-License-Identifier: MIT
"use strict";
// What every page does: theme, sorting, filtering.
// All text goes in by textContent; nothing here ever makes markup from what a run holds.

const root = document.documentElement;
root.dataset.script = "";

// Theme: the system's, until the switch was used; then that, on this machine.
const theme = document.getElementById("theme");
const stored = (value) => {
  try {
    if (value) localStorage.setItem("kdyno-theme", value);
    return localStorage.getItem("kdyno-theme");
  } catch {
    return null; // storage may be off for files
  }
};
const isDark = () =>
  root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
if (["dark", "light"].includes(stored())) root.dataset.theme = stored();
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  stored(root.dataset.theme);
  showTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
showTheme();

// Sorting. Numbers first come largest on top; cells without a figure stay at the end.
const sortKey = (row, column) => {
  const cell = row.cells[column];
  const key = cell.dataset.v ?? cell.textContent.trim();
  if (cell.classList.contains("number")) return cell.dataset.v === undefined ? null : Number(key);
  return key === "" ? null : key;
};
const words = new Intl.Collator(undefined, { numeric: true });
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const order = before === first ? other : first;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [sortKey(row, column), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (typeof a === "number" ? a - b : words.compare(a, b));
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}

// Filtering of table rows and of panels.
for (const form of document.querySelectorAll(".filters")) {
  const target = document.getElementById(form.dataset.for);
  const items = target.tBodies ? [...target.tBodies[0].rows] : [...target.children];
  const texts = items.map((item) => (item.tagName === "TR" ? item : item.firstElementChild).textContent.toLowerCase());
  const search = form.querySelector("[data-search]");
  const choices = [...form.querySelectorAll("[data-facet]")];
  const apply = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    items.forEach((item, i) => {
      const fits =
        wanted.every((word) => texts[i].includes(word)) &&
        choices.every((choice) => !choice.value || item.getAttribute(`data-f-${choice.dataset.facet}`) === choice.value);
      item.hidden = !fits;
      shown += fits;
    });
    form.querySelector("output").textContent = `${shown} of ${items.length}`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
}
