from __future__ import annotations

import base64
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import paths
from app.terminal import clipboard
from app.terminal.clipboard import OSC52_LIMIT, ClipboardError, copy, osc52, paste, save

PLAIN = {"TERM": "xterm-256color", "PATH": "/nowhere"}
SSH = {**PLAIN, "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}
TMUX = {"TMUX": "/tmp/tmux-0/default,1,0"}
SCREEN = {"STY": "123.pts-0"}


def fake(folder: Path, name: str, body: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def payload(sequence: str) -> str:
    """The text that a terminal finds in an OSC 52, out of whatever wraps it."""
    if sequence.startswith("\x1bPtmux;"):
        sequence = sequence.removeprefix("\x1bPtmux;").removesuffix("\x1b\\").replace("\x1b\x1b", "\x1b")
    elif sequence.startswith("\x1bP"):
        parts = re.findall("\x1bP(.*?)\x1b\\\\", sequence, re.DOTALL)
        assert all(len(part) < 256 for part in parts)
        sequence = "".join(parts)
    found = re.fullmatch("\x1b\\]52;c;([A-Za-z0-9+/=]*)\x07", sequence)
    assert found is not None
    return base64.b64decode(found[1]).decode()


def test_the_very_bytes_of_each_form() -> None:
    assert osc52("h\u00e9llo", PLAIN) == "\x1b]52;c;aMOpbGxv\x07"
    assert osc52("h\u00e9llo", {**PLAIN, **TMUX}) == "\x1bPtmux;\x1b\x1b]52;c;aMOpbGxv\x07\x1b\\"
    assert osc52("h\u00e9llo", {**PLAIN, **SCREEN}) == "\x1bP\x1b]52;c;aMOpbGxv\x07\x1b\\"


@given(
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=2000), st.sampled_from(["", "t", "s"])
)
def test_every_form_holds_the_text(text: str, within: str) -> None:
    sequence = osc52(text, {**PLAIN, **({"t": TMUX, "s": SCREEN}.get(within, {}))})
    assert sequence is not None
    assert payload(sequence) == text


def test_a_text_that_is_too_long_has_no_form() -> None:
    assert osc52("x" * (OSC52_LIMIT // 4 * 3), PLAIN) is not None
    assert osc52("x" * OSC52_LIMIT, PLAIN) is None


def test_over_ssh_in_tmux_nothing_is_claimed(tmp_path: Path) -> None:
    sent: list[str] = []
    copied = copy("h\u00e9llo", sent.append, environ={**SSH, **TMUX})
    assert sent == ["\x1bPtmux;\x1b\x1b]52;c;aMOpbGxv\x07\x1b\\"]
    assert copied.way == "terminal"
    assert copied.notice() == "1 line sent to the terminal, OSC 52"
    assert "copied" not in copied.notice()


def test_tmux_is_given_the_text_too(tmp_path: Path) -> None:
    fake(tmp_path, "tmux", f'echo "$@" > {tmp_path}/asked; /bin/cat > {tmp_path}/text')
    copy("a\nb", lambda _: None, environ={**SSH, **TMUX, "PATH": str(tmp_path)})
    assert (tmp_path / "asked").read_text() == "load-buffer -w -\n"
    assert (tmp_path / "text").read_text() == "a\nb"


@pytest.mark.parametrize("send", [True, False])
def test_what_the_terminal_cannot_take_becomes_a_private_file(send: bool) -> None:
    text = "x" * OSC52_LIMIT if send else "short"
    sent: list[str] = []
    copied = copy(text, sent.append if send else None, environ=SSH)
    assert not sent
    assert copied.path is not None
    assert str(copied.path) in copied.notice()
    assert copied.path.read_text() == text
    assert stat.S_IMODE(copied.path.stat().st_mode) == 0o600


def test_a_private_chat_leaves_no_file() -> None:
    with pytest.raises(ClipboardError, match="private chat"):
        copy("secret", None, keep_off_disk=True, environ=PLAIN)
    assert not paths.state_dir().exists()


def test_a_native_tool_comes_first_at_home_and_is_proof(tmp_path: Path) -> None:
    fake(tmp_path, "xclip", f"/bin/cat > {tmp_path}/text")
    environ = {**PLAIN, "PATH": str(tmp_path), "DISPLAY": ":0"}
    sent: list[str] = []
    copied = copy("one\ntwo\n", sent.append, environ=environ)
    assert (copied.way, copied.tool, copied.notice()) == ("tool", "xclip", "copied 2 lines")
    assert (tmp_path / "text").read_text() == "one\ntwo\n"
    assert not sent


def test_over_ssh_the_terminal_comes_first(tmp_path: Path) -> None:
    fake(tmp_path, "xclip", "/bin/cat > /dev/null")
    environ = {**SSH, "PATH": str(tmp_path), "DISPLAY": "localhost:10"}
    assert copy("x", lambda _: None, environ=environ).way == "terminal"
    assert copy("x" * OSC52_LIMIT, lambda _: None, environ=environ).tool == "xclip"


@pytest.mark.parametrize("body", ["exit 1", "kill -9 $$", "while :; do :; done"])
def test_a_tool_that_fails_or_hangs_claims_nothing(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "TOOL_TIME_S", 0.3)
    fake(tmp_path, "wl-copy", body)
    environ = {**PLAIN, "PATH": str(tmp_path), "WAYLAND_DISPLAY": "wayland-0"}
    assert copy("x", lambda _: None, environ=environ).way == "terminal"


def test_a_tool_that_stays_to_serve_does_not_hold_the_copy_up(tmp_path: Path) -> None:
    fake(tmp_path, "wl-copy", "/bin/cat > /dev/null; /bin/sleep 8 &")
    environ = {**PLAIN, "PATH": str(tmp_path), "WAYLAND_DISPLAY": "wayland-0"}
    assert copy("x", None, environ=environ).tool == "wl-copy"


def test_macos_is_told_the_encoding_where_no_locale_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard.sys, "platform", "darwin")
    fake(tmp_path, "pbcopy", f"/bin/cat > /dev/null; echo $LC_ALL > {tmp_path}/locale")
    assert copy("\u00e9", None, environ={**PLAIN, "PATH": str(tmp_path), "LC_ALL": "C"}).tool == "pbcopy"
    assert "UTF-8" in (tmp_path / "locale").read_text()


def test_windows_gets_its_own_encoding(tmp_path: Path) -> None:
    fake(tmp_path, "clip.exe", f"/bin/cat > {tmp_path}/text")
    copy("\u00e9\U0001f525", None, environ={**PLAIN, "PATH": str(tmp_path), "WSL_DISTRO_NAME": "Debian"})
    assert (tmp_path / "text").read_bytes().decode("utf-16-le") == "\u00e9\U0001f525"


@given(st.text(st.characters(codec=None), max_size=200))
def test_a_paste_of_it_cannot_run_anything(text: str) -> None:
    sequence = osc52(text, PLAIN)
    assert sequence is not None
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", payload(sequence))


def test_a_dumb_terminal_is_sent_nothing() -> None:
    sent: list[str] = []
    assert copy("x", sent.append, environ={**PLAIN, "TERM": "dumb"}).way == "file"
    assert not sent


def test_an_unwritable_folder_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FIRESIDE_STATE", str(tmp_path / "file" / "state"))
    with pytest.raises(ClipboardError, match="Nothing was copied"):
        save("x")


class TestPaste:
    def test_the_tools_text(self, tmp_path: Path) -> None:
        fake(tmp_path, "wl-copy", "exit 1")
        fake(tmp_path, "wl-paste", 'printf "a\\r\\nb"')
        assert paste({"PATH": str(tmp_path), "WAYLAND_DISPLAY": "w"}) == "a\nb"

    def test_a_tool_that_fails_leaves_it_to_the_next(self, tmp_path: Path) -> None:
        fake(tmp_path, "xclip", "exit 1")
        fake(tmp_path, "xsel", "printf text")
        assert paste({"PATH": str(tmp_path), "DISPLAY": ":0"}) == "text"

    def test_too_much_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(clipboard, "PASTE_LIMIT_BYTES", 3)
        fake(tmp_path, "xclip", "printf four")
        with pytest.raises(ClipboardError, match="16 MiB"):
            paste({"PATH": str(tmp_path), "DISPLAY": ":0"})

    @pytest.mark.parametrize(("environ", "word"), [(SSH, "your own machine"), (PLAIN, "xclip")])
    def test_without_a_tool_it_says_what_to_do(self, environ: dict[str, str], word: str) -> None:
        with pytest.raises(ClipboardError, match=word):
            paste(environ)
