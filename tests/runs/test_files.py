"""Files that are whole."""

import pytest

from bellsketch.runs.files import replace_text


def test_the_text_and_nothing_beside_it(tmp_path):
    for text in ("ö\n", "", "longer\r\n"):
        replace_text(tmp_path / "file", text)
        assert (tmp_path / "file").read_bytes() == text.encode()
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_written_leaves_the_old_text(tmp_path):
    replace_text(tmp_path / "file", "old")
    with pytest.raises(UnicodeEncodeError):
        replace_text(tmp_path / "file", "new \udc00")
    assert (tmp_path / "file").read_text() == "old"
