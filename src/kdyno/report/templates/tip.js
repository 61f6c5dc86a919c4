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
