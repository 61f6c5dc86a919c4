# SPDX-License-Identifier: MIT
"""How long the report of a run of 5,000 boots takes to write and to open (about half a minute).

    python -m benchmarks.page [--boots 5000] [--cases 20] [--json FILE]

Opening is measured in a Chromium without a window: from asking for the file until it has been laid
out and drawn. Without Chromium that figure is left out, with a word.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import memory
from benchmarks.speed import Figure

TRIES = 3
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def run_python(*words: str) -> float:
    """Seconds of a Python process; it must end well."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def opening_s(page: Path) -> float | None:
    """The best of a few, each in a browser window that has seen nothing yet; None: no Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    found = []
    with sync_playwright() as engine:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = engine.chromium.launch(executable_path=program, args=flags)
        for _ in range(TRIES):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            window = context.new_page()
            began = time.perf_counter()
            window.goto(page.as_uri(), wait_until="load")
            window.evaluate(_DRAWN)
            found.append(time.perf_counter() - began)
            context.close()
        browser.close()
    return min(found)


def figures(boots: int, cases: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kdyno-page-") as folder:
        os.fsync = lambda _descriptor: None  # the run is thrown away: no need to reach the disk
        run = memory.make(Path(folder), boots, cases)
        run_python("-c", memory.JUDGE, str(run.path))
        page = Path(folder) / "report.html"
        words = ("report", str(run.path), "-o", str(page))
        took_s = run_python("-c", memory.KDYNO, *words)
        how = f"{cases} cases, {page.stat().st_size / 1e6:.1f} MB"
        found = [Figure(f"report of {boots} boots, written", took_s, "s", 10.0, how=how)]
        opened_s = opening_s(page)
    if opened_s is None:
        print("opening it is not measured: no Chromium or no playwright here", file=sys.stderr)
    else:
        how = f"best of {TRIES}"
        found.append(Figure(f"report of {boots} boots, opened", opened_s, "s", 2.0, how=how))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--boots", type=int, default=5000)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = figures(asked.boots, asked.cases)
    for it in found:
        print(it.line())
    if asked.json is not None:
        values = [{**asdict(it), "met": it.met} for it in found]
        asked.json.write_text(json.dumps(values, indent=1), encoding="utf-8")
    return 0 if all(it.met for it in found) else 1


if __name__ == "__main__":
    sys.exit(main())
