"""A demo file is read whole or refused with one sentence that names the place."""

from pathlib import Path

import pytest

from app.demo.script import read_demo
from app.exits import Failure

GOOD = """
title = "First chat"
size = [80, 24]
replies = ["Hello."]
[workspace]
"src/a.py" = "x = 1"
[[steps]]
type = "Say hello."
[[steps]]
press = "enter"
[[steps]]
wait = "idle"
[[steps]]
screenshot = "first-chat"
"""


def test_a_demo_is_read_with_its_steps_in_order(tmp_path: Path) -> None:
    file = tmp_path / "first.toml"
    file.write_text(GOOD)
    demo = read_demo(file)
    assert demo.size == (80, 24)
    assert demo.workspace == {"src/a.py": "x = 1"}
    assert [(step.action, step.value) for step in demo.steps] == [
        ("type", "Say hello."),
        ("press", "enter"),
        ("wait", "idle"),
        ("screenshot", "first-chat"),
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (GOOD + '[[steps]]\nclick = "ok"\n', "steps.5.click"),
        (GOOD + '[[steps]]\ntype = "a"\npress = "b"\n', "exactly one of"),
        (GOOD + "[[steps]]\n", "exactly one of"),
        (GOOD + '[[steps]]\nscreenshot = "../../etc/passwd"\n', "screenshot"),
        (GOOD.replace("80, 24", "8, 24"), "size"),
        (GOOD.replace('"src/a.py"', '"../a.py"'), "'../a.py'"),
        (GOOD.replace('"src/a.py"', '"/etc/a"'), "'/etc/a'"),
        (GOOD.replace("title", "titel"), "title"),
        ('chat_template = "no.jinja"\n' + GOOD, "chat_template"),
        ("title = \n", "line 1"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "demo.toml"
    file.write_text(text)
    with pytest.raises(Failure) as raised:
        read_demo(file)
    assert place in raised.value.message
    assert "demo.toml" in raised.value.message
    assert raised.value.exit_code == 2


def test_a_missing_file_is_a_failure_too(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="No such file"):
        read_demo(tmp_path / "none.toml")


def test_a_template_is_a_file_beside_the_demo_or_the_text_itself(tmp_path: Path) -> None:
    file = tmp_path / "demo.toml"
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    file.write_text('chat_template = "chat.jinja"\n' + GOOD)
    assert read_demo(file).template == "{{ messages }}"
    file.write_text('chat_template = "{{ bos }}"\n' + GOOD)
    assert read_demo(file).template == "{{ bos }}"
