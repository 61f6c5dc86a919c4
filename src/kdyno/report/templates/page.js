// SPDX-License-Identifier: MIT
"use strict";
// What a report does beyond frame.js and tip.js, which stand before this: words at a point, saving files.

const run = JSON.parse(document.getElementById("run-data").textContent);

// Words at a point of a panel, by pointer and by arrow keys.
const shape = { height: 240, edge: 14 }; // as in charts/panels.py
const pointsOf = (panel) => {
  if (panel.points) return panel.points;
  const scores = run.scores[panel.dataset.case];
  const arms = panel.dataset.arms.split(",").map(Number);
  const found = [];
  run.boots.forEach((boot, position) => {
    if (arms.includes(boot[2]) && scores[position] !== null) found.push({ boot, position, score: scores[position] });
  });
  const all = found.map((point) => point.score);
  const low = all.reduce((a, b) => Math.min(a, b));
  const span = all.reduce((a, b) => Math.max(a, b)) - low || 1;
  for (const point of found) {
    point.x = (point.position + 0.5) / run.boots.length;
    point.y = (shape.height - shape.edge - ((point.score - low) / span) * (shape.height - 2 * shape.edge)) / shape.height;
  }
  return (panel.points = found);
};
const told = (panel, point) => {
  const [index, block, variant, started, kinds] = point.boot;
  const unit = run.cases[panel.dataset.case][2];
  const disturbed = kinds.length ? `; flagged: ${kinds.map((kind) => run.kinds[kind]).join(", ")}` : "";
  const score = point.score.toLocaleString(undefined, { maximumSignificantDigits: 5 });
  return `${run.variants[variant]}: ${score} ${unit}; boot ${index}, block ${block}, ${started.slice(11, 19)} UTC${disturbed}`;
};
for (const svg of document.querySelectorAll(".strip")) {
  const panel = svg.closest(".panel");
  const nearest = (event, box) => {
    let best = 0;
    let least = Infinity;
    pointsOf(panel).forEach((each, i) => {
      const away = Math.hypot(box.left + each.x * box.width - event.clientX, box.top + each.y * box.height - event.clientY);
      if (away < least) [best, least] = [i, away];
    });
    return best;
  };
  const last = () => pointsOf(panel).length - 1;
  pointer(svg, nearest, last, (at) => {
    const point = pointsOf(panel)[at];
    return [point.x, point.y, told(panel, point)];
  });
}

// Saving.
const save = (name, text, kind) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
// Spreadsheets run what begins like a formula; an apostrophe makes it text.
const field = (value) => {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const samplesCsv = () => {
  const lines = ["run,suite,case,unit,better,variant,boot,block,started_at,disturbed,score"];
  run.cases.forEach((about, i) => {
    run.boots.forEach(([index, block, variant, started, kinds], position) => {
      const score = run.scores[i][position];
      if (score === null) return;
      const disturbed = kinds.map((kind) => run.kinds[kind]).join(" ");
      const [suite, name, unit, better] = about;
      const row = [run.run, suite, name, unit, better, run.variants[variant], index, block, started, disturbed, score];
      lines.push(row.map(field).join(","));
    });
  });
  return `${lines.join("\n")}\n`;
};
document
  .querySelector("[data-samples]")
  ?.addEventListener("click", () => save(`${run.run}-samples.csv`, samplesCsv(), "text/csv"));
for (const button of document.querySelectorAll("[data-save]")) {
  const source = document.getElementById(button.dataset.of);
  button.addEventListener("click", () => save(button.dataset.save, `${source.textContent}\n`, "text/plain"));
}

// Paper has no clicks: all that is folded away is printed.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
