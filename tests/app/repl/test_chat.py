from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.commands.chats import SHOWN_ID_CHARS
from app.repl.console import Ended
from app.repl.face import ReplFace
from app.settings.config import Settings, Value
from backend.engines.scripted import CARD, Pause, ScriptedEngine
from backend.types import ContextOverflowError, EngineError, ReasoningPiece, ToolCall
from tests.app.repl.chatting import chat, home_files, last_user_text, wait_until, written


async def test_each_line_is_answered() -> None:
    told = await chat("hi", "  ", "again", scripts=[["Hello ", "there."], ["And again."]])
    assert "› hi\n\n  scripted\n  Hello there.\n" in told.seen
    assert "› again\n" in told.seen
    assert "And again." in told.seen
    assert told.code == 0


async def test_answers_are_laid_out_as_markdown() -> None:
    told = await chat("hi", scripts=[["# Title\n\nSome **bold", "** words.\n\n- one\n- two\n"]])
    assert "\x1b[1mbold\x1b[0m" in told.text
    assert "**" not in told.seen
    assert "Some " in told.seen


async def test_the_figures_of_a_reply_stand_below_it() -> None:
    told = await chat("hi", scripts=[["Hello."]])
    assert "Hello.\n\n  0." in told.seen
    assert "ctx 2/8k" in told.seen
    assert "context 8k" in told.seen


@pytest.mark.parametrize("line", ["/quit", "/exit", "/bye", "/q"])
async def test_what_people_type_to_leave_leaves(line: str) -> None:
    told = await chat(line, "more", scripts=[["never said"]])
    assert told.code == 0
    assert told.engine.requests == []


async def test_the_rounds_of_the_command_line_hold() -> None:
    _, seen, engine = await run_tool("y", max_turns=1)
    assert "its rounds were used up" in seen
    assert len(engine.requests) == 1


async def test_two_slashes_send_text_that_begins_with_one() -> None:
    told = await chat("//etc is a folder", scripts=[["Yes."]])
    assert last_user_text(told.engine) == "/etc is a folder"


async def test_an_unknown_command_names_the_nearest_one() -> None:
    told = await chat("/sytem be brief")
    assert "Did you mean /system?" in told.seen
    assert not told.engine.requests


@pytest.mark.parametrize("error", [EngineError("It broke.", remedy="Mend it."), EngineError("odd")])
async def test_an_error_keeps_the_message_for_retry_and_the_loop(error: EngineError) -> None:
    told = await chat("a long text", "/retry", "bye", scripts=[[error], ["fine"], ["good"]])
    assert str(error) in told.seen
    assert error.remedy in told.seen
    assert "/retry sends it again" in told.seen
    assert "fine" in told.seen and "good" in told.seen
    texts = [request.messages[-1]["content"] for request in told.engine.requests if request.messages]
    assert texts == ["a long text", "a long text", "bye"]


async def test_a_reply_that_was_cut_says_so() -> None:
    from backend.types import ChatOutcome

    outcome = ChatOutcome(finish="length", prompt_tokens=9, new_tokens=4, text="once upon")
    told = await chat("hi", scripts=[["once upon", outcome]])
    assert "/continue continues it" in told.seen


async def test_a_thought_is_told_in_one_row() -> None:
    told = await chat("hi", scripts=[[ReasoningPiece("Let me "), ReasoningPiece("see."), "Yes."]])
    assert "╎ thought for 0.0 s" in told.seen
    assert "Let me" not in told.seen
    assert any("Let me see." in row for row in told.live)


async def test_show_thinking_writes_thoughts_out() -> None:
    settings = Settings({"show_thinking": Value(True, "--show-thinking")})
    told = await chat("hi", scripts=[[ReasoningPiece("Let me see."), "Yes."]], settings=settings)
    assert "╎ Let me see.\n" in told.seen


async def test_hostile_text_reaches_no_terminal() -> None:
    evil = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\u202ereversed\x00"
    told = await chat(
        f"hi {evil}",
        scripts=[[ReasoningPiece(evil), f"start {evil} end"], [EngineError(f"broke {evil}")]],
    )
    said = told.text + "".join(told.live)
    for sign in ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\x00", "\x07"):
        assert sign not in said


# ---- tools ---------------------------------------------------------------------------------

CALL = ToolCall("call_1", "write_note", {"path": "a.txt", "text": "hello"}, '{"path":"a.txt","text":"hello"}')


def calling(call: ToolCall = CALL) -> list[list[object]]:
    return [[call], ["Done."]]


async def run_tool(
    *answers: str | None, **options: object
) -> tuple[list[tuple[str, str]], str, ScriptedEngine]:
    from tools import tool

    ran: list[tuple[str, str]] = []

    @tool(does="write")
    def write_note(path: str, text: str) -> str:
        """Write a note."""
        ran.append((path, text))
        return "wrote it"

    told = await chat("go", scripts=calling(), answers=answers, tools=[write_note], **options)  # type: ignore[arg-type]
    return ran, told.seen, told.engine


async def test_an_approved_call_runs_and_is_told() -> None:
    ran, text, _ = await run_tool("y")
    assert ran == [("a.txt", "hello")]
    assert "╏ " in text and "approve?" in text
    assert "hello" in text
    assert "write_note" in text and "wrote it" in text
    assert "Done." in text


@pytest.mark.parametrize("answer", ["", "yes", "Y", "yy", "ok", "n", "n because", "s x", "1", None, "x"])
async def test_anything_but_an_exact_yes_is_no(answer: str | None) -> None:
    ran, _, _ = await run_tool(answer)
    assert ran == []


async def test_a_reason_reaches_the_model() -> None:
    _, _, engine = await run_tool("n not in this folder")
    assert "not in this folder" in str(engine.requests[-1].messages)


async def test_other_words_refuse_with_a_word_about_it_and_reach_the_model() -> None:
    _, text, engine = await run_tool("please take the other folder")
    assert "Refused: only y" in text
    assert "please take the other folder" in str(engine.requests[-1].messages)
    _, text, _ = await run_tool("n")
    assert "Refused" not in text


async def test_no_and_stop_ends_the_reply() -> None:
    _, text, engine = await run_tool("x")
    assert len(engine.requests) == 1
    assert "Stopped." in text


async def test_only_questions_that_just_appeared_are_armed() -> None:
    from tools import tool

    @tool(does="write")
    def write_note(path: str, text: str) -> str:
        """Write a note."""
        return "wrote it"

    told = await chat("go", scripts=calling(), answers=["y"], tools=[write_note])  # type: ignore[arg-type]
    assert told.person.asked[0][1] is True


async def test_control_characters_of_a_call_are_visible() -> None:
    call = ToolCall("c", "write_note", {"path": "a\x1b[2Jb", "text": "x\u202ey"}, "{}")
    from tools import tool

    @tool(does="write")
    def write_note(path: str, text: str) -> str:
        """Write a note."""
        return "wrote it"

    told = await chat("go", scripts=[[call], ["Done."]], answers=["n"], tools=[write_note])
    assert "␛[2J" in told.seen and "⟨U+202E⟩" in told.seen
    assert "\x1b[2J" not in told.text and "\u202e" not in told.seen


async def test_piped_lines_cannot_approve() -> None:
    from tools import tool

    ran: list[str] = []

    @tool(does="write")
    def write_note(path: str, text: str) -> str:
        """Write a note."""
        ran.append(path)
        return "wrote it"

    told = await chat("go", "y", scripts=[*calling(), ["More."]], tools=[write_note], piped=True)  # type: ignore[list-item]
    assert ran == []
    assert told.code == 5
    assert last_user_text(told.engine) == "y"


# ---- while a reply is written ----------------------------------------------------------------


async def test_ctrl_c_stops_the_reply_and_keeps_its_text() -> None:
    gate = asyncio.Event()
    faces: list[ReplFace] = []

    async def stop() -> None:
        await wait_until(lambda: "half a rep" in written(faces[0]))
        await faces[0].chat.interrupt()

    scripts = [["half a rep", Pause(until=gate), "ly"], ["fine"]]
    told = await chat("hi", stop, "again", scripts=scripts, watch=faces.append)
    assert "half a rep\n" in told.seen
    assert "Stopped." in told.seen
    assert "half a rep" in str(told.engine.requests[-1].messages)
    assert "fine" in told.seen


async def test_what_is_typed_meanwhile_waits_in_the_queue() -> None:
    gate = asyncio.Event()
    faces: list[ReplFace] = []

    async def type_ahead() -> None:
        await wait_until(lambda: faces[0].narrator.busy)
        await faces[0].send("second")
        await wait_until(lambda: faces[0].narrator.queued)
        gate.set()

    told = await chat("first", type_ahead, scripts=[["one", Pause(until=gate)], ["two"]], watch=faces.append)
    assert "› second   queued\n" in told.seen
    assert told.seen.count("› second") == 2
    assert told.seen.index("› second   queued") < told.seen.rindex("› second\n") < told.seen.index("two")


async def test_a_waiting_message_can_be_taken_back() -> None:
    gate = asyncio.Event()
    faces: list[ReplFace] = []

    async def type_ahead() -> None:
        from app.commands import run_line

        await wait_until(lambda: faces[0].narrator.busy)
        await faces[0].send("second")
        await run_line(faces[0], "/queue")
        await run_line(faces[0], "/queue remove 1")
        gate.set()

    told = await chat("first", type_ahead, scripts=[["one", Pause(until=gate)]], watch=faces.append)
    assert "Removed: second" in told.seen
    assert len(told.engine.requests) == 1


# ---- chats -----------------------------------------------------------------------------------


async def test_a_chat_is_kept_and_gone_on_with() -> None:
    first = await chat("remember the heron", scripts=[["I will."]])
    assert first.code == 0
    second = await chat("which bird?", scripts=[["The heron."]], last=True)
    assert "› remember the heron\n" in second.seen
    assert "I will." in second.seen
    assert len(second.engine.requests[0].messages or ()) == 3


async def test_going_on_without_a_chat_is_a_usage_failure() -> None:
    told = await chat("hi", last=True)
    assert told.code == 2
    assert "There is no chat to continue." in told.seen


async def test_a_chat_asks_again_when_it_is_opened_without_the_flag_it_began_with() -> None:
    await chat("hi", scripts=[["Hello."]], approve="all")
    modes: list[str] = []

    async def look(face: ReplFace) -> None:
        modes.append((await face.manager.settings(await face.session()))["approve"]["value"])

    faces: list[ReplFace] = []
    await chat("/help", lambda: look(faces[0]), last=True, watch=faces.append)
    await chat("/approve read", last=True)
    told = await chat("/help", lambda: look(faces[1]), last=True, watch=faces.append)
    assert modes == ["ask", "read"] and "tools read" in told.seen


async def test_a_first_message_that_was_being_written_is_the_draft_again() -> None:
    faces: list[ReplFace] = []
    await chat("/set temperature 1", lambda: faces[0].chat.keep_draft("half a thought"), watch=faces.append)
    for piped, drafts in ((True, []), (False, ["half a thought"])):
        assert (await chat("/help", piped=piped)).person.inserted == drafts
    assert (await chat("hi", private=True, scripts=[["yes"]])).person.inserted == []


@pytest.mark.parametrize(
    ("draft", "private", "kept"),
    [
        ("half a thought", False, 1),
        ("half a thought", True, 0),
        ("/mod", False, 0),
        ("!ls", False, 0),
        (" ", False, 0),
    ],
)
async def test_a_draft_begins_a_chat_only_where_it_is_a_message_that_is_kept(
    draft: str, private: bool, kept: int
) -> None:
    faces: list[ReplFace] = []
    found: list[int] = []

    async def write() -> None:
        chat = faces[0].chat
        chat.keep_draft(draft)
        await chat._settle_draft()
        assert (chat.session_id is not None) is bool(kept)
        found.append(len(await faces[0].kept.list(10)))

    await chat("/help", write, private=private, watch=faces.append)
    assert found == [kept]


async def test_a_draft_that_is_sent_while_it_is_kept_makes_one_chat() -> None:
    faces: list[ReplFace] = []

    async def both() -> None:
        chat = faces[0].chat
        chat.keep_draft("half a thought")
        first, second, _ = await asyncio.gather(chat.session(), chat.session(), chat._settle_draft())
        assert first == second
        assert len(await faces[0].kept.list(10)) == 1

    await chat("/help", both, watch=faces.append)


async def test_a_fork_leaves_the_first_chat_as_it_was() -> None:
    await chat("one", scripts=[["first"]])
    told = await chat("/fork", "two", "/resume", answers=["2"], scripts=[["second"]], last=True)
    assert told.seen.count("› one\n") == 3
    assert told.seen.rstrip().endswith("first") or "first" in told.seen[told.seen.rindex("› one") :]


async def test_an_empty_chat_leaves_nothing() -> None:
    await chat("/set temperature 0.5")
    told = await chat("/resume")
    assert "There are no chats yet." in told.seen


async def test_a_private_chat_leaves_no_word_on_a_disk(isolated_home: Path) -> None:
    told = await chat("the word is xylophone", scripts=[["xylophone it is"]], private=True)
    assert "xylophone it is" in told.seen
    assert "xylophone" not in home_files(isolated_home)


async def test_slash_private_opens_a_chat_that_is_not_kept(isolated_home: Path) -> None:
    told = await chat("/private", "the word is xylophone", scripts=[["yes"]])
    assert "nothing is saved unless you /export it" in told.seen
    assert "xylophone" not in home_files(isolated_home)


# ---- commands --------------------------------------------------------------------------------


async def test_a_setting_holds_from_the_next_message() -> None:
    told = await chat("/set temperature 0.25", "hi", scripts=[["yes"]])
    assert told.engine.requests[0].config.temperature == 0.25


async def test_retry_with_settings_of_its_own_keeps_those_of_the_chat() -> None:
    told = await chat("/set top_k 7", "hi", "/retry --temperature 0.2", "more", scripts=[["a"], ["b"], ["c"]])
    assert [request.config.temperature for request in told.engine.requests] == [None, 0.2, None]
    assert [request.config.top_k for request in told.engine.requests] == [7, 7, 7]


async def test_undo_gives_the_message_back() -> None:
    told = await chat("hi", "/undo", "other", scripts=[["a"], ["b"]])
    assert told.person.inserted == ["hi"]
    assert [turn["content"] for turn in told.engine.requests[-1].messages or ()] == ["other"]


async def test_a_prompt_file_is_a_command(isolated_home: Path) -> None:
    folder = isolated_home / ".config/fireside/prompts"
    folder.mkdir(parents=True)
    (folder / "haiku.md").write_text("---\ndescription: a poem\n---\nWrite a haiku about $ARGUMENTS.\n")
    told = await chat("/help", "/haiku the sea", scripts=[["Waves."]])
    assert "/haiku [TEXT]" in told.seen and "a poem" in told.seen
    assert last_user_text(told.engine) == "Write a haiku about the sea."


async def test_a_shell_line_goes_with_the_next_message() -> None:
    told = await chat("!echo from-the-shell", "what was that?", scripts=[["An echo."]])
    assert "from-the-shell" in told.seen
    assert "from-the-shell" in last_user_text(told.engine)
    assert "what was that?" in last_user_text(told.engine)


async def test_a_file_after_at_is_attached(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("the heron is grey")
    told = await chat("what is in @notes.txt?", scripts=[["A heron."]], workspace=str(tmp_path))
    assert "the heron is grey" in str(told.engine.requests[0].messages)


async def test_the_end_of_input_leaves_at_once() -> None:
    assert (await chat(Ended.LEAVE, "never said")).engine.requests == []


# ---- without a person ------------------------------------------------------------------------


async def test_piped_lines_are_answered_one_by_one() -> None:
    told = await chat("one", "two", scripts=[["first"], ["second"]], piped=True)
    assert told.seen == "scripted: first\nscripted: second\n"
    assert len(told.engine.requests[1].messages or ()) == 3


async def test_the_first_failure_of_piped_lines_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    scripts = [[EngineError("It broke.")], ["fine"]]
    told = await chat("one", "two", scripts=scripts, piped=True)  # type: ignore[arg-type]
    assert told.code == 1
    assert "It broke." in capsys.readouterr().err
    assert told.seen == "scripted: fine\n"


async def test_piped_lines_that_do_not_fit_exit_4(capsys: pytest.CaptureFixture[str]) -> None:
    told = await chat("one", scripts=[[ContextOverflowError(9000, 8192)]], piped=True)
    assert told.code == 4
    assert "9000" in capsys.readouterr().err


async def test_plain_words_stand_for_edges() -> None:
    told = await chat("hi", scripts=[[ReasoningPiece("hm"), "**Yes** `a`."]], plain=True)
    assert "scripted: **Yes** `a`.\n" in told.seen
    assert "thought: 0.0 s\n" in told.seen
    assert all(sign not in told.text for sign in "›╎╏\x1b")


# ---- more of replies and commands ------------------------------------------------------------


async def test_a_reply_tried_again_says_which_it_is() -> None:
    told = await chat("hi", "/retry", "/retry", scripts=[["one"], ["two"], ["three"]])
    assert "scripted   variant 2 of 2\n  two\n" in told.seen
    assert "scripted   variant 3 of 3\n  three\n" in told.seen


async def test_a_continued_reply_is_not_written_twice() -> None:
    gate = asyncio.Event()
    faces: list[ReplFace] = []

    async def stop() -> None:
        while "once upon" not in "".join(
            row for row in [faces[0].page._answer and faces[0].page._answer.source] if row
        ):  # type: ignore[union-attr]
            await asyncio.sleep(0.001)
        await faces[0].chat.interrupt()

    scripts = [["once upon", Pause(until=gate)], [" a time"]]
    told = await chat("hi", stop, "/continue", scripts=scripts, watch=faces.append)
    assert "scripted   continued\n" in told.seen
    assert told.seen.count("once upon") == 1
    assert "a time" in told.seen


async def test_edit_asks_anew_with_another_message() -> None:
    told = await chat("hi", "/edit hello", scripts=[["one"], ["two"]])
    assert last_user_text(told.engine) == "hello"
    assert len(told.engine.requests[-1].messages or ()) == 1


async def test_rewind_goes_back_to_before_a_chosen_message() -> None:
    told = await chat("one", "two", "/rewind", "other", answers=["2"], scripts=[["a"], ["b"], ["c"]])
    assert told.person.inserted == ["one"]
    assert [turn["content"] for turn in told.engine.requests[-1].messages or ()] == ["other"]


async def test_search_opens_the_chat_of_a_hit() -> None:
    await chat("the heron flies", scripts=[["It does."]])
    told = await chat("/search heron", answers=["1"])
    assert "user: the heron flies" in told.seen
    assert "› the heron flies\n" in told.seen


async def test_export_and_import_bring_a_chat_back(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    told = await chat("hello", f"/export {file}", scripts=[["Hi."]])
    assert file.stat().st_mode & 0o777 == 0o600
    assert str(file) in "".join(told.seen.split())
    told = await chat(f"/import {file}")
    assert "› hello\n" in told.seen


async def test_export_writes_over_nothing_without_a_yes(tmp_path: Path) -> None:
    file = tmp_path / "chat.md"
    file.write_text("mine")
    await chat("hello", f"/export {file}", scripts=[["Hi."]], answers=["n"])
    assert file.read_text() == "mine"


async def test_rename_and_resume_by_title() -> None:
    await chat("hello", "/rename On herons", scripts=[["Hi."]])
    told = await chat("/resume", answers=["herons"])
    *_, row = [row for row in told.seen.split("\n") if "On herons  " in row]
    assert len(row.split()[-1]) == SHOWN_ID_CHARS  # a title has more room than an id
    assert "On herons" in told.seen
    assert "› hello\n" in told.seen


async def test_resume_without_an_id_asks_at_the_start() -> None:
    await chat("hello", scripts=[["Hi."]])
    told = await chat(answers=["1"], resume="")
    assert "Which chat?" in told.seen
    assert "› hello\n" in told.seen


async def test_the_system_prompt_is_set_shown_and_taken_back() -> None:
    told = await chat("/system Be brief.", "hi", "/system", "/system none", "hi", scripts=[["a"], ["b"]])
    first, second = told.engine.requests
    assert (first.messages or ())[0] == {"role": "system", "content": "Be brief."}
    assert (second.messages or ())[0]["role"] == "user"
    assert "System prompt\n  Be brief." in told.seen


async def test_think_effort_and_params() -> None:
    told = await chat("/think off", "hi", "/effort high", "/params", scripts=[["a"]])
    assert told.engine.requests[0].config.enable_thinking is False
    assert "enable_thinking" in told.seen and "this chat" in told.seen
    assert "reasoning_effort" in told.seen


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/effort loads", "reasoning_effort must be one of"),
        ("/set temprature 1", "did you mean"),
        ("/set temperature hot", "must be a number"),
        ("/retry --temperature", "There are no messages yet."),
        ("/approve maybe", "approve must be one of"),
        ("/resume nothing", "No chat starts with"),
        ("/tools revoke 9", "Say which rule"),
        ("/tools aside", "Nothing was moved aside."),
        ("/tools aside allow 1", "nothing was moved aside"),
        ("/tools aside what", "show N, allow N or drop N"),
        ("/attach /none/such", "cannot be read"),
        ("/import /none/such", "such"),
        ("/theme nothing", "There is no theme"),
        ("/think perhaps", "expects on, off or auto"),
        ("/context", "total"),
        ("/keys", "ctrl+r"),
        ("/logs", "There is no log yet"),
        ("/copy", "Nothing to copy"),
        ("/continue", "no reply to continue"),
        ("/undo", "nothing to undo"),
        ("/fork", "this chat is empty"),
        ("/help retry", "regenerate the reply"),
        ("/approve plan", "The model can only read"),
    ],
)
async def test_what_commands_say(line: str, said: str) -> None:
    told = await chat(line)
    assert said in " ".join(told.seen.split())
    assert told.code == 0


async def test_a_home_folder_as_workspace_is_told(
    isolated_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(isolated_home)
    told = await chat("/approve read")
    assert "The workspace contains your whole home folder: names that begin with a dot ask" in " ".join(
        told.seen.split()
    )
    (isolated_home / "project").mkdir()
    monkeypatch.chdir(isolated_home / "project")
    assert "whole home folder" not in (await chat("/approve read")).seen


async def test_save_keeps_a_profile(isolated_home: Path) -> None:
    await chat("/system Be brief.", "/set temperature 0.25", "/save terse")
    text = (isolated_home / ".config/fireside/profiles/terse.toml").read_text()
    assert 'system = "Be brief."' in text
    assert "temperature = 0.25" in text


async def test_the_tools_of_a_model_that_cannot_call_are_told_as_such() -> None:
    from tools import tool

    @tool(does="write")
    def write_note(text: str) -> str:
        """Write a note."""
        return text

    engine = ScriptedEngine([["hello"]], closed=True, card=replace(CARD, supports_tools=False))
    told = await chat("hi", "/tools", engine=engine, tools=[write_note])
    seen = " ".join(told.seen.split())
    assert "write_note not offered" in seen
    assert "--tool-format generic" in seen


async def test_a_rule_is_shown_and_taken_back() -> None:
    from tools import tool

    ran: list[str] = []

    @tool(does="write")
    def write_note(path: str, text: str) -> str:
        """Write a note."""
        ran.append(path)
        return "wrote it"

    told = await chat(
        *("go", "again", "/tools", "/tools revoke 1", "once more"),
        scripts=[*calling(), *calling(), *calling()],
        answers=["s", "n"],
        tools=[write_note],
    )
    assert len(ran) == 2
    assert "Allowed in this chat:" in told.seen
    assert "rule 1" in told.seen
    assert "such calls ask again" in told.seen


async def test_what_was_moved_aside_is_shown_and_put_back(tmp_path: Path) -> None:
    from app import paths
    from tools.sandbox.aside import Aside

    space = tmp_path / "space"
    space.mkdir()
    for text in ("one", "two"):
        (space / ".envrc").write_text(text)
        Aside(paths.data_dir() / "aside").take(space, space / ".envrc", "made")
    told = await chat("/tools aside", "/tools aside show 1", "/tools aside allow 1", "/tools aside drop 1")
    seen = " ".join(told.seen.split())
    assert ".envrc, made" in seen
    assert "is back." in seen
    assert "It was deleted." in seen
    assert (space / ".envrc").read_text() == "one"
    assert Aside(paths.data_dir() / "aside").all() == []


async def test_edited_arguments_run_after_another_yes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf \'{"path": "b.txt", "text": "mine"}\' > "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    ran, text, _ = await run_tool("e", "y")
    assert ran == [("b.txt", "mine")]
    assert "mine" in text


async def test_a_form_of_a_tool_is_filled_in() -> None:
    from tools import Field, Form, ToolContext, tool

    got: list[object] = []

    @tool(does="nothing")
    async def ask_person(context: ToolContext) -> str:
        """Ask."""
        fields = (Field("count", "How many", "number"), Field("why", "Why", required=False))
        got.append(await context.ask(Form("Some details, please.", fields)))
        return "asked"

    call = ToolCall("c", "ask_person", {}, "{}")
    told = await chat("go", scripts=[[call], ["ok"]], answers=["many", "3", ""], tools=[ask_person])
    assert "Some details, please." in told.seen
    assert "a number, please" in told.seen
    assert got == [{"count": 3.0}]


async def test_a_choice_of_a_tool_is_made_by_its_number() -> None:
    from tools import Field, Form, ToolContext, tool

    got: list[object] = []

    @tool(does="nothing")
    async def ask_person(context: ToolContext) -> str:
        """Ask."""
        got.append(await context.ask(Form("Which?", (Field("bird", choices=("heron", "wren")),))))
        return "asked"

    call = ToolCall("c", "ask_person", {}, "{}")
    await chat("go", scripts=[[call], ["ok"]], answers=["2"], tools=[ask_person])
    await chat("go", scripts=[[call], ["ok"]], answers=["neither"], tools=[ask_person])
    assert got == [{"bird": "wren"}, None]


async def test_the_number_of_a_choice_counts_before_a_label_that_is_a_number() -> None:
    from tools import Field, Form, ToolContext, tool

    got: list[object] = []

    @tool(does="nothing")
    async def ask_person(context: ToolContext) -> str:
        """Ask."""
        got.append(await context.ask(Form("Which?", (Field("copies", choices=("2", "1", "all")),))))
        return "asked"

    call = ToolCall("c", "ask_person", {}, "{}")
    for said in ("1", "2", "all"):
        await chat("go", scripts=[[call], ["ok"]], answers=[said], tools=[ask_person])
    assert got == [{"copies": "2"}, {"copies": "1"}, {"copies": "all"}]


async def test_a_repository_is_fetched_after_a_yes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from backend import downloads

    file = downloads.RepoFile("bird.gguf", 10**9)
    offer = downloads.RemoteFile(
        "someone/bird-GGUF",
        "main",
        "mit",
        "Q4_K_M",
        (file,),
        tmp_path,
        missing_bytes=10**9,
        free_bytes=10**12,
    )

    def pull(wanted: downloads.RemoteFile, progress: Callable[[int, int], bool]) -> Path:
        assert progress(1, 2) and progress(2, 2)
        return wanted.model_path

    monkeypatch.setattr(downloads, "offer", lambda name: offer)
    monkeypatch.setattr(downloads, "pull", pull)
    refused = await chat("/model someone/bird-GGUF", answers=["2"])
    assert "0.9 GiB" in refused.seen and "licence mit" in refused.seen
    assert refused.engine.card.model_id == "scripted"
    told = await chat("/model someone/bird-GGUF", "hi", answers=["1"], scripts=[["yes"]])
    assert told.engine.card.model_id == str(tmp_path / "bird.gguf")
    assert "fetched 100 %" in told.seen


async def test_hostile_titles_and_names_are_shown_clean(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;x\x07bird\u202e"
    await chat("hello", f"/rename {evil}", scripts=[["Hi."]])
    file = tmp_path / "evil\x1b[2J.txt"
    file.write_text("x")
    told = await chat("/resume", "/search hello", f"/attach {file}", f"/{evil}", answers=["", ""])
    assert "bird" in told.seen
    for sign in ("\x1b[2J", "\x1b]", "\u202e", "\x07"):
        assert sign not in told.text


async def test_a_private_text_is_edited_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor, seen = tmp_path / "editor.sh", tmp_path / "seen"
    editor.write_text(f'#!/bin/sh\necho "$1" > {seen}\nprintf "Be brief." > "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    told = await chat("/system edit", "hi", scripts=[["yes"]], private=True)
    if Path("/dev/shm").is_dir():
        assert seen.read_text().startswith("/dev/shm/")
        assert (told.engine.requests[0].messages or ())[0]["content"] == "Be brief."
    else:
        assert "no in-memory folder" in told.seen


async def test_a_private_text_is_not_edited_on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.frontend.editor.memory_folder", lambda: None)
    monkeypatch.setenv("EDITOR", "false")
    told = await chat("/system edit", private=True)
    assert "is written to disk." in told.seen


async def test_a_long_output_is_cut_in_the_middle_and_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    told = await chat("!seq 100000", "how many?", scripts=[["Many."]])
    said = last_user_text(told.engine)
    assert len(said) < 20_000
    assert "characters left out, the whole output is in " in said
    whole = said.partition("the whole output is in ")[2].partition("]")[0]
    assert Path(whole).read_text().endswith("100000\n")
    Path(whole).unlink()


async def test_cd_holds_for_the_next_shell_line(tmp_path: Path) -> None:
    told = await chat(f"!cd {tmp_path}", "!pwd", "!cd nowhere")
    assert f"  {tmp_path.resolve()}\n" in told.seen or str(tmp_path.resolve()) in "".join(told.seen.split())
    assert "there is no folder" in told.seen


async def test_a_theme_is_used_from_now_on() -> None:
    told = await chat("/theme", "/theme daylight", answers=["moss"])
    assert "The theme is now moss." in told.seen
    assert "The theme is now daylight." in told.seen
