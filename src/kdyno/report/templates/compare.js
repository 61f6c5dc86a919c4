// SPDX-License-Identifier: MIT
// Two runs beside each other: their medians, and what each found by itself. Whether they differ is
// said by one rule, that of `kdyno compare`, whose command is shown. Comes after frame.js.

const site = JSON.parse(document.getElementById("site-data").textContent);
const memoryTolerance = 0.02;
const mostShown = 2000;
const minus = "\u2212";

const chosenRun = (side) => site.runs[document.getElementById(`run-${side}`).selectedIndex];
const chosenVariant = (side) => document.getElementById(`variant-${side}`).selectedIndex;

const signed = (fraction) => {
  const value = 100 * fraction;
  const places = Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0;
  const text = Math.abs(value).toFixed(places);
  const sign = Number(text) === 0 ? "" : value < 0 ? minus : "+";
  return `${sign}${text}`;
};
const effect = (ratio) => (ratio >= 10 ? `×${ratio.toPrecision(3)}` : `${signed(ratio - 1)} %`);
const interval = (low, high) =>
  high >= 10 ? `×${low.toPrecision(3)} … ×${high.toPrecision(3)}` : `${signed(low - 1)} … ${signed(high - 1)} %`;
const amount = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });

const element = (name, text, kind) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
};
const isolated = (text) => element("bdi", text);

// Why the two cannot be compared; "" when they can.
const refusal = (a, b, va, vb) => {
  if (a === b && va === vb) return "Both sides are the same: choose another run or variant.";
  if (a === b) return "Both are variants of one run, which were measured together: its report has their verdict.";
  if (a.kind !== b.kind)
    return `A was measured on the machine kind ${a.kind}, B on ${b.kind}: their figures have nothing in common.`;
  const most = Math.max(a.memory ?? 0, b.memory ?? 0);
  const memory = (a.memory === null) !== (b.memory === null) || Math.abs(a.memory - b.memory) > memoryTolerance * most;
  if (a.key !== b.key || memory)
    return `Not compared: these runs come from different machines (${a.machine}; ${b.machine}, or another guest). Kernels are compared on one machine.`;
  return "";
};

const scoresOf = (run, variant) => new Map(run.scores.filter((it) => it[1] === variant).map((it) => [it[0], it]));

const cell = (content, kind, key) => {
  const made = element("td", undefined, kind);
  made.append(content);
  if (key !== undefined && key !== null) made.dataset.v = key;
  return made;
};
const own = (score) => {
  if (score[7] === null) return cell("");
  const word = site.words[score[10]] ?? "";
  const span = score[8] === null ? "" : ` (${interval(score[8], score[9])})`;
  return cell(element("span", `${effect(score[7])} ${word}${span}`, `effect ${word}`));
};

const row = (at, x, y) => {
  const [suite, name, unit, better] = site.cases[at];
  const made = element("tr");
  const head = element("th");
  head.scope = "row";
  head.append(isolated(name), element("small", `${suite}${better === "lower" ? "; lower is better" : ""}`));
  head.dataset.v = `${suite}/${name}`;
  const ratio = y[4] / x[4];
  made.append(
    head,
    cell(`${amount(x[4])} ${unit}`, "number", x[4]),
    cell(`${amount(y[4])} ${unit}`, "number", y[4]),
    cell(effect(ratio), "number effect", ratio),
    own(x),
    own(y),
  );
  return made;
};

// The command that judges the two; "" where no single one names both variants.
const judged = (a, b, va, vb, left) => {
  const [mine, theirs] = [a.variants[va], b.variants[vb]];
  if (mine !== theirs && (va || vb)) return "";
  const quoted = (text) => (/^[\w.@%+:,\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const which = va || vb ? ["--variant", mine] : [];
  return ["kdyno", "compare", a.name, b.name, ...which, ...(left ? ["--common"] : [])].map(quoted).join(" ");
};

const shown = () => {
  const [a, b] = [chosenRun("a"), chosenRun("b")];
  const [va, vb] = [chosenVariant("a"), chosenVariant("b")];
  const refused = document.getElementById("refused");
  const result = document.getElementById("result");
  const notes = document.getElementById("notes");
  const body = document.getElementById("compare-table").tBodies[0];
  const [sa, sb] = [scoresOf(a, va), scoresOf(b, vb)];
  const shared = [...sa.keys()].filter((at) => sb.has(at));
  const alike = shared.filter((at) => sa.get(at)[2] === sb.get(at)[2]);
  let why = refusal(a, b, va, vb);
  if (!why && !alike.length) why = "The two have no case in common that did the same work, so there is nothing to compare.";
  refused.hidden = !why;
  refused.textContent = why;
  result.hidden = Boolean(why);
  body.replaceChildren(...(why ? [] : alike.slice(0, mostShown).map((at) => row(at, sa.get(at), sb.get(at)))));
  for (const head of document.querySelectorAll("#compare-table [aria-sort]")) head.removeAttribute("aria-sort");
  const said = [];
  if (!why) {
    said.push("Measured one after the other: drift between the runs is in these figures, and B ÷ A of two medians has no interval. A verdict needs one run of both kernels, or three alternating runs of each.");
    if (a.kernels[va][1] && a.kernels[va][1] === b.kernels[vb][1])
      said.push("Both are one and the same kernel: what differs is the machine or the time.");
    if (alike.length > mostShown)
      said.push(`These are the first ${mostShown} of ${alike.length} cases; kdyno compare A B -f csv has all.`);
    const both = new Set(alike);
    const left = new Set([...sa.keys(), ...sb.keys()].filter((at) => !both.has(at)));
    if (left.size) {
      const names = [...left].slice(0, 6).map((at) => site.cases[at].slice(0, 2).join("/"));
      said.push(`Compared are the common cases only; left out: ${names.join(", ")}${left.size > 6 ? ` and ${left.size - 6} more` : ""}.`);
    }
  }
  notes.replaceChildren(...said.map((text) => element("li", text)));
  const command = why ? "" : judged(a, b, va, vb, alike.length < new Set([...sa.keys(), ...sb.keys()]).size);
  if (command) {
    const item = element("li", "Whether they differ by more than their boots: ");
    item.append(element("code", command));
    notes.append(item);
  }
  for (const [label, run] of [["A", a], ["B", b]]) {
    if (!run.report) continue;
    const item = element("li", `${label}: `);
    const link = element("a");
    link.href = run.report;
    link.append(isolated(run.name));
    const version = run.kernels[label === "A" ? va : vb][0];
    item.append(link, version ? `, kernel ${version}` : "");
    notes.append(item);
  }
};

const fillVariants = (side) => {
  const names = chosenRun(side).variants;
  const list = document.getElementById(`variant-${side}`);
  list.replaceChildren(...names.map((name) => element("option", name)));
};
const fromAddress = () => {
  const asked = new URLSearchParams(location.hash.slice(1));
  const index = (side) => site.runs.findIndex((run) => run.id === asked.get(side));
  const a = Math.max(0, index("a"));
  const other = site.runs.findIndex((run, i) => i !== a && run.key === site.runs[a].key);
  const b = index("b") >= 0 ? index("b") : other >= 0 ? other : a === 0 ? 1 : 0;
  for (const [side, at] of [["a", a], ["b", b]]) {
    document.getElementById(`run-${side}`).selectedIndex = at;
    fillVariants(side);
    const variant = chosenRun(side).variants.indexOf(asked.get(`v${side}`));
    if (variant >= 0) document.getElementById(`variant-${side}`).selectedIndex = variant;
  }
  shown();
};
if (document.getElementById("sides")) {
  for (const side of ["a", "b"]) {
    document.getElementById(`run-${side}`).addEventListener("change", () => {
      fillVariants(side);
      shown();
    });
    document.getElementById(`variant-${side}`).addEventListener("change", shown);
  }
  document.getElementById("sides").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", fromAddress);
  fromAddress();
}
