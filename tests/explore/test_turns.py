import threading

from bellsketch.explore import turns


def test_nobody_starts_after_the_end(monkeypatch):
    """Whoever is at work finishes first."""
    monkeypatch.setattr(turns, "_turn", threading.Lock())
    monkeypatch.setattr(turns, "PATIENCE", 0.05)
    done = []

    def work():
        with turns.my_turn():
            done.append("worked")

    with turns.my_turn():
        assert not turns.no_more_turns()
    monkeypatch.setattr(turns, "PATIENCE", 5.0)
    assert turns.no_more_turns()
    late = threading.Thread(target=work, daemon=True)
    late.start()
    late.join(0.1)
    assert done == []
    turns._turn.release()
    late.join(5)
    assert done == ["worked"]
