"""The agents: what distinguishes them is a network's head, action values and a loss. Nothing else."""
