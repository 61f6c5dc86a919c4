// SPDX-License-Identifier: MIT
// Served pages only: asks now and then whether the runs changed. Stands behind frame.js.

const askEveryMs = 3000;
const news = document.getElementById("news");
let edition = null;
let touched = false;
addEventListener("input", () => (touched = true));
news.addEventListener("click", () => location.reload());
const ask = async () => {
  try {
    const said = await (await fetch("/edition", { cache: "no-store" })).text();
    if (edition === null) edition = said;
    if (said === edition) return;
    // Whoever has filtered or chosen something decides when it is thrown away.
    if (touched) news.hidden = false;
    else location.reload();
  } catch {
    // The server has ended; the page stays as it is.
  }
};
setInterval(ask, askEveryMs);
ask();
