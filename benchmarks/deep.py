"""How many environment steps a second the fused loop learns from, against QR-DQN in PyTorch, in one run.

python benchmarks/deep.py --peer-python PATH       prints a table and writes benchmarks/results/deep.json
python benchmarks/deep.py --no-peer                ours alone; on a GPU it writes benchmarks/results/deep-gpu.json

The peers are sb3-contrib's QR-DQN and a plain one in a single file, in ``benchmarks/peers``. They run in an interpreter
of their own, for PyTorch is no dependency here: ``python -m venv peers && peers/bin/pip install torch sb3-contrib``
(``torch==2.13.0+cpu`` where such a build is at hand), then ``--peer-python peers/bin/python``.

On CartPole everybody has one environment for each seed, two layers of 128 units, an update every 4 steps, and the same
batch, replay and optimiser; batch and period are the published ones, and sb3-contrib's own. Speed is counted while
learning, after compiling, and for the peers with ε at its end: ours takes as long for a random action. A peer learns
one seed, and two ratios to it are given: of *one seed's* speed, which is how much sooner a seed is done while all of
them run, and of *all seeds'* together, which is how much sooner they are done than by the peer in a row.
"""

import argparse
import dataclasses
import gc
import importlib.metadata
import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import jax
from peers.run import answer
from rich.console import Console
from rich.table import Table

from bellsketch.deep.networks import VECTOR
from bellsketch.deep.run import make_config
from bellsketch.deep.setup import set_up

RESULTS = Path(__file__).parent / "results"
PEERS = {"sb3-contrib": "sb3_qr_dqn.py", "plain PyTorch": "torch_qr_dqn.py"}
AGENTS = ("dqn", "c51", "qr_dqn", "iqn", "sketch_dqn")
CARTPOLE, BREAKOUT = "CartPole-v1", "Breakout-MinAtar"
WANTED = 20.0
"""What is asked for: times the speed of a peer, for each seed, on a CPU."""
COMMON: dict[str, Any] = {
    "learning_rate": 5e-4,
    "adam_epsilon": 0.01 / 32,
    "max_gradient_norm": 10.0,
    "target_period": 250,
    "update_period": 4,
    "batch_size": 32,
    "replay_capacity": 50_000,
    "learning_starts": 1_000,
    "exploration_steps": 1_000,
    "exploration_final": 0.01,
    "discount": 0.99,
}
"""For us and for the peers, on CartPole."""
CALIBRATION = 10
"""Iterations that say how many make a measurement."""
FRAMES = 1_000_000_000
"""More than anybody will take: how long to run is decided by the clock."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing of ours to measure."""

    environment: str
    agent: str
    seeds: int
    num_environments: int
    num: int | None

    def prepared(self) -> "Prepared":
        """Compiled, with updates behind it."""
        options: dict[str, Any] = {"num_environments": self.num_environments, "num": self.num}
        if self.environment == CARTPOLE:
            options |= COMMON
        config = make_config(self.agent, self.environment, seeds=self.seeds, frames=FRAMES, **options)
        return Prepared(self, config)


class Prepared:
    """A case with its state, which measuring moves on."""

    def __init__(self, case: Case, config: Any):
        self.case, self.speeds = case, []
        begun = time.perf_counter()
        self._runner, self._loop = (setup := set_up(config)).runner, config.loop
        self._state = self._runner.init(setup.keys)
        self._state = self._runner.explore(self._state, self._loop.learning_starts // self._loop.num_environments)
        self._advance(2)
        self.compile_seconds = time.perf_counter() - begun
        self._iterations_per_second = CALIBRATION / self._advance(CALIBRATION)

    def _advance(self, iterations: int) -> float:
        """Its seconds."""
        begun = time.perf_counter()
        self._state = self._runner.advance(self._state, iterations)
        jax.block_until_ready(self._state.steps)
        return time.perf_counter() - begun

    def measure(self, seconds: float) -> None:
        """One more measurement, of about so many seconds."""
        num = max(5, int(self._iterations_per_second * seconds))
        self.speeds.append(num * self._loop.steps / self._advance(num))

    def row(self) -> dict[str, Any]:
        """Medians; speeds are environment steps a second."""
        speed = statistics.median(self.speeds)
        return dataclasses.asdict(self.case) | {
            "update_period": self._loop.update_period,
            "batch_size": self._loop.batch_size,
            "of_one_seed": speed,
            "of_all_seeds": speed * self.case.seeds,
            "range_of_one_seed": [min(self.speeds), max(self.speeds)],
            "compile_seconds": self.compile_seconds,
        }


@dataclasses.dataclass
class Peer:
    """QR-DQN in PyTorch, on one thread: with networks this small more are slower."""

    name: str
    interpreter: str
    settings: dict[str, Any]
    speeds: list[float] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    def measure(self) -> None:
        """One more measurement, in a process of its own."""
        found = answer(self.interpreter, PEERS[self.name], self.settings)
        self.speeds.append(found["steps_per_second"])
        self.versions = found["versions"]


def cases(agents: list[str], quick: bool, num: int, on_gpu: bool) -> list[list[Case]]:
    """In groups that are in memory together, whose measurements take turns."""
    many = (1, 5, 32, 128) if on_gpu else (1, 4, 16, 64)
    nums = {agent: None if agent in ("dqn", "iqn") else num for agent in AGENTS}
    groups = []
    for agent in agents:
        group = [Case(CARTPOLE, agent, seeds, 1, nums[agent]) for seeds in (many[::2] if quick else many)]
        if agent == "qr_dqn":  # as many updates for each step, but the four steps at once
            group.append(Case(CARTPOLE, agent, 1, COMMON["update_period"], nums[agent]))
        groups.append(group)
    preset = make_config("dqn", BREAKOUT).loop
    few = many if on_gpu else (1, 4)
    for agent in [agent for agent in agents if not quick or agent in ("dqn", "sketch_dqn")]:  # compiling takes long
        groups.append([Case(BREAKOUT, agent, n, preset.num_environments, None) for n in (few[:1] if quick else few)])
    return groups


def measured(groups: list[list[Case]], peers: list[Peer], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Ours and the peers in turn, since machines are noisy; peers only beside what is compared with them."""
    rows = []
    for group in groups:
        prepared = [case.prepared() for case in group]
        for i in range(rounds):
            for peer in peers[i % len(peers) :][:1] if peers and group[0].environment == CARTPOLE else []:
                peer.measure()
            for case in prepared:
                case.measure(seconds)
        rows += [case.row() for case in prepared]
        Console(stderr=True).print(f"{group[0].agent} on {group[0].environment}: done")
        del prepared
        gc.collect()  # replays are large
    return rows


def compared(rows: list[dict[str, Any]], peers: list[Peer]) -> None:
    """Adds ratios to the rows that have a peer."""
    for row in rows:
        if row["environment"] == CARTPOLE:
            speeds = {peer.name: statistics.median(peer.speeds) for peer in peers}
            row["ratio_of_one_seed"] = {name: row["of_one_seed"] / speed for name, speed in speeds.items()}
            row["ratio_of_all_seeds"] = {name: row["of_all_seeds"] / speed for name, speed in speeds.items()}


def verdict(rows: list[dict[str, Any]]) -> str:
    """Which ratios of QR-DQN, like against like, reach what is asked for."""
    lines = []
    ours = [row for row in rows if row["environment"] == CARTPOLE and row["agent"] == "qr_dqn"]
    for name in ours[0].get("ratio_of_one_seed", {}) if ours else ():
        alone = next(row for row in ours if row["seeds"] == 1 and row["num_environments"] == 1)
        best = max(ours, key=lambda row: row["ratio_of_all_seeds"][name])
        one, all_seeds = alone["ratio_of_one_seed"][name], best["ratio_of_all_seeds"][name]
        lines.append(
            f"QR-DQN against {name}: one seed alone {one:.3g}×, at most {all_seeds:.3g}× for all seeds together"
            f" ({best['seeds']} seeds, {best['num_environments']} environments each);"
            f" {WANTED:g}× {'reached' if one >= WANTED else 'not reached'} by one seed,"
            f" {'reached' if all_seeds >= WANTED else 'not reached'} together"
        )
    return "\n".join(lines)


def show(rows: list[dict[str, Any]], peers: list[Peer]) -> None:
    """A table."""
    names = [peer.name for peer in peers]
    columns = [column for name in names for column in (f"one / {name}", f"all / {name}")]
    table = Table("environment", "agent", "seeds", "envs", "steps/s, one seed", "steps/s, all", *columns)
    for peer in peers:
        speed = f"{statistics.median(peer.speeds):,.0f}"
        table.add_row(CARTPOLE, f"{peer.name} QR-DQN", "1", "1", speed, speed)
    for row in rows:
        kinds = [row[kind] for kind in ("ratio_of_one_seed", "ratio_of_all_seeds") if kind in row]
        ratios = [f"{kind[name]:.3g}" for name in names for kind in kinds]
        speeds = [f"{row[k]:,.0f}" for k in ("of_one_seed", "of_all_seeds")]
        sizes = [str(row[k]) for k in ("seeds", "num_environments")]
        table.add_row(row["environment"], row["agent"], *sizes, *speeds, *ratios)
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--peer-python", help="an interpreter that has torch and sb3-contrib")
    parser.add_argument("--no-peer", action="store_true", help="measure ours alone")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and shorter measurements")
    parser.add_argument("--seconds", type=float, help="of a measurement of ours; default 1.5, or 0.3 if quick")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS), help="which of ours")
    parser.add_argument("--num", type=int, default=51, help="quantiles, atoms and features on CartPole")
    parser.add_argument("--out", type=Path, help="where to write; a run of less than all writes nothing unless told")
    arguments = parser.parse_args()
    if not arguments.no_peer and not arguments.peer_python:
        parser.error("pass --peer-python PATH, an interpreter with torch and sb3-contrib, or --no-peer")
    on_gpu = jax.default_backend() == "gpu"
    quick = arguments.quick
    settings = COMMON | {
        "environment": CARTPOLE,
        "width": VECTOR.widths[0],
        "num": arguments.num,
        "threads": 1,
        "seed": 0,
    }
    settings |= {"warm_up": 2_500, "steps": 2_000 if quick else 6_000}
    peers = [] if arguments.no_peer else [Peer(name, arguments.peer_python, settings) for name in PEERS]
    rounds, seconds = (2, 0.3) if quick else (4, 1.5)
    seconds = arguments.seconds or seconds
    rows = measured(cases(arguments.agents, quick, arguments.num, on_gpu), peers, rounds, seconds)
    compared(rows, peers)
    show(rows, peers)
    if said := verdict(rows):
        print(said)
    out = arguments.out
    if out is None and not quick and set(arguments.agents) == set(AGENTS):
        out = RESULTS / ("deep-gpu.json" if on_gpu else "deep.json")
    if out is not None:
        write(out, rows, peers, arguments)


def write(out: Path, rows: list[dict[str, Any]], peers: list[Peer], arguments: argparse.Namespace) -> None:
    """Everything that was measured, and with what."""
    flags = ["--quick"] * arguments.quick + (["--no-peer"] if arguments.no_peer else ["--peer-python PATH"])
    flags += [f"--seconds {arguments.seconds:g}"] if arguments.seconds else []
    flags += [] if set(arguments.agents) == set(AGENTS) else ["--agents", *arguments.agents]
    packages = ("jax", "jaxlib", "equinox", "optax", "gymnax", "numpy")
    versions = {name: importlib.metadata.version(name) for name in packages}
    device = jax.devices()[0]
    record = {
        "command": " ".join(["python benchmarks/deep.py", *flags, f"--num {arguments.num}"]),
        "date": time.strftime("%Y-%m-%d"),
        "versions": {"python": platform.python_version()} | versions,
        "machine": f"{os.cpu_count()} CPU cores" + (f", {device.device_kind}" if device.platform == "gpu" else ""),
        "settings": COMMON,
        "peers": {
            peer.name: {
                "of_one_seed": statistics.median(peer.speeds),
                "range_of_one_seed": [min(peer.speeds), max(peer.speeds)],
                "measurements": len(peer.speeds),
                "threads": peer.settings["threads"],
                "versions": peer.versions,
            }
            for peer in peers
        },
        "wanted": WANTED,
        "verdict": verdict(rows).split("\n") if peers else [],
        "rows": rows,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
