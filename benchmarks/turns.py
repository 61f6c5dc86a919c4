# SPDX-License-Identifier: MIT
"""What taking turns is worth, on this machine, now: ``make bench`` has it (about 45 minutes).

    python -m benchmarks.turns [PART ...] [--minutes M] [--runs-of-copies N] [--json FILE]

Parts: cost, quiet, load, frozen, demo, demo-load, five, five-load, same, copies, known, places.
Boots and turns are measured in the same minutes on the same images: whichever has had less time is
next. Half-widths are raw ones on the log scale, at the same seconds of measuring. Nothing else
should run on the machine; the loads of `load`, `demo-load` and `five-load` are made here.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from benchmarks.load import on_every_cpu, restless
from benchmarks.speed import EXPERIMENT, Figure, finish, options
from kdyno.errors import ToolError
from kdyno.experiment.loader import parse
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import raw_effects
from kdyno.judge.pairs import Question
from kdyno.machines.cpus import measuring
from kdyno.measure import boot as booting
from kdyno.measure import turns
from kdyno.measure.bench import Bench, bench_of, info, plan_of, tree_of
from kdyno.measure.builder import build_all, check
from kdyno.measure.execution import Options, asked_of, execute
from kdyno.measure.loop import block_order, draw_of, effort
from kdyno.measure.turns import Member
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.stats.effect import PairedEffect
from kdyno.store.manifest import Manifest
from kdyno.store.samples import Gathering, Key
from kdyno.store.verdict import Verdict
from kdyno.suites import record
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs.subject import load

WAYS = ("boots", "turns")
HEAD = """
name = "turns"
question = "Turns, measured"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.stock]
"""
SIX = """
[[suite]]
name = "unixbench"
cases = ["fscopy-256", "fscopy-1024", "fscopy-4096", "pipe", "syscall", "dhry2reg"]
[measure]
precision = "0.01%"
max_boots = 2000
equivalent = "0.5%"
"""
COPY = f"{HEAD}{SIX}calibrate = true\n"
TWO = f'{HEAD}[variant.fsrm]\nmemcpy = "fsrm"\n{SIX}'
FROZEN = f"""{HEAD}
[[suite]]
name = "run"
seconds = 0.5
command = ["sh", "-c", "cd /tmp && echo 'long f(long a,long b){{while(b){{long t=a%b;a=b;b=t;}}\
return a;}}' >gcd.c && cp gcd.c lcm.c && echo 'all: gcd.o lcm.o' >Makefile && \
make -s -B CFLAGS=-O1"]
cases = ["make"]
[[suite]]
name = "run"
seconds = 0.5
command = ["sh", "-c", "i=0; while [ $i -lt 40 ]; do ls /usr/bin | sort -r | head -n 5 >/tmp/o; \
i=$((i+1)); done"]
cases = ["script"]
[[suite]]
name = "run"
seconds = 0.5
command = ["fio", "--name=read", "--filename=/tmp/f", "--size=16m", "--rw=read", "--bs=4k", \
"--ioengine=psync", "--loops=4", "--output=/dev/null"]
cases = ["read"]
[measure]
calibrate = true
max_boots = 2000
"""
KNOWN = """
name = "known"
question = "Are known differences found alike by boots and by turns?"
baseline = "fsrm"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.fsrm]
memcpy = "fsrm"
[variant.slow-umask]
memcpy = "fsrm"
patches = ["slow-umask.patch"]
[variant.slow-memcpy]
memcpy = "./benchmarks/slow-memcpy.S"
[[suite]]
name = "unixbench"
seconds = 0.25
cases = ["syscall", "fscopy-4096", "fscopy-65536", "dhry2reg"]
"""


def experiment_of(text: str) -> Experiment:
    return parse(text, "benchmarks.turns", Path.cwd(), vocabulary(load_suites()))


def bench(experiment: Experiment) -> Bench:
    """With every kernel built."""
    cache = cache_root()
    recipes = check(experiment, cache, lambda _text, _part: None)
    images = build_all(experiment, recipes, cache).images
    tree = tree_of(experiment, recipes)
    return bench_of(experiment, load_suites(), images, tree, cache, lambda _text: None)


@dataclasses.dataclass(frozen=True)
class BothWays:
    """What the same minutes of each way gave."""

    effects: Mapping[str, Mapping[Key, PairedEffect]]
    """Way → raw effects."""
    share: float
    """Of the turns' wall time inside turns."""

    @property
    def widths(self) -> dict[str, list[float]]:
        """Way → half-widths of all effects, log scale."""
        return {
            way: [
                math.nan if effect.half_width is None else effect.half_width
                for effect in effects.values()
            ]
            for way, effects in self.effects.items()
        }


def both_ways(setup: Bench, minutes: float) -> BothWays:
    """So many minutes of boots and as many of turns, mixed."""
    manifest = Manifest(
        tool="0",
        created="now",
        experiment=setup.experiment.name,
        baseline=setup.experiment.baseline,
        seed=1,
        cases=tuple(info(case, job) for case, job in zip(setup.cases, setup.jobs, strict=True)),
        **asked_of(setup.experiment),
    )
    question, names = Question.of(manifest), list(setup.variants)
    gathered = {way: Gathering() for way in WAYS}
    spent_s = dict.fromkeys(WAYS, 0.0)
    inside_s, blocks = 0.0, dict.fromkeys(WAYS, 0)
    while min(spent_s.values()) < minutes * 60:
        way = min(WAYS, key=lambda name: spent_s[name])
        block = blocks[way]
        order, draw = block_order(1, block, names), draw_of(1, block)
        began_s = time.monotonic()
        if way == "turns":
            data = gathered[way].samples()
            beside_s = (spent_s[way] - inside_s) / block if block else 1.0
            rounds = effort(setup, question, data, beside_s)
            boots = turns.measure(
                setup, order, f"1:{block}", first_index=0, block=block, draw=draw, effort=rounds
            )
            for record, _ in boots:
                gathered[way].add(record)
                inside_s += record.host.inside_s or 0.0
        else:
            for name in order:
                gathered[way].add(
                    booting.measure(setup, [name], first_index=0, block=block, draw=draw)[0][0]
                )
        blocks[way] += 1
        spent_s[way] += time.monotonic() - began_s
    effects = {way: raw_effects(gathered[way].samples(), question, ()) for way in WAYS}
    both = BothWays(effects, inside_s / spent_s["turns"])
    for way, widths in both.widths.items():
        print(
            f"  {way}: {blocks[way]} blocks in {spent_s[way]:.0f} s; half-widths "
            + ", ".join(f"{100 * width:.2f} %" for width in widths),
            flush=True,
        )
    print(f"  share of the turns' wall time inside turns: {both.share:.3f}")
    return both


def ratio(name: str, both: BothWays, least: float) -> Figure:
    pairs = zip(both.widths["boots"], both.widths["turns"], strict=True)
    mean = statistics.geometric_mean([boots / turns for boots, turns in pairs])
    return Figure(name, mean, "×", least=least, how="geometric mean over the effects")


def cost() -> Figure:
    """A turn of nothing, by a guest of the first image."""
    setup = bench(experiment_of(COPY))
    plan = plan_of(setup, setup.experiment.baseline, turns=True)
    session = setup.machine.open(plan)
    member = Member(plan, session, setup.machine.clock, booting.now())
    member.hear(record.Hello)
    member.begin(3, 60.0)
    if not member.ready:
        raise ToolError(f"the guest is not ready: {session.close().host.text}")
    took = []
    for _ in range(2000):
        began_s = time.monotonic()
        member.turn(0, 60.0)
        took.append(time.monotonic() - began_s)
    session.close()
    micros = 1e6 * statistics.median(took)
    return Figure("a turn of nothing", micros, "µs", most=150, how="median of 2000")


def verdict_of(experiment: Experiment, minutes: float, seed: int | None = None) -> Verdict:
    measure = dataclasses.replace(experiment.measure, max_minutes=minutes, seed=seed)
    with tempfile.TemporaryDirectory() as runs:
        options = Options(cache=cache_root(), runs=Path(runs))
        _, verdict = execute(
            dataclasses.replace(experiment, measure=measure), load_suites(), options
        )
    for effect in verdict.effects:
        low, high = effect.ci or (math.nan, math.nan)
        text = (
            f"  {effect.variant:14} {effect.case:14} {100 * ((effect.ratio or 1) - 1):+.2f} % "
            f"({100 * (low - 1):+.2f} … {100 * (high - 1):+.2f})  {effect.verdict}, "
            f"{effect.blocks} groups"
        )
        if spread := effect.spread:
            text += f"; SD within {100 * spread.within:.2f} %, between {100 * spread.between:.2f} %"
        print(text, flush=True)
    return verdict


def widths_of(verdict: Verdict) -> list[float]:
    """Corrected half-widths, in per cent."""
    return [
        50 * (effect.ci[1] - effect.ci[0]) if effect.ci is not None else math.inf
        for effect in verdict.effects
    ]


def copies(runs: int, minutes: float) -> Figure:
    """Runs of a kernel against itself in which anything is called faster or slower."""
    experiment = experiment_of(COPY)
    false = 0
    for number in range(runs):
        verdict = verdict_of(experiment, minutes, seed=number)
        wrong = [
            effect.case for effect in verdict.effects if effect.verdict in ("faster", "slower")
        ]
        false += bool(wrong)
        widest = max(widths_of(verdict))
        blocks = min((effect.blocks for effect in verdict.effects), default=0)
        print(
            f"  run {number + 1} of {runs}: {', '.join(wrong) or 'nothing'}; {blocks} groups, "
            f"half-widths to {widest:.2f} %",
            flush=True,
        )
    return Figure(f"A/A, {runs} runs: with a false verdict", false, "", most=1)


def known(both: BothWays) -> Figure:
    """Effects whose two estimates differ by no more than their half-widths allow."""
    alike = 0
    for key, boots in both.effects["boots"].items():
        turns = both.effects["turns"][key]
        logs = [math.log(effect.ratio or math.nan) for effect in (boots, turns)]
        allowed = math.hypot(boots.half_width or 0.0, turns.half_width or 0.0)
        alike += abs(logs[0] - logs[1]) <= allowed
        print(
            f"  {key[2]:12} {key[1]:14}"
            + "".join(
                f" {way} {100 * math.expm1(log):+.2f} % ± {100 * (effect.half_width or 0.0):.2f}"
                for way, log, effect in zip(WAYS, logs, (boots, turns), strict=True)
            ),
            flush=True,
        )
    count = len(both.effects["boots"])
    return Figure(f"known differences, {count} effects: alike by both", alike, "", least=count)


def places(minutes: float) -> Figure:
    """Whether an effect depends on what ran before: the difference of both, by what they allow."""
    before = ("fscopy-256", "fscopy-1024", "fscopy-4096")
    experiment = load(EXPERIMENT)[0]
    verdicts = []
    for earlier in ((), before):
        (suite,) = experiment.suites
        cases = dataclasses.replace(suite, cases=(*earlier, "fscopy-65536"))
        print(f"  after {', '.join(earlier) or 'nothing'}:", flush=True)
        verdict = verdict_of(dataclasses.replace(experiment, suites=(cases,)), minutes)
        verdicts.append(
            {effect.variant: effect for effect in verdict.effects if effect.case == "fscopy-65536"}
        )
    worst = 0.0
    for alone, after in ((verdicts[0][name], verdicts[1][name]) for name in verdicts[0]):
        logs = [math.log(effect.ratio or math.nan) for effect in (alone, after)]
        ends = [effect.ci or (math.nan, math.nan) for effect in (alone, after)]
        allowed = math.hypot(*(math.log(high / low) / 2 for low, high in ends))
        worst = max(worst, abs(logs[0] - logs[1]) / allowed)
    return Figure("64 KiB copies, alone and after others: difference ÷ allowed", worst, "×", most=1)


def demo(where: str, most: int) -> Figure:
    experiment = load(EXPERIMENT.with_name("simd-demo.toml"))[0]
    verdict = verdict_of(experiment, experiment.measure.max_minutes or math.inf)
    undecided = sum(effect.verdict == "inconclusive" for effect in verdict.effects)
    middle = statistics.median(widths_of(verdict))
    how = f"of {len(verdict.effects)}; median half-width, corrected, {middle:.2f} %"
    return Figure(f"`make demo`{where}: effects undecided", undecided, "", most, how=how)


def five(name: str, most: float) -> Figure:
    widest = max(widths_of(verdict_of(experiment_of(TWO), 5)))
    return Figure(name, widest, "%", most=most, how="largest of six, corrected")


def same() -> Figure:
    verdict = verdict_of(experiment_of(COPY), 5)
    alike = sum(row.verdict == "equivalent" or row.equivalent_too for row in verdict.effects)
    return Figure("A/A of five minutes: equivalent within ±0.5 %", alike, "of 6", least=6)


def figures_of(part: str, minutes: float, runs: int) -> list[Figure]:
    """``minutes``: of each way; ``runs``: of copies."""
    match part.removesuffix("-load"):
        case "cost":
            return [cost()]
        case "quiet":
            both = both_ways(bench(load(EXPERIMENT)[0]), minutes)
            return [
                ratio("half-width, boots ÷ turns, nothing else running", both, 5),
                Figure("share of wall time inside turns", both.share, "", least=0.85),
            ]
        case "load":
            return [ratio("… beside a load", both_ways(bench(load(EXPERIMENT)[0]), minutes), 15)]
        case "frozen":
            both = both_ways(bench(experiment_of(FROZEN)), minutes)
            return [ratio("… of frozen commands", both, 3)]
        case "demo":
            return [demo(", beside a load", 4) if part != "demo" else demo("", 2)]
        case "five" if part == "five":
            return [five("five minutes, two kernels: half-width", 0.25)]
        case "five":
            return [five("five minutes, two kernels, beside a load: half-width", 0.4)]
        case "same":
            return [same()]
        case "copies":
            return [copies(runs, 0.75)]
        case "known":
            return [known(both_ways(bench(experiment_of(KNOWN)), minutes))]
    return [places(minutes)]


PARTS = (
    *("cost", "quiet", "load", "frozen", "demo", "demo-load", "five", "five-load", "same"),
    *("copies", "known", "places"),
)


def main() -> int:
    given = options(__doc__, PARTS, minutes=3.0, runs_of_copies=20)
    rows: list[Figure] = []
    for part in given.parts or PARTS:
        print(f"{part}:", flush=True)
        with ExitStack() as beside:
            # A run holds the machine's lock itself.
            if part in ("cost", "quiet", "load", "frozen", "known"):
                beside.enter_context(measuring("a benchmark", wait=True))
            if part.endswith("load"):
                beside.enter_context(on_every_cpu(restless))
            rows += figures_of(part, given.minutes, given.runs_of_copies)
    return finish(rows, given.json)


if __name__ == "__main__":
    raise SystemExit(main())
