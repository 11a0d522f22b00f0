"""Sessions on disk, rewinding, stores, failures at the start, and hosts that ask much."""

import asyncio
import os
import signal
import sys
import uuid

from support import *
from support import main


def long_behaviour(function):
    return behaviour(function, limit=200)


@behaviour
async def a_session_is_listed_read_renamed_tagged_and_deleted_by_the_helpers(case):
    one, two = Script(call("Bash", command="echo hi"), "first"), Script("second")
    async with ClaudeSDKClient(case.options()) as client:
        session = result(await turn(client, f"what is first {one}")).session_id
        await turn(client, f"what is second {two}")
    info, = list_sessions(directory=case.cwd)
    assert info.session_id == session and info.cwd == case.cwd
    assert info.first_prompt.startswith("what is first")
    messages = get_session_messages(session, directory=case.cwd)
    kinds = [m.type for m in messages]
    assert kinds == ["user", "assistant", "user", "assistant", "user", "assistant"], kinds
    assert messages[0].message["content"] == f"what is first {one}", "prompts are plain text"
    assert messages[-1].message["content"][0]["text"] == "second"
    rename_session(session, "A title", directory=case.cwd)
    tag_session(session, "a-tag", directory=case.cwd)
    info = get_session_info(session, directory=case.cwd)
    assert info.custom_title == "A title" and info.summary == "A title" and info.tag == "a-tag"
    three = Script("third")
    messages = await ask(case, three, resume=session)
    assert result(messages).session_id == session
    assert get_session_info(session, directory=case.cwd).custom_title == "A title"
    delete_session(session, directory=case.cwd)
    assert list_sessions(directory=case.cwd) == []


@behaviour
async def live_messages_have_the_ids_of_the_records(case):
    script = Script(call("Bash", command="ls"), "done")
    messages = await ask(case, script)
    stored = {m.uuid for m in get_session_messages(result(messages).session_id, directory=case.cwd)}
    live = {m.uuid for m in messages if isinstance(m, (AssistantMessage, UserMessage))}
    assert live and live <= stored


@behaviour
async def a_session_is_resumed_forked_and_continued(case):
    one = Script("first")
    session = result(await ask(case, f"remember blue {one}")).session_id
    two = Script("second")
    assert result(await ask(case, two, resume=session)).session_id == session
    assert "remember blue" in json.dumps(two.sent(0)["body"]["messages"])
    three = Script("third")
    fork = result(await ask(case, three, resume=session, fork_session=True)).session_id
    assert fork != session and "remember blue" in json.dumps(three.sent(0)["body"]["messages"])
    assert len(get_session_messages(session, directory=case.cwd)) == 4
    four = Script("fourth")
    assert result(await ask(case, four, continue_conversation=True)).session_id == fork
    assert "third" in json.dumps(four.sent(0)["body"]["messages"])


@behaviour
async def a_chosen_id_names_the_session_and_a_copy(case):
    chosen, copy = str(uuid.uuid4()), str(uuid.uuid4())
    assert result(await ask(case, Script("a"), session_id=chosen)).session_id == chosen
    assert result(await ask(case, Script("b"), resume=chosen, fork_session=True, session_id=copy)).session_id == copy


@behaviour
async def continuing_where_there_is_nothing_begins_anew(case):
    assert result(await ask(case, Script("new"), continue_conversation=True)).result == "new"


@behaviour
async def a_session_is_resumed_up_to_a_record(case):
    one, two = Script("first"), Script("second")
    async with ClaudeSDKClient(case.options()) as client:
        a = await turn(client, f"one {one}")
        await turn(client, f"two-marker {two}")
    session = result(a).session_id
    at = [m for m in a if isinstance(m, AssistantMessage)][-1].uuid
    three = Script("third")
    await ask(case, three, resume=session, resume_session_at=at, fork_session=True)
    sent = json.dumps(three.sent(0)["body"]["messages"])
    assert "first" in sent and "two-marker" not in sent
    messages = get_session_messages(session, directory=case.cwd)
    prompts = [m.uuid for m in messages if m.type == "user"]
    four = Script("fourth")
    await ask(case, four, resume=session, resume_session_at=at, resume_drops_turn=prompts[1])
    assert "two-marker" not in json.dumps(four.sent(0)["body"]["messages"])
    try:
        await ask(case, Script("x"), resume=session, resume_session_at=at, resume_drops_turn=prompts[0])
        raise AssertionError("more was dropped than that turn")
    except Exception as error:
        assert "Resume rejected by --resume-drops-turn:" in str(error), error


@behaviour
async def a_copy_made_by_the_helpers_can_be_resumed(case):
    session = result(await ask(case, f"remember red {Script('ok')}")).session_id
    copy = fork_session(session, directory=case.cwd).session_id
    script = Script("yes")
    assert result(await ask(case, script, resume=copy)).session_id == copy
    assert "remember red" in json.dumps(script.sent(0)["body"]["messages"])


@behaviour
async def an_unknown_session_is_an_error_that_says_so(case):
    unknown = str(uuid.uuid4())
    try:
        await ask(case, Script("x"), resume=unknown)
        raise AssertionError("it was resumed")
    except Exception as error:
        assert f"No conversation found with session ID: {unknown}" in str(error), error
    try:
        async with ClaudeSDKClient(case.options(resume=unknown)):
            raise AssertionError("it was resumed")
    except ClaudeSDKError as error:
        assert "No conversation found" in str(error), error


@behaviour
async def an_unknown_flag_is_named_and_nothing_runs(case):
    script = Script("x")
    try:
        await ask(case, script, extra_args={"no-such-flag": None})
        raise AssertionError("it was taken")
    except ClaudeSDKError as error:
        # The process is gone before, while or after the host says its first word; each is told in other words.
        assert any(words in str(error) for words in ("exit code", "write to process stdin")), error
    assert script.count() == 0
    process = await asyncio.create_subprocess_exec(BINARY, "--no-such-flag", cwd=case.cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    out, err = await process.communicate()
    assert process.returncode != 0 and b"--no-such-flag" in err and out == b""


@behaviour
async def files_are_brought_back_to_before_a_message(case):
    case.write("a.txt", "old\n")
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    one = Script(call("Read", file_path=case.path("a.txt")), call("Write", file_path=case.path("a.txt"), content="new\n"), call("Write", file_path=case.path("made.txt"), content="x"), "done")
    two = Script(call("Write", file_path=case.path("later.txt"), content="y"), "done")

    async def prompt(script, id):
        yield {"type": "user", "message": {"role": "user", "content": str(script)}, "parent_tool_use_id": None, "session_id": "", "uuid": id}

    options = case.options(permission_mode="acceptEdits", enable_file_checkpointing=True, extra_args={"replay-user-messages": None})
    async with ClaudeSDKClient(options) as client:
        await client.query(prompt(one, first))
        messages = await turn(client)
        replayed = [m for m in messages if isinstance(m, UserMessage) and m.uuid == first]
        assert replayed, "the prompt is echoed with its id"
        await client.query(prompt(two, second))
        await turn(client)
        await client.rewind_files(second)
        assert not os.path.exists(case.path("later.txt")) and case.read("a.txt") == "new\n"
        await client.rewind_files(first)
        assert case.read("a.txt") == "old\n" and not os.path.exists(case.path("made.txt"))
        try:
            await client.rewind_files(str(uuid.uuid4()))
            raise AssertionError("an unknown message was taken")
        except Exception as error:
            assert str(error)
    async with ClaudeSDKClient(case.options()) as client:
        try:
            await client.rewind_files(first)
            raise AssertionError("it was not switched on")
        except Exception as error:
            assert "File rewinding is not enabled." in str(error), error


@behaviour
async def files_are_brought_back_after_a_resume_too(case):
    first = str(uuid.uuid4())
    script = Script(call("Write", file_path=case.path("made.txt"), content="x"), "done")

    async def prompt():
        yield {"type": "user", "message": {"role": "user", "content": str(script)}, "parent_tool_use_id": None, "session_id": "", "uuid": first}

    messages = [m async for m in query(prompt=prompt(), options=case.options(permission_mode="acceptEdits", enable_file_checkpointing=True))]
    assert os.path.exists(case.path("made.txt"))
    async with ClaudeSDKClient(case.options(resume=result(messages).session_id, enable_file_checkpointing=True)) as client:
        await client.rewind_files(first)
    assert not os.path.exists(case.path("made.txt"))


@behaviour
async def a_store_gets_every_record_and_a_session_goes_on_from_it(case):
    store = InMemorySessionStore()
    one = Script(call("Bash", command="echo hi"), "first")
    session = result(await ask(case, f"remember green {one}", session_store=store)).session_id
    kept = await get_session_messages_from_store(store, session, directory=case.cwd)
    assert [m.type for m in kept] == ["user", "assistant", "user", "assistant"], kept
    two = Script("second")
    messages = await ask(case, two, session_store=store, resume=session)
    assert result(messages).session_id == session
    assert "remember green" in json.dumps(two.sent(0)["body"]["messages"])


@long_behaviour
async def five_hundred_turns_in_one_process_need_little_more_memory_than_fifty(case):
    async with ClaudeSDKClient(case.options()) as client:
        sizes = []
        info = await client.get_server_info()
        for number in range(1, 501):
            messages = await turn(client, Script(f"answer {number}"))
            assert result(messages).result == f"answer {number}"
            if number in (50, 500):
                with open(f"/proc/{info['pid']}/statm") as file:
                    sizes.append(int(file.read().split()[1]))
    assert sizes[1] <= sizes[0] * 1.5, sizes


@behaviour
async def ten_clients_at_once(case):
    async def one(number):
        own = Case()
        script = Script(call("Bash", command=f"echo {number}"), "{{last_tool_result}}")
        return result(await ask(own, script)).result.strip()

    assert await asyncio.gather(*(one(number) for number in range(10))) == [str(n) for n in range(10)]


@behaviour
async def a_slow_host_gets_everything_in_order(case):
    script = Script({"text": "0123456789" * 400, "delta_characters": 4})
    text = ""
    async with ClaudeSDKClient(case.options(include_partial_messages=True)) as client:
        await client.query(str(script))
        async for message in client.receive_response():
            if isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta":
                text += message.event["delta"]["text"]
                if len(text) % 400 == 0:
                    await asyncio.sleep(0.02)
    assert text == "0123456789" * 400


@behaviour
async def a_host_that_dies_in_the_middle_of_a_question_leaves_nothing_behind(case):
    script = Script(call("Write", file_path=case.path("a"), content="1"), "never")
    program = f'''
import asyncio, os, sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
from claude_agent_sdk import *
async def ask(name, input, context):
    print(client._transport._process.pid, flush=True)
    os.kill(os.getpid(), 9)
async def main():
    global client
    client = ClaudeSDKClient(ClaudeAgentOptions(cli_path={BINARY!r}, cwd={case.cwd!r}, can_use_tool=ask))
    await client.connect()
    await client.query({str(script)!r})
    async for _ in client.receive_response(): pass
asyncio.run(main())
'''
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    line = await asyncio.wait_for(host.stdout.readline(), 30)
    pid = int(line)
    await host.wait()
    for _ in range(500):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    break
        except FileNotFoundError:
            break
        await asyncio.sleep(0.02)
    else:
        raise AssertionError("it lives on without its host")
    assert not os.path.exists(case.path("a"))
    session, = list_sessions(directory=case.cwd)
    after = Script("goes on")
    assert result(await ask(case, after, resume=session.session_id)).result == "goes on"


@behaviour
async def the_end_of_input_ends_an_idle_process_with_zero(case):
    process = await asyncio.create_subprocess_exec(
        BINARY, "--output-format", "stream-json", "--verbose", "--input-format", "stream-json",
        cwd=case.cwd, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    process.stdin.write(b'{"type":"control_request","request_id":"1","request":{"subtype":"initialize","hooks":null}}\n')
    assert b'"request_id":"1"' in await process.stdout.readline()
    out, err = await process.communicate(b"")
    assert process.returncode == 0 and out == b"" and err == b"", (process.returncode, out, err)


@behaviour
async def sigterm_ends_a_running_turn_at_once(case):
    script = Script(hanging())
    process = await asyncio.create_subprocess_exec(
        BINARY, "--output-format", "stream-json", "--verbose", "--input-format", "stream-json",
        "--include-partial-messages",
        cwd=case.cwd, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    process.stdin.write((json.dumps({"type": "user", "message": {"role": "user", "content": str(script)}}) + "\n").encode())
    while b"requesting" not in await process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode not in (0, None)


@behaviour
async def sigterm_ends_it_even_if_the_host_does_not_read(case):
    script = Script({"text": "0123456789" * 200_000, "delta_characters": 100})
    process = await asyncio.create_subprocess_exec(
        BINARY, "--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--include-partial-messages",
        cwd=case.cwd, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    process.stdin.write((json.dumps({"type": "user", "message": {"role": "user", "content": str(script)}}) + "\n").encode())
    while b"content_block_delta" not in await process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.wait(), 20)
    assert process.returncode not in (0, None)


@behaviour
async def the_state_of_the_session_is_told_in_order(case):
    script = Script("ok")
    messages = await ask(case, script, env={"CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1"})
    order = []
    for message in messages:
        if isinstance(message, SystemMessage) and message.subtype == "session_state_changed":
            order.append(message.data["state"])
        elif isinstance(message, SystemMessage) and message.subtype == "init":
            order.append("init")
        elif isinstance(message, ResultMessage):
            order.append("result")
    assert order == ["running", "init", "result", "idle"], order


main()
