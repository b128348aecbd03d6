"""Environments behind one interface: JAX-native ones (Gymnax) and those that run on the host (Gymnasium, ALE)."""
