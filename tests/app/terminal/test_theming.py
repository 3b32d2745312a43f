from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import paths
from app.terminal import theming
from app.terminal.colors import blend, contrast, difference, indexed, is_dark, nearest_index, rgb_of
from app.terminal.theming import CODE, ROLES, SHIPPED, TONES, Role, Theme, ThemeError, Tone

COLORED = [name for name in SHIPPED if name != "terminal"]
GROUNDS: tuple[Role, ...] = ("background", "surface", "panel", "code_background")
TEXTS: tuple[Role, ...] = (
    *("text", "muted", "primary", "accent", "user", "assistant"),
    *("reasoning", "tool", "approval", "success", "warning", "error"),
)
COLORS = st.tuples(*[st.integers(0, 255)] * 3).map(lambda rgb: "#{:02x}{:02x}{:02x}".format(*rgb))


def pairs(high: bool) -> list[tuple[Tone, Tone, float]]:
    """Each pair that look.md promises, with the ratio it needs."""
    text, rest = (7.0, 4.5) if high else (4.5, 3.0)
    tints: tuple[Role, ...] = ("diff_add_background", "diff_remove_background", "selection")
    needed: list[tuple[Tone, Tone, float]] = [(role, ground, text) for role in TEXTS for ground in GROUNDS]
    needed += [("faint", ground, rest) for ground in ("background", "code_background", "surface")]
    needed += [("scrollbar", "background", rest)]
    needed += [("text", tint, text) for tint in tints] + [("muted", tint, rest) for tint in tints]
    for sign in ("diff_add", "diff_remove"):
        needed += [(sign, f"{sign}_background", text), (sign, "panel", text)]
    return [
        *needed,
        ("background", "primary", text),
        ("background", "approval", text),
        ("background", "error", text),
    ]


def theme(name: str) -> Theme:
    return theming.read(name)


@pytest.mark.parametrize("name", COLORED)
def test_every_contrast_in_true_colour_and_in_256(name: str) -> None:
    colors = theme(name).colors
    assert colors is not None
    needed = pairs(name == "high-contrast")
    assert len(needed) == 65
    for role, ground, ratio in needed:
        assert contrast(colors[role].hex, colors[ground].hex) >= ratio, (role, ground)
        assert contrast(indexed(colors[role].index), indexed(colors[ground].index)) >= ratio, (role, ground)


@pytest.mark.parametrize("name", COLORED)
def test_roles_of_a_theme_are_told_apart_by_their_colour(name: str) -> None:
    colors = theme(name).colors
    assert colors is not None
    assert len({colors[role].hex for role in ROLES}) == len(ROLES)
    assert theme(name).dark == is_dark(colors["background"].hex)


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("depth", ["truecolor", "256", "standard", None])
@pytest.mark.parametrize("dark", [True, False])
def test_every_palette_has_every_tone(name: str, depth: theming.ColorSystem | None, dark: bool) -> None:
    palette = theming.palette(theme(name), depth, dark_ground=dark)
    assert set(palette.colors) == set(palette.ansi) == set(TONES)
    assert set(palette.syntax) == set(CODE)
    assert palette.tones == (depth in ("256", "truecolor") and name != "terminal")
    assert bool(palette.attributes) != palette.tones


def test_light_grounds_use_only_red_blue_and_magenta() -> None:
    assert set(theming.ansi_table().light.values()) <= {None, 1, 4, 5, theming.REVERSE}


def test_the_terminal_theme_never_asks_for_more_than_16_colours() -> None:
    terminal = theme("terminal")
    assert theming.palette(terminal, "truecolor").depth == "standard"
    assert theming.palette(terminal, None).depth is None


@pytest.mark.parametrize("dark", [True, False])
def test_a_switch_keeps_to_the_terminal_not_to_the_last_theme(dark: bool) -> None:
    drawn = theming.palette(theme("daylight"), "256", dark_ground=dark)
    drawn = theming.switch(drawn, theme("terminal"))
    assert (drawn.depth, drawn.dark) == ("standard", dark)
    drawn = theming.switch(drawn, theme("hearth"))
    assert (drawn.depth, drawn.dark) == ("256", True)


@pytest.mark.parametrize(
    ("answer", "environ", "dark"),
    [
        ("\x1b]11;rgb:1919/1414/1111\x1b\\", {}, True),
        ("\x1b]11;rgb:ffff/ffff/ffff\x07", {"COLORFGBG": "15;0"}, False),
        ("\x1b]11;rgba:f/f/f/f\x07", {}, False),
        ("\x1b]11;#fbf9f4\x07", {}, False),
        ("nonsense", {"COLORFGBG": "0;15"}, False),
        (None, {"COLORFGBG": "15;default;0"}, True),
        (None, {"COLORFGBG": "0;7"}, False),
        (None, {"COLORFGBG": "12;8"}, True),
        (None, {"COLORFGBG": "default;default"}, True),
        (None, {}, True),
    ],
)
def test_ground(answer: str | None, environ: dict[str, str], dark: bool) -> None:
    assert theming.ground_is_dark(answer, environ) is dark


@given(st.text())
def test_no_answer_of_a_terminal_is_an_error(answer: str) -> None:
    assert theming.ground_is_dark(answer, {"COLORFGBG": answer}) in (True, False)


class TestOwnThemes:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("FIRESIDE_CONFIG", str(tmp_path))
        (tmp_path / "themes").mkdir()
        return tmp_path / "themes"

    def own(self, folder: Path, name: str, text: str) -> None:
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")

    def text(self, name: str = "mine") -> str:
        shipped = Path(theming.__file__).parents[2] / "themes" / "hearth.toml"
        return shipped.read_text("utf-8").replace('"hearth"', f'"{name}"')

    def test_it_is_listed_and_read(self, folder: Path) -> None:
        self.own(folder, "mine", self.text())
        assert theming.names() == [*SHIPPED, "mine"]
        assert theming.choose("mine") == (theming.read("mine"), None)

    def test_indices_and_derived_values_may_be_left_out(self, folder: Path) -> None:
        text = self.text().replace('["#f28d5b", 209]', '"#F28D5B"').split("[derived]")[0]
        self.own(folder, "mine", text)
        colors = theming.read("mine").colors
        assert colors is not None
        assert colors["primary"] == theming.Shade("#f28d5b", nearest_index("#f28d5b"))
        assert colors["chip"] == colors["panel"]
        assert colors["ghost"].hex == "#4f4841"

    @pytest.mark.parametrize(
        ("old", "new", "line", "word"),
        [
            ("dark = true", "dark = 3", 3, "dark must be true or false"),
            ("dark = true\n", "", 1, "dark must be true or false"),
            ("#221c19", "#22", 7, "'#22' is not a colour"),
            ("234]", "15]", 7, "surface must be"),
            ('["#221c19", 234]', "7", 7, "surface must be"),
            ('surface                = ["#221c19", 234]\n', "", 5, "surface is missing"),
            ("surface   ", "surfaces  ", 7, "did you mean surface?"),
            ('"muted italic"', '"muted blink"', 39, "comment must be a role"),
            ("keyword     =", "keywords    =", 36, "not a part of code"),
            ("[derived]", "[derived", 30, "Expected"),
            ('name = "mine"', 'name = "other"', 1, "name must be 'mine'"),
            ("ghost   ", "ghosts  ", 33, "ghosts is not one of"),
        ],
    )
    def test_a_broken_one_names_file_and_line_and_the_default_is_used(
        self, folder: Path, old: str, new: str, line: int, word: str
    ) -> None:
        assert old in self.text()
        self.own(folder, "mine", self.text().replace(old, new, 1))
        theme, problem = theming.choose("mine")
        assert theme.name == theming.DEFAULT
        assert problem is not None
        assert f"mine.toml, line {line}: " in str(problem)
        assert word in str(problem)
        assert "\n" not in str(problem)

    @given(data=st.binary(max_size=300))
    def test_whatever_a_file_holds_is_a_theme_or_one_error(
        self, data: bytes, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.mktemp("config") / "themes"
        folder.mkdir()
        (folder / "mine.toml").write_bytes(data)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FIRESIDE_CONFIG", str(folder.parent))
            theme, problem = theming.choose("mine")
        assert theme.name == theming.DEFAULT
        assert isinstance(problem, ThemeError)

    def test_a_huge_file_and_a_device_are_refused(self, folder: Path) -> None:
        self.own(folder, "huge", "#" * (theming.LIMIT_BYTES + 1))
        (folder / "zero.toml").symlink_to("/dev/zero")
        for name in ("huge", "zero"):
            assert isinstance(theming.choose(name)[1], ThemeError)

    def test_own_comes_before_shipped(self, folder: Path) -> None:
        self.own(folder, "paper", self.text("paper").replace("dark, warm, default", "all mine"))
        assert theming.read("paper").title == "all mine"
        assert theming.names() == list(SHIPPED)

    def test_an_unknown_name_offers_a_close_one(self, folder: Path) -> None:
        assert folder.is_dir()
        with pytest.raises(ThemeError, match="Did you mean hearth"):
            theming.read("heart")
        for name in ("../../etc/passwd", "a\x1b[31m", ""):
            with pytest.raises(ThemeError) as raised:
                theming.read(name)
            assert "\x1b" not in str(raised.value)


class TestColors:
    # from the test data of Sharma, Wu and Dalal, in sRGB: black and white, and two near greys
    def test_difference(self) -> None:
        assert difference("#000000", "#ffffff") == pytest.approx(100, abs=0.1)
        assert difference("#808080", "#818181") < 1
        assert difference("#ff0000", "#00ff00") == pytest.approx(86.6, abs=0.3)

    @given(COLORS, COLORS)
    def test_difference_is_symmetric(self, one: str, other: str) -> None:
        assert difference(one, other) == pytest.approx(difference(other, one), abs=1e-9)
        assert difference(one, one) == 0

    @given(st.integers(16, 255))
    def test_a_colour_of_the_palette_is_found_again(self, index: int) -> None:
        assert indexed(nearest_index(indexed(index))) == indexed(index)

    @given(COLORS, COLORS, st.floats(0, 1))
    def test_a_blend_lies_between(self, ground: str, color: str, share: float) -> None:
        mixed = rgb_of(blend(ground, color, share))
        for value, *ends in zip(mixed, rgb_of(ground), rgb_of(color), strict=True):
            assert min(ends) <= value <= max(ends)

    @given(st.text())
    def test_only_colours_are_colours(self, text: str) -> None:
        try:
            assert json.dumps(rgb_of(text))
        except ValueError as err:
            assert "colour" in str(err)


@pytest.mark.parametrize("text", ["name = " + "[" * 20_000 + "]" * 20_000, "name = " + "9" * 5_000])
def test_a_hostile_theme_is_one_readable_error(text: str) -> None:
    file = paths.config_file().parent / "themes" / "deep.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ThemeError, match=r"deep\.toml"):
        theming.read("deep")
