"""Agents that learn from transitions with neural networks. Needs ``pip install bellsketch[deep]``."""
