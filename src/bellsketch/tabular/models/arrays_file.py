"""Models of many states: arrays in an ``.npz`` file, and graphs."""

import numbers
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bellsketch.core.checks import known_keys
from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.tabular.models.named import END, NamedModel, errors_of, named_model
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
    arrays |= {"terminations": model.terminations}
    if names is not None:
        arrays["names"] = np.array(_checked_names("names", np.asarray(names, dtype=str), model.num_states))
    np.savez_compressed(path, **arrays)


def read_npz(path: Path) -> NamedModel:
    """From ``transitions`` (dense, or sparse as :func:`save_npz` writes it), ``rewards``, ``discount``, and maybe
    ``terminations`` and ``names``.
    """
    arrays = _arrays(path)
    with errors_of(path):
        if "transitions" not in arrays and {"format", "shape", "data"} <= arrays.keys():
            raise InputError(
                "is a matrix as scipy.sparse.save_npz writes it, without rewards and discount; write it with"
                " bs.save_npz(path, bs.MRP(matrix, rewards, discount))"
            )
        parts = [f"transitions_{part}" for part in SPARSE]
        known_keys("the file", arrays, (*KEYS, *parts))
        for key in arrays.keys() - {"names"}:
            if arrays[key].dtype.kind not in "buif":
                raise InputError(f"{key}: holds {arrays[key].dtype}; save numbers")
        if all(part in arrays for part in parts):
            if "transitions" in arrays:
                raise InputError(f"has both transitions and {parts[0]}; save one of them")
            arrays["transitions"] = _sparse(*(arrays.pop(part) for part in parts))
        if missing := [key for key in KEYS[:3] if key not in arrays]:
            raise InputError(f"has no array {missing[0]!r}, only {', '.join(arrays)}")
        if arrays["rewards"].ndim not in (1, 2):
            raise InputError(f"rewards: has shape {arrays['rewards'].shape}; save one for each state")
        if arrays["discount"].shape != ():
            raise InputError(f"discount: has shape {arrays['discount'].shape}; save one number")
        mrp = MRP(arrays["transitions"], arrays["rewards"], float(arrays["discount"]), arrays.get("terminations"))
        names = _checked_names("names", arrays.get("names", np.arange(mrp.num_states)), mrp.num_states)
    return NamedModel(mrp, names)


def _arrays(path: Path) -> dict[str, Any]:
    """What a file holds."""
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} cannot be read as .npz: it is none; write it with bs.save_npz or np.savez")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: _array(path, file, key) for key in file.files}
    except InputError:
        raise
    except Exception as error:  # a damaged archive fails in as many ways as its parts have readers
        raise InputError(f"{path} cannot be read as .npz: {error}; write it again with bs.save_npz") from None
    if strange := [key for key, array in arrays.items() if not isinstance(array, np.ndarray)]:
        raise InputError(f"{path}: {strange[0]} is no array; write the file with bs.save_npz or np.savez")
    return arrays


def _array(path: Path, file: Any, key: str) -> Any:
    try:
        return file[key]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise InputError(f"{path}: {key} holds objects of Python's; save numbers, and names as text") from None


def _sparse(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: np.ndarray) -> sp.csr_array:
    try:
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(f"transitions: are no sparse matrix: {error}; write it with bs.save_npz") from None
    return matrix


def _checked_names(argument: str, names: np.ndarray, num_states: int) -> tuple[str, ...]:
    if names.shape != (num_states,):
        count = names.size if names.ndim == 1 else f"an array of shape {names.shape} as"
        raise InputError(f"{argument}: has {count} names for {num_states} states; give one to each")
    listed = tuple(map(str, names.tolist()))
    if len(set(listed)) < num_states:
        twice = next(name for name in listed if listed.count(name) > 1)
        raise InputError(f"{argument}: {twice!r} is there more than once; call each state something else")
    return listed


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
            f"graph: of the edges of node {name!r}, that to {without!r} has no {probability!r}, and others have; give"
            " it to all of them, or to none"
        )
    for y, share in said:
        if isinstance(share, bool) or not isinstance(share, numbers.Real):
            raise InputError(f"graph: the edge from {name!r} to {y!r} has {probability}={share!r}; give it a number")
    return [float(share) for _, share in said]
