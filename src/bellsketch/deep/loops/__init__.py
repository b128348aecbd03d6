"""Loops: who acts, who learns, and when."""
