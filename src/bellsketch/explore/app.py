"""The page: widgets and where things stand. What they mean is computed in ``view``."""

import marimo

app = marimo.App(width="full", app_title="bellsketch explorer")


@app.cell
def _():
    import math

    import marimo as mo

    from bellsketch.core.errors import BellsketchError
    from bellsketch.core.families import FAMILIES
    from bellsketch.explore import pictures, settings, view
    from bellsketch.explore.turns import my_turn
    from bellsketch.tabular.environments import NAMES

    return BellsketchError, FAMILIES, NAMES, math, mo, my_turn, pictures, settings, view


@app.cell
def _(FAMILIES, NAMES, math, mo, settings):
    start = settings.Settings()
    wide = {"full_width": True, "show_value": True, "debounce": True}
    choice = {"full_width": True, "allow_select_none": False}
    environment = mo.ui.dropdown(list(NAMES), value=start.environment, label="environment", **choice)
    family = mo.ui.dropdown(list(FAMILIES), value=start.family, label="features", **choice)
    num_features = mo.ui.slider(
        1, settings.MOST_FEATURES, value=start.num_features, label="m, the number of features", **wide
    )
    slope = mo.ui.slider(-1.0, 1.0, 0.05, value=0.0, label="slope: log₁₀ of its factor", **wide)
    anchors = mo.ui.range_slider(
        -settings.REACH,
        1 + settings.REACH,
        0.05,
        value=list(start.anchors),
        label="anchors, where returns are 0 to 1",
        **wide,
    )
    least, largest = (math.log10(end) for end in settings.RIDGES)
    ridge = mo.ui.slider(least, largest, 0.5, value=math.log10(start.ridge), label="ridge: its log₁₀", **wide)
    intercept = mo.ui.dropdown(list(settings.INTERCEPTS), value=start.intercept, label="intercept", **choice)
    mo.sidebar(
        [
            mo.md("## bellsketch"),
            mo.md("A return distribution kept as U = E[φ(G)], and a Bellman backup U ← E[A U(X′) + c]."),
            mo.vstack([environment, family, num_features, slope, anchors, ridge, intercept], gap=1.0),
        ]
    )
    return anchors, environment, family, intercept, num_features, ridge, slope


@app.cell
def _(
    BellsketchError,
    anchors,
    environment,
    family,
    intercept,
    mo,
    my_turn,
    num_features,
    pictures,
    ridge,
    settings,
    slope,
    view,
):
    try:
        chosen = settings.from_page(
            environment=environment.value,
            family=family.value,
            num_features=num_features.value,
            log_slope=slope.value,
            anchors=anchors.value,
            log_ridge=ridge.value,
            intercept=intercept.value,
        )
        with my_turn():
            shown = view.look(chosen)
        problem = None
    except BellsketchError as error:
        shown, problem = None, str(error)
    mo.stop(problem is not None, mo.callout(mo.Html(pictures.paragraph(problem or "", "problem")), kind="danger"))
    return (shown,)


@app.cell
def _(mo, my_turn, pictures, shown):
    with my_turn():
        operator = pictures.picture(pictures.draw_operator(shown), "features, operator and spectrum")
    mo.vstack([mo.Html(pictures.paragraph(shown.summary(), "summary")), mo.Html(operator)])
    return


@app.cell
def _(mo, my_turn, pictures, shown):
    with my_turn():
        returns = pictures.picture(pictures.draw_returns(shown), "paths and distributions")
    mo.Html(returns)
    return


@app.cell
def _(mo, my_turn, pictures, shown):
    with my_turn():
        numbers = pictures.numbers_table(shown)
    notes = [
        mo.callout(mo.Html(pictures.paragraph(note, f"note-{i}")), kind="warn") for i, note in enumerate(shown.notes)
    ]
    mo.vstack([mo.Html(numbers), *notes])
    return


@app.cell
def _(mo, my_turn, pictures, shown):
    with my_turn():
        verdict, errors = shown.verdict(), pictures.picture(pictures.draw_errors(shown), "errors and bound")
    mo.vstack([mo.Html(pictures.paragraph(verdict, "verdict")), mo.Html(errors)])
    return


if __name__ == "__main__":
    app.run()
