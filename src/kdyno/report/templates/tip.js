// SPDX-License-Identifier: MIT
"use strict";
// Words at a point of a picture. Stands behind frame.js.

const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
const cursor = document.createElement("div");
cursor.className = "cursor";
document.body.append(tip);

// x, y: shares of the picture's width and height.
const showTip = (svg, x, y, text) => {
  svg.parentElement.append(cursor);
  const box = svg.getBoundingClientRect();
  // Through the object model, which the page's policy allows; attributes it does not.
  cursor.style.left = `${x * box.width}px`;
  cursor.style.top = `${y * box.height}px`;
  tip.textContent = text;
  tip.hidden = false;
  const left = Math.min(box.left + x * box.width, root.clientWidth - tip.offsetWidth - 8);
  tip.style.left = `${Math.max(8, left - 20)}px`;
  const above = box.top + y * box.height - tip.offsetHeight - 14;
  tip.style.top = `${above > 4 ? above : box.bottom + 6}px`;
};
const hideTip = () => {
  tip.hidden = true;
  cursor.remove();
};
addEventListener("scroll", hideTip, { passive: true });

// Words at a picture's points, by pointer and by arrow keys. nearest(event, box): number of the point
// at a pointer; last(): of the last one; at(number): its place and words, as showTip takes them.
const pointer = (svg, nearest, last, at) => {
  let chosen = null;
  const point = (number) => {
    chosen = Math.max(0, Math.min(last(), number));
    showTip(svg, ...at(chosen));
  };
  svg.addEventListener("pointermove", (event) => point(nearest(event, svg.getBoundingClientRect())));
  svg.addEventListener("pointerleave", hideTip);
  svg.addEventListener("blur", hideTip);
  svg.addEventListener("keydown", (event) => {
    const now = chosen ?? (event.key === "ArrowLeft" ? last() + 1 : -1);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last() }[event.key];
    if (event.key === "Escape") hideTip();
    if (next === undefined) return;
    event.preventDefault();
    point(next);
  });
};
