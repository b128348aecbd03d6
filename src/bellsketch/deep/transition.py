"""What agents learn from."""

from typing import Any, NamedTuple


class Transition(NamedTuple):
    """One step, or n of them: after ``action`` in ``observation``, ``reward`` and then ``next_observation``.

    Names follow time: ``discount`` is γ (γⁿ after n steps), and 0 where the episode has terminated. An episode that was
    cut off goes on as far as its discount is concerned.
    """

    observation: Any
    action: Any
    reward: Any
    discount: Any
    next_observation: Any
