"""The report of a suite: one page that needs nothing else, and its pictures as files beside it."""

import base64
import dataclasses
import importlib.resources
import io
import json
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.errors import InputError
from bellsketch.deep.environments.games import GAMES
from bellsketch.experiments.bench_atari import PUBLISHED
from bellsketch.experiments.catalogue import EXPERIMENTS
from bellsketch.experiments.claims import Claim, claims_json
from bellsketch.experiments.report import figures
from bellsketch.experiments.report.dqn_zoo import read_dqn_zoo
from bellsketch.experiments.report.results import IMPORTED, Results, suite_results
from bellsketch.experiments.report.scores import advantages, aggregates, final_scores, find_scale
from bellsketch.experiments.report.verdicts import judge
from bellsketch.experiments.reproduce import read_records
from bellsketch.experiments.run_directory import RunDirectory, describe_run
from bellsketch.experiments.suite.directory import SuiteDirectory
from bellsketch.experiments.suite.jobs import CellJob
from bellsketch.experiments.suite.suite import FigureGrid
from bellsketch.runs.claimed_directory import CONFIG
from bellsketch.runs.files import replace_text

PAPERS = "The paper's: 200M frames, 57 games, 3 seeds."
DEFAULT_NUM = {"sketch_dqn": 401, "c51": 51, "qr_dqn": 201, "iqn": 64}


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading, words, and a picture or a table."""

    name: str
    """Of the picture's file."""
    title: str
    words: str
    figure: Figure | None = None
    table: pd.DataFrame | None = None


def write_report(directory: SuiteDirectory, out: Path, dqn_zoo: tuple[Path, ...] = ()) -> Path:
    """Draw what there is of a suite, and return the page."""
    try:
        import jinja2
    except ModuleNotFoundError:
        raise InputError("a report needs jinja2, which is not installed: pip install 'bellsketch[cluster]'") from None
    out.mkdir(parents=True, exist_ok=True)
    if isinstance(directory.suite.grid, FigureGrid):
        if dqn_zoo:
            raise InputError(f"dqn_zoo={dqn_zoo[0]}: {directory.suite.name} is no suite of training runs")
        sections, claims, missing = _figure_sections(directory)
    else:
        results = suite_results(directory)
        for path in dqn_zoo:
            results = results.beside(read_dqn_zoo(path))
        sections, claims, missing = _training_sections(directory, results)
    pictures = {}
    for section in sections:
        if section.figure is not None:
            pictures[section.name] = _save(section.figure, out / f"{section.name}.png")
    replace_text(out / "claims.json", claims_json(claims))
    template = (importlib.resources.files("bellsketch.experiments.report") / "template.html").read_text("utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(template)
    about = json.loads((directory.path / CONFIG).read_text(encoding="utf-8"))
    text = page.render(
        suite=directory.suite,
        about=about,
        drawn=time.strftime("%Y-%m-%d"),
        states=_states(directory),
        sections=sections,
        pictures=pictures,
        tables={section.name: section.table.map(_text) for section in sections if section.table is not None},
        claims=claims,
        missing=missing,
    )
    replace_text(out / "index.html", text)
    return out / "index.html"


def _states(directory: SuiteDirectory) -> dict[str, Any]:
    """How many jobs are what, and what went wrong."""
    jobs = directory.status()
    return {
        "total": len(jobs),
        "done": sum(job.state == "done" for job in jobs),
        "machines": sorted(_machines(directory)),
        "failed": [(job.job.name, job.error) for job in jobs if job.state == "failed"],
    }


def _machines(directory: SuiteDirectory) -> set[str]:
    """Where runs ran."""
    files = (directory.run_path(job) / CONFIG for job in directory.jobs)
    return {json.loads(file.read_text(encoding="utf-8"))["machine"] for file in files if file.exists()}


def _training_sections(directory: SuiteDirectory, results: Results) -> tuple[list[Section], list[Claim], list[str]]:
    if results.records.empty:
        raise InputError(f"suite={directory.path}: has no records yet; let it run until its first")
    scale = find_scale(results)
    environments = [name for name in results.complete() if scale is None or name in scale.one]
    sections = [_coverage(results)]
    scores = final_scores(results, scale, environments) if scale and environments else {}
    verdicts = judge(results, scale, environments, scores)
    if scale and environments:
        sections += _score_sections(results, scale, environments, scores)
    sections += [
        _speeds(results),
        Section(
            "curves",
            "Every game",
            "Mean over seeds, and their range. Dotted: random play; dashed: a score of 1.",
            figures.game_curves(results, scale),
        ),
    ]
    return sections, verdicts.claims, verdicts.missing


def _score_sections(results: Results, scale: Any, environments: list[str], scores: Any) -> list[Section]:
    found = aggregates(scores)
    games = f"{len(environments)} of {len(results.environments)} games have all of their runs, and count here."
    sections = [
        Section(
            "aggregates-over-frames",
            "Median and mean over games",
            f"{games} Bands: 95% stratified bootstrap intervals.",
            figures.aggregate_curves(results, scale, environments),
        ),
        Section(
            "aggregates",
            "At the end",
            "Mean of evaluations in the last tenth of frames; 95% stratified bootstrap intervals. The optimality gap is"
            " what is missing to a score of 1, and the less of it the better.",
            figures.aggregate_intervals(results, found, scale.words),
            pd.DataFrame({word: {name: str(e) for name, e in row.items()} for word, row in found.items()}),
        ),
    ]
    sketches = [setting.name for setting in results.settings if setting.agent == "sketch_dqn"]
    others = [name for name in results.names if name not in sketches]
    if sketches and (others := [name for name in others if len(advantages(results, scale, sketches[0], name))]):
        sections.append(
            Section(
                "advantage",
                f"Advantage of {sketches[0]}, game by game",
                "Mean over seeds, with its standard error.",
                figures.advantage_bars(results, scale, sketches[0], others),
            )
        )
    if len(sketches) > 1:
        sections.append(
            Section(
                "sweep",
                "Feature settings",
                "Bars: aggregates over games. Lines: 95% stratified bootstrap intervals.",
                figures.sweep_bars(results, found, sketches),
            )
        )
    return sections


def _coverage(results: Results) -> Section:
    cells = {
        name: {
            environment: f"{results.done(name, environment)}/{len(results.seeds[name])}"
            for environment in results.environments
        }
        for name in results.names
    }
    words = (
        f"Seeds that have come to their end, of those planned; the longest has {results.last_frame:,} frames. {PAPERS}"
    )
    return Section("coverage", "What is there, and what is missing", words, table=pd.DataFrame(cells))


def _speeds(results: Results) -> Section:
    grouped = results.speeds.groupby("setting")["frames_per_second"]
    table = pd.DataFrame({"frames/s": grouped.mean(), "± s.d.": grouped.std(), "runs": grouped.count()})
    table = table.reindex(results.names).round(0)
    published = {}
    for setting in results.settings:
        num: Any = setting.options.get("num") or DEFAULT_NUM.get(setting.agent)
        published[setting.name] = PUBLISHED.get((setting.agent, num)) if IMPORTED not in setting.options else None
    words = "While training, each run by itself, whatever else its machine did."
    if all(name in GAMES for name in results.environments):
        table["the paper's, on a V100"] = pd.Series(published).astype("Int64")
    return Section("speeds", "Frames a second", words, table=table)


def _figure_sections(directory: SuiteDirectory) -> tuple[list[Section], list[Claim], list[str]]:
    """The figure that the cells make up, once they are all there."""
    grid = directory.suite.grid
    assert isinstance(grid, FigureGrid)
    experiment = EXPERIMENTS[grid.experiment]
    missing = [f"cell {job.name}: is missing" for job in directory.jobs if not directory.is_done(job)]
    if missing:
        words = "It is drawn when all of its cells are there."
        return [Section("figure", experiment.title, words)], [], missing
    settings = experiment.settings(grid.scale, grid.seed)
    kept = RunDirectory(directory.path / "results", describe_run(experiment, grid.scale, settings))
    try:
        if not kept.is_complete:
            cells = [CellJob.read(directory.run_path(job))[0] for job in directory.jobs]
            kept.complete([record for records in cells for record in records])
    finally:
        kept.release()
    records = read_records(directory.path / "results")
    return [Section("figure", experiment.title, "", experiment.plot(records))], experiment.claims(records), []


def _text(value: Any) -> str:
    """A cell of a table."""
    if pd.isna(value):
        return "–"
    return value if isinstance(value, str) else f"{value:,.0f}"


def _save(figure: Figure, path: Path) -> str:
    """Into a file, and as text for the page."""
    data = io.BytesIO()
    figure.savefig(data, dpi=130, format="png")
    plt.close(figure)
    path.write_bytes(data.getvalue())
    return base64.b64encode(data.getvalue()).decode()
