"""Models of many states: arrays in an ``.npz`` file, and graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bellsketch.core.errors import InputError
from bellsketch.tabular.models.named import END, NamedModel, named_model
from bellsketch.tabular.mrp import MRP

SPARSE = ("data", "indices", "indptr", "shape")
"""Parts of a sparse matrix, as ``transitions_data`` and so on."""
KEYS = ("transitions", "rewards", "discount", "terminations", "names")


def save_npz(path: Path, model: MRP, names: Any = None) -> None:
    """A model whose states each pay one number, for :func:`read_npz`."""
    paid = model.rewards_by_state
    if paid is None or not all(reward.is_deterministic for reward in model.rewards):
        raise InputError("model: only one number for each state can be saved; write a TOML file for other rewards")
    matrix = sp.csr_array(model.transitions)
    arrays = {f"transitions_{part}": getattr(matrix, part) for part in SPARSE}
    arrays |= {"rewards": np.array([model.rewards[i].mean for i in paid]), "discount": np.array(model.discount)}
    arrays |= {"terminations": model.terminations} | ({} if names is None else {"names": np.asarray(names, dtype=str)})
    np.savez_compressed(path, **arrays)


def read_npz(path: Path) -> NamedModel:
    """From ``transitions`` (dense, or sparse as :func:`save_npz` writes it), ``rewards``, ``discount``, and maybe
    ``terminations`` and ``names``.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as .npz: {error}") from None
    parts = [f"transitions_{part}" for part in SPARSE]
    if all(part in arrays for part in parts):
        data, indices, indptr, shape = (arrays.pop(part) for part in parts)
        arrays["transitions"] = sp.csr_array((data, indices, indptr), shape=tuple(shape))
    if missing := [key for key in KEYS[:3] if key not in arrays]:
        raise InputError(f"{path}: has no array {missing[0]!r}, only {', '.join(arrays)}")
    mrp = MRP(arrays["transitions"], arrays["rewards"], float(arrays["discount"]), arrays.get("terminations"))
    names = tuple(arrays["names"].tolist()) if "names" in arrays else tuple(map(str, range(mrp.num_states)))
    if len(names) != mrp.num_states:
        raise InputError(f"{path}: has {len(names)} names for {mrp.num_states} states")
    return NamedModel(mrp, names)


def from_networkx(
    graph: Any, discount: float, *, probability: str = "probability", reward: str = "reward"
) -> NamedModel:
    """A directed graph of networkx as a model.

    Args:
      graph: an edge for each outcome. What is missing to 1 at a node is the probability to end there.
      discount: γ.
      probability: the attribute of an edge; without it all edges of a node are equally likely.
      reward: the attribute of an edge, or else of the node that it leaves, or else 0.
    """
    if not graph.is_directed():
        raise InputError("graph: is undirected; pass a DiGraph, or graph.to_directed()")
    outcomes = {}
    for node in graph:
        pays = graph.nodes[node].get(reward, 0.0)
        edges = list(graph.out_edges(node, data=True))
        listed = [
            (float(data.get(probability, 1 / len(edges))), data.get(reward, pays), str(following))
            for _, following, data in edges
        ]
        rest = 1.0 - sum(p for p, _, _ in listed)
        outcomes[str(node)] = [*listed, (rest, pays, END)] if rest > 1e-12 else listed
    return named_model(outcomes, discount)
