"""Models of many states: arrays in an ``.npz`` file, and graphs."""

import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bellsketch.core.errors import InputError, UnknownNameError
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
      probability: the attribute of an edge; on all edges of a node or on none, and then they are equally likely.
      reward: the attribute of an edge, or else of the node that it leaves, or else 0.
    """
    if not (hasattr(graph, "is_directed") and hasattr(graph, "nodes")):
        raise InputError(f"graph={graph!r}: is no graph; pass a networkx.DiGraph")
    if not graph.is_directed():
        raise InputError("graph: is undirected; pass a DiGraph, or graph.to_directed()")
    names: dict[str, Any] = {}
    for node in graph:
        if (other := names.setdefault(str(node), node)) is not node:
            raise InputError(f"graph: the nodes {other!r} and {node!r} are both called {str(node)!r}; rename one")
    edges = [data for *_, data in graph.edges(data=True)]
    _somewhere("probability", probability, "probability", edges)
    _somewhere("reward", reward, "reward", [*edges, *(graph.nodes[node] for node in graph)])
    outcomes = {}
    for name, node in names.items():
        pays = graph.nodes[node].get(reward, 0.0)
        following = [(str(y), data) for _, y, data in graph.out_edges(node, data=True)]
        shares = _shares(name, following, probability)
        listed = [(p, data.get(reward, pays), y) for p, (y, data) in zip(shares, following, strict=True)]
        rest = 1.0 - sum(shares)
        outcomes[name] = [*listed, (rest, pays, END)] if rest > 1e-12 else listed
    return named_model(outcomes, discount)


def _somewhere(argument: str, attribute: str, default: str, holders: Sequence[Mapping[str, Any]]) -> None:
    """Raise where an attribute was asked for by a name that nothing has."""
    if attribute != default and not any(attribute in data for data in holders):
        known = {str(key) for data in holders for key in data}
        raise UnknownNameError(f"attribute of the graph, {argument}=", attribute, known)


def _shares(name: str, edges: Sequence[tuple[str, Mapping[str, Any]]], probability: str) -> list[float]:
    """The probabilities of a node's edges."""
    said = [(y, data[probability]) for y, data in edges if probability in data]
    if not said:
        return [1 / len(edges) for _ in edges]
    if len(said) < len(edges):
        without = next(y for y, data in edges if probability not in data)
        raise InputError(
            f"graph: of the edges of node {name!r}, that to {without!r} has no {probability!r}, and others have; give it"
            " to all of them, or to none"
        )
    for y, share in said:
        if isinstance(share, bool) or not isinstance(share, numbers.Real):
            raise InputError(f"graph: the edge from {name!r} to {y!r} has {probability}={share!r}; give it a number")
    return [float(share) for _, share in said]
