// SPDX-License-Identifier: MIT
// The flame graph: rows of frames as wide as their time; one of them can be looked into.
{
  const box = document.querySelector(".flame");
  const source = document.getElementById("flame-data");
  const trees = source ? JSON.parse(source.textContent) : {};
  const rows = box?.querySelector(".flame-rows");
  const select = box?.querySelector("select");
  const said = box?.querySelector("output");
  const ROW_PX = 20;
  const LEAST = 0.002; // of the width; narrower frames cannot be hit
  let zoomed = [];
  let frames = [];
  const percent = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;
  const words = ([name, where, seconds], whole) =>
    `${name}${where ? `, ${{ kernel: "UML kernel", host: "host kernel", user: "user code" }[where] ?? where}` : ""}: ${seconds.toFixed(3)} s, ${percent(seconds, whole)}`;
  const find = (path) => {
    let node = trees[select.value];
    for (const at of path) node = node[3][at];
    return node;
  };
  const draw = (focus) => {
    const whole = trees[select.value][2];
    const top = find(zoomed);
    rows.replaceChildren();
    frames = [];
    let deepest = 0;
    const add = (node, path, left, width, depth) => {
      if (width < LEAST) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = node[0];
      button.className = `flame-frame ${node[1]}`;
      button.setAttribute("role", "treeitem");
      button.setAttribute("aria-level", String(depth + 1));
      button.setAttribute("aria-label", words(node, whole));
      button.title = words(node, whole);
      button.tabIndex = -1;
      button.style.left = `${100 * left}%`;
      button.style.width = `${100 * width}%`;
      button.style.top = `${ROW_PX * depth}px`;
      frames.push({ button, path, depth });
      rows.append(button);
      deepest = Math.max(deepest, depth);
      let at = left;
      node[3].forEach((child, number) => {
        const part = node[2] ? (width * child[2]) / node[2] : 0;
        add(child, [...path, number], at, part, depth + 1);
        at += part;
      });
    };
    // What encloses the frame that is looked into stays above it.
    zoomed.forEach((_at, depth) => add([find(zoomed.slice(0, depth))[0], ...find(zoomed.slice(0, depth)).slice(1, 3), []], zoomed.slice(0, depth), 0, 1, depth));
    add(top, zoomed, 0, 1, zoomed.length);
    rows.style.height = `${ROW_PX * (deepest + 1)}px`;
    const chosen = frames.find((each) => each.path.join() === (focus ?? zoomed).join()) ?? frames[0];
    chosen.button.tabIndex = 0;
    said.textContent = words(top, whole);
    if (focus) chosen.button.focus();
  };
  const zoom = (path) => {
    zoomed = path;
    draw(path);
  };
  const move = (key, at) => {
    const { path, depth } = frames[at];
    const under = (each) => each.depth === depth + 1 && each.path.slice(0, path.length).join() === path.join();
    const same = frames.map((each, i) => (each.depth === depth ? i : -1)).filter((i) => i >= 0);
    if (key === "ArrowDown") return frames.findIndex(under);
    if (key === "ArrowUp") return frames.findIndex((each) => each.path.join() === path.slice(0, -1).join());
    if (key === "ArrowRight") return same[same.indexOf(at) + 1] ?? -1;
    if (key === "ArrowLeft") return same[same.indexOf(at) - 1] ?? -1;
    return key === "Home" ? 0 : -1;
  };
  if (rows && select && source) {
    rows.addEventListener("click", (event) => {
      const found = frames.find((each) => each.button === event.target);
      if (found) zoom(found.path);
    });
    rows.addEventListener("focusin", (event) => {
      frames.forEach((each) => (each.button.tabIndex = each.button === event.target ? 0 : -1));
      said.textContent = event.target.getAttribute("aria-label") ?? "";
    });
    rows.addEventListener("pointerover", (event) => {
      const label = event.target.getAttribute("aria-label");
      if (label && event.target !== rows) said.textContent = label;
    });
    rows.addEventListener("keydown", (event) => {
      const at = frames.findIndex((each) => each.button === event.target);
      if (at < 0) return;
      if (event.key === "Escape") {
        event.preventDefault();
        zoom(zoomed.slice(0, -1));
        return;
      }
      if (!["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home"].includes(event.key)) return;
      event.preventDefault();
      const next = move(event.key, at);
      if (next >= 0) frames[next].button.focus();
    });
    select.addEventListener("change", () => {
      zoomed = [];
      draw();
    });
    draw();
  }
}
