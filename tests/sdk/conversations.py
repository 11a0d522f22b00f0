"""Turns, control requests, MCP servers in the host, structured output, interruptions."""

import asyncio
import base64
import os
import re
import struct
import zlib

from support import *
from support import main


def pixel():
    """A picture of one white pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\xff\xff\xff")) + chunk(b"IEND", b"")


@behaviour
async def a_one_shot_query_gives_init_answer_and_result(case):
    script = Script("hello there")
    messages = await ask(case, f"hi {script}")
    first = messages[0]
    assert isinstance(first, SystemMessage) and first.subtype == "init", first
    assert re.fullmatch(r"\d+\.\d+\.\d+", first.data["claude_code_version"])
    assert first.data["lathe_version"] and first.data["cwd"] == case.cwd
    assert first.data["apiKeySource"] == "ANTHROPIC_API_KEY"
    for field in ["tools", "mcp_servers", "model", "permissionMode", "slash_commands", "output_style", "agents", "skills", "plugins"]:
        assert field in first.data, field
    answers = [m for m in messages if isinstance(m, AssistantMessage)]
    assert [b.text for b in answers[0].content] == ["hello there"]
    end = result(messages)
    assert messages[-1] is end
    assert (end.subtype, end.is_error, end.num_turns, end.result) == ("success", False, 1, "hello there")
    assert end.terminal_reason == "completed" and end.stop_reason == "end_turn"
    assert end.total_cost_usd > 0 and list(end.model_usage.values())[0]["outputTokens"] > 0
    assert case.errors == [], case.errors


@behaviour
async def the_prompt_is_sent_as_it_was_and_no_system_prompt_is_none(case):
    script = Script("ok")
    await ask(case, f"ünïcode \"quotes\" {script}")
    body = script.sent(0)["body"]
    content = body["messages"][0]["content"]
    # Instructions and the date stand beside it, in a block of their own.
    texts = [content] if isinstance(content, str) else [block["text"] for block in content if block["type"] == "text"]
    assert any(text.startswith("ünïcode \"quotes\"") for text in texts), texts
    assert not body.get("system"), body.get("system")
    assert "lathe" in script.sent(0)["user_agent"].lower()


@behaviour
async def system_prompts_replace_append_and_come_from_files(case):
    own, appended, filed = Script("a"), Script("b"), Script("c")
    await ask(case, own, system_prompt="Only this.")
    assert [block["text"] for block in own.sent(0)["body"]["system"]] == ["Only this."]
    await ask(case, appended, system_prompt={"type": "preset", "preset": "claude_code", "append": "And this."})
    blocks = [block["text"] for block in appended.sent(0)["body"]["system"]]
    assert len(blocks) > 1 and blocks[-1] == "And this."
    await ask(case, filed, system_prompt={"type": "file", "path": case.write("p.md", "From a file.")})
    assert filed.sent(0)["body"]["system"][0]["text"] == "From a file."


@behaviour
async def each_content_block_is_a_message_of_its_own_with_one_id(case):
    script = Script({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "one"}, {"type": "text", "text": "two"}]})
    messages = await ask(case, script)
    answers = [m for m in messages if isinstance(m, AssistantMessage)]
    assert [type(m.content[0]).__name__ for m in answers] == ["ThinkingBlock", "TextBlock", "TextBlock"]
    assert len({m.message_id for m in answers}) == 1
    assert all(len(m.content) == 1 and m.stop_reason is None for m in answers)


@behaviour
async def partial_messages_come_before_their_block(case):
    script = Script({"text": "a rather long answer in several pieces", "delta_characters": 5})
    messages = await ask(case, script, include_partial_messages=True)
    kinds = [m.event["type"] if isinstance(m, StreamEvent) else type(m).__name__ for m in messages]
    assert kinds.index("message_start") < kinds.index("content_block_delta") < kinds.index("AssistantMessage")
    assert "ping" not in kinds and "message_stop" in kinds
    text = "".join(m.event["delta"].get("text", "") for m in messages if isinstance(m, StreamEvent) and m.event["type"] == "content_block_delta")
    assert text == "a rather long answer in several pieces"


@behaviour
async def outputs_of_file_tools_have_the_shapes_that_hosts_read(case):
    case.write("a.txt", "one\ntwo\n")
    script = Script(
        call("Read", file_path=case.path("a.txt")),
        call("Edit", file_path=case.path("a.txt"), old_string="two", new_string="three"),
        call("Write", file_path=case.path("b.txt"), content="new\n"),
        call("Bash", command="echo out; echo err >&2"),
        call("Glob", pattern="*.txt"),
        call("Grep", pattern="three"),
        call("Read", file_path=case.path("missing.txt")),
        "done",
    )
    messages = await ask(case, script, permission_mode="acceptEdits", allowed_tools=["Bash"])
    assert result(messages).result == "done"
    outputs = [message.tool_use_result for message, _ in results_of_tools(messages)]
    read, edit, write, bash, glob, grep, missing = outputs
    assert read["type"] == "text" and read["file"]["filePath"] == case.path("a.txt")
    assert read["file"]["numLines"] == 2 and read["file"]["startLine"] == 1 and read["file"]["totalLines"] == 2
    assert edit["filePath"] == case.path("a.txt") and edit["oldString"] == "two" and edit["newString"] == "three"
    assert edit["originalFile"] == "one\ntwo\n" and edit["structuredPatch"] and edit["replaceAll"] is False
    assert "userModified" in edit
    assert write["type"] == "create" and write["filePath"] == case.path("b.txt") and write["content"] == "new\n"
    assert "structuredPatch" in write and write["originalFile"] is None
    # Both streams come in the order in which they were written.
    assert bash["stdout"].split() == ["out", "err"] and bash["stderr"] == ""
    assert bash["interrupted"] is False and bash["isImage"] is False
    assert glob["numFiles"] == 2 and len(glob["filenames"]) == 2
    assert grep["numFiles"] == 1
    assert isinstance(missing, str) and missing.startswith("Error: ")
    assert results_of_tools(messages)[-1][1].is_error is True


@behaviour
async def an_image_in_a_prompt_reaches_the_model(case):
    png = base64.b64encode(pixel()).decode()
    script = Script("a dot")

    async def prompts():
        yield {"type": "user", "message": {"role": "user", "content": [
            {"type": "text", "text": f"look {script}"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
        ]}, "parent_tool_use_id": None, "session_id": "x"}

    messages = [m async for m in query(prompt=prompts(), options=case.options())]
    assert result(messages).result == "a dot"
    content = script.sent(0)["body"]["messages"][0]["content"]
    assert any(block["type"] == "image" for block in content), content


@behaviour
async def a_prompt_of_200_kb_arrives_whole(case):
    script = Script("got it")
    words = "sphinx of black quartz " * 9000
    assert len(words) > 200_000
    messages = await ask(case, f"{script} {words}")
    assert result(messages).result == "got it"
    assert words.strip() in json.dumps(script.sent(0)["body"]["messages"])


@behaviour
async def a_tool_result_of_megabytes_stays_below_the_line_limit(case):
    script = Script(call("Bash", command="yes 0123456789abcdef | head -c 3000000"), "done")
    messages = await ask(case, script, allowed_tools=["Bash"])
    assert result(messages).result == "done"


@behaviour
async def a_client_keeps_its_conversation_over_turns(case):
    one, two = Script("first"), Script("second")
    async with ClaudeSDKClient(case.options()) as client:
        info = await client.get_server_info()
        assert {c["name"] for c in info["commands"]} >= {"clear", "compact"}
        assert info["models"] and info["output_style"] and info["pid"]
        a = await turn(client, f"one {one}")
        b = await turn(client, f"two {two}")
    assert result(a).session_id == result(b).session_id
    assert systems(b, "init"), "every turn begins with init"
    texts = json.dumps(two.sent(0)["body"]["messages"])
    assert "first" in texts and "one " in texts
    assert result(b).total_cost_usd > result(a).total_cost_usd


@behaviour
async def model_and_permission_mode_change_between_turns(case):
    one, two, three = Script("a"), Script("b"), Script(call("Write", file_path=case.path("x"), content="1"), "c")
    async with ClaudeSDKClient(case.options(model="claude-sonnet-4-6")) as client:
        await turn(client, one)
        await client.set_model("claude-haiku-4-5")
        messages = await turn(client, two)
        assert systems(messages, "init")[0].data["model"].startswith("claude-haiku-4-5")
        await client.set_model(None)
        await client.set_permission_mode("acceptEdits")
        messages = await turn(client, three)
        assert systems(messages, "init")[0].data["permissionMode"] == "acceptEdits"
        assert case.read("x") == "1"
        try:
            await client.set_permission_mode("yolo")
            raise AssertionError("a mode that doesn't exist was taken")
        except Exception as error:
            assert "yolo" in str(error), error
    assert one.sent(0)["body"]["model"] == "claude-sonnet-4-6"
    assert two.sent(0)["body"]["model"].startswith("claude-haiku-4-5")
    assert three.sent(0)["body"]["model"] == "claude-sonnet-4-6"


@behaviour
async def an_interruption_while_the_model_writes_keeps_what_it_said(case):
    broken, after = Script(hanging("partial words here")), Script("on we go")
    async with ClaudeSDKClient(case.options(include_partial_messages=True)) as client:
        await client.query(str(broken))
        messages = []
        async for message in client.receive_response():
            messages.append(message)
            if isinstance(message, StreamEvent) and message.event["type"] == "content_block_delta":
                await client.interrupt()
        end = result(messages)
        assert (end.subtype, end.is_error, end.terminal_reason) == ("error_during_execution", True, "aborted_streaming")
        assert any(isinstance(m, AssistantMessage) for m in messages)
        marks = [m for m in messages if isinstance(m, UserMessage)]
        assert "[Request interrupted by user]" in str(marks[-1].content)
        assert result(await turn(client, after)).result == "on we go"


@behaviour
async def an_interruption_while_a_command_runs_kills_it(case):
    script, after = Script(call("Bash", command=f"echo $$ > {case.path('pid')}; sleep 300"), "never"), Script("fine")
    async with ClaudeSDKClient(case.options(allowed_tools=["Bash"])) as client:
        await client.query(str(script))
        while not os.path.exists(case.path("pid")) or not case.read("pid").strip():
            await asyncio.sleep(0.02)
        pid = int(case.read("pid"))
        await client.interrupt()
        messages = await turn(client)
        assert result(messages).terminal_reason == "aborted_tools"
        assert results_of_tools(messages)[0][1].is_error
        assert "[Request interrupted by user for tool use]" in str(messages)
        assert not os.path.exists(f"/proc/{pid}"), "the command still runs"
        assert result(await turn(client, after)).result == "fine"


@behaviour
async def an_interruption_with_nothing_to_do_is_a_plain_success(case):
    script = Script("ok")
    async with ClaudeSDKClient(case.options()) as client:
        await client.interrupt()
        assert result(await turn(client, script)).result == "ok"
        await client.interrupt()


@behaviour
async def a_prompt_during_a_turn_is_not_lost(case):
    script = Script(call("Bash", command=f"touch {case.path('on')}; while [ ! -e {case.path('go')} ]; do sleep 0.05; done"), "{{last_user_text}}", "again")
    async with ClaudeSDKClient(case.options(allowed_tools=["Bash"])) as client:
        await client.query(str(script))
        while not os.path.exists(case.path("on")):
            await asyncio.sleep(0.02)
        await client.query("meanwhile this")
        case.write("go", "")
        messages = await turn(client)
        assert result(messages).is_error is False
    assert "meanwhile this" in json.dumps(script.sent(1)["body"]["messages"])


@tool("add", "Adds two numbers", {"a": float, "b": float})
async def add(arguments):
    return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}


@tool("fail", "Fails", {})
async def fail(_):
    return {"content": [{"type": "text", "text": "out of order"}], "is_error": True}


@tool("crash", "Raises", {})
async def crash(_):
    raise RuntimeError("boom")


@tool("picture", "Gives an image", {}, annotations=ToolAnnotations(readOnlyHint=True))
async def picture(_):
    png = base64.b64encode(pixel()).decode()
    return {"content": [{"type": "image", "data": png, "mimeType": "image/png"}]}


def calculator():
    return create_sdk_mcp_server("calc", "1.2.3", tools=[add, fail, crash, picture])


@behaviour
async def a_tool_of_the_host_is_called_and_its_result_goes_to_the_model(case):
    script = Script(call("mcp__calc__add", a=2, b=3), "{{last_tool_result}}")
    messages = await ask(case, script, mcp_servers={"calc": calculator()}, allowed_tools=["mcp__calc"])
    assert float(result(messages).result) == 5.0
    init = systems(messages, "init")[0].data
    assert init["mcp_servers"][0]["name"] == "calc" and init["mcp_servers"][0]["status"] == "connected"
    assert "mcp__calc__add" in init["tools"]
    offered = {t["name"]: t for t in script.sent(0)["body"]["tools"]}
    assert offered["mcp__calc__add"]["description"] == "Adds two numbers"
    assert set(offered["mcp__calc__add"]["input_schema"]["properties"]) == {"a", "b"}
    assert isinstance(results_of_tools(messages)[0][0].tool_use_result, list)


@behaviour
async def failures_and_images_of_host_tools_keep_their_kind(case):
    script = Script(call("mcp__calc__fail"), call("mcp__calc__crash"), call("mcp__calc__picture"), "done")
    messages = await ask(case, script, mcp_servers={"calc": calculator()}, allowed_tools=["mcp__calc__*"])
    assert result(messages).result == "done"
    blocks = [block for _, block in results_of_tools(messages)]
    assert blocks[0].is_error and "out of order" in str(blocks[0].content)
    assert blocks[1].is_error and "boom" in str(blocks[1].content)
    assert blocks[2].content[0]["type"] == "image", blocks[2].content


@behaviour
async def host_tools_need_permission_and_servers_can_be_switched_off(case):
    denied, off, on = Script(call("mcp__calc__add", a=1, b=1), "ok"), Script("off"), Script("on")
    async with ClaudeSDKClient(case.options(mcp_servers={"calc": calculator()})) as client:
        status = (await client.get_mcp_status())["mcpServers"][0]
        assert status["status"] == "connected" and status["serverInfo"] == {"name": "calc", "version": "1.2.3"}, status
        assert {t["name"] for t in status["tools"]} == {"add", "fail", "crash", "picture"}
        assert "config" not in status
        assert len(result(await turn(client, denied)).permission_denials) == 1
        await client.toggle_mcp_server("calc", False)
        await turn(client, off)
        assert (await client.get_mcp_status())["mcpServers"][0]["status"] == "disabled"
        await client.toggle_mcp_server("calc", True)
        await client.reconnect_mcp_server("calc")
        await turn(client, on)
        for name in ["toggle", "reconnect"]:
            try:
                await (client.toggle_mcp_server("none", True) if name == "toggle" else client.reconnect_mcp_server("none"))
                raise AssertionError("an unknown server was taken")
            except Exception as error:
                assert "not found" in str(error), error
    assert not [t for t in off.sent(0)["body"]["tools"] if t["name"].startswith("mcp__")]
    assert [t for t in on.sent(0)["body"]["tools"] if t["name"].startswith("mcp__")]


@behaviour
async def a_server_that_can_not_be_connected_is_shown_as_failed(case):
    script = Script("ok")
    servers = {"calc": calculator(), "far": {"type": "stdio", "command": "/no/such/program"}}
    async with ClaudeSDKClient(case.options(mcp_servers=servers)) as client:
        messages = await turn(client, script)
        shown = {s["name"]: s for s in (await client.get_mcp_status())["mcpServers"]}
        assert shown["far"]["status"] == "failed" and shown["far"]["error"]
        assert shown["calc"]["status"] == "connected"
        init = {s["name"]: s["status"] for s in systems(messages, "init")[0].data["mcp_servers"]}
        assert init == {"calc": "connected", "far": "failed"}


@behaviour
async def a_server_outside_the_host_is_used_like_one_inside(case):
    fixture = os.path.join(os.path.dirname(__file__), "../../crates/mcp/tests/fixtures/server.py")
    servers = {"calc": calculator(), "outside": {"type": "stdio", "command": "python3", "args": [fixture], "env": {"LATHE_TEST": "1"}}}
    script = Script(call("mcp__outside__echo", text="from outside"), call("mcp__outside__die"), call("mcp__calc__add", a=2, b=3), "{{last_tool_result}}")
    async with ClaudeSDKClient(case.options(mcp_servers=servers, allowed_tools=["mcp__outside", "mcp__calc"])) as client:
        shown = {s["name"]: s for s in (await client.get_mcp_status())["mcpServers"]}
        assert shown["outside"]["status"] == "connected" and shown["outside"]["config"]["command"] == "python3", shown["outside"]
        assert "echo" in {t["name"] for t in shown["outside"]["tools"]}
        messages = await turn(client, script)
    echoed, died, added = [block for _, block in results_of_tools(messages)]
    assert "from outside" in str(echoed.content) and not echoed.is_error
    # It dies in the middle of a call: that call fails, and nothing else.
    assert died.is_error, died
    assert not added.is_error and "5" in result(messages).result


SHAPE = {"type": "json_schema", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}}


@behaviour
async def structured_output_is_checked_mended_and_given(case):
    script = Script(call("StructuredOutput", n="four"), call("StructuredOutput", n=4))
    messages = await ask(case, script, output_format=SHAPE)
    end = result(messages)
    assert end.subtype == "success" and end.structured_output == {"n": 4}
    refused = results_of_tools(messages)[0][1]
    assert refused.is_error and "/n" in refused.content
    offered = [t for t in script.sent(0)["body"]["tools"] if t["name"] == "StructuredOutput"]
    assert offered[0]["input_schema"] == SHAPE["schema"]


@behaviour
async def structured_output_is_asked_for_once_more_and_then_given_up(case):
    script = Script("just words", "still words")
    end = result(await ask(case, script, output_format=SHAPE))
    assert end.subtype == "success" and end.structured_output is None and script.count() == 2
    assert "StructuredOutput" in json.dumps(script.sent(1)["body"]["messages"])


@behaviour
async def five_wrong_structured_outputs_end_the_turn(case):
    script = Script(*[call("StructuredOutput", wrong=i) for i in range(9)])
    messages = []
    try:
        async for message in query(prompt=str(script), options=case.options(output_format=SHAPE)):
            messages.append(message)
        raise AssertionError("no error came")
    except ResultError as error:
        assert error.subtype == "error_max_structured_output_retries", error
    end = result(messages)
    assert end.is_error and end.terminal_reason == "structured_output_retry_exhausted" and end.errors
    assert script.count() == 5


@behaviour
async def limits_on_turns_and_dollars_have_their_own_results(case):
    turns = Script(*[call("Bash", command=f"echo {i}") for i in range(5)])
    messages = []
    try:
        async for message in query(prompt=str(turns), options=case.options(max_turns=2)):
            messages.append(message)
    except ResultError as error:
        assert error.subtype == "error_max_turns"
    end = result(messages)
    assert end.subtype == "error_max_turns" and end.errors == ["Reached maximum number of turns (2)"] and end.num_turns == 3
    dollars = Script(*[call("Bash", command=f"echo {i}") for i in range(5)])
    messages = []
    try:
        async for message in query(prompt=str(dollars), options=case.options(max_budget_usd=0.0001)):
            messages.append(message)
    except ResultError as error:
        assert error.subtype == "error_max_budget_usd"
    assert result(messages).subtype == "error_max_budget_usd"


@behaviour
async def an_api_error_is_a_result_with_its_status_and_a_marked_message(case):
    script = Script({"fault": {"error": {"status": 400, "message": "bad thing"}}})
    messages = []
    try:
        async for message in query(prompt=str(script), options=case.options()):
            messages.append(message)
        raise AssertionError("no error came")
    except ResultError as error:
        assert error.api_error_status == 400
    end = result(messages)
    assert end.subtype == "success" and end.is_error and end.api_error_status == 400
    assert end.result.startswith("API Error: 400") and end.terminal_reason == "api_error"
    told = [m for m in messages if isinstance(m, AssistantMessage)][-1]
    assert told.error == "invalid_request" and told.model == "<synthetic>"


@behaviour
async def a_busy_api_is_asked_again_and_the_host_is_told(case):
    script = Script({"fault": {"error": {"status": 429}}, "headers": {"retry-after": "0"}}, "better now")
    messages = await ask(case, script)
    assert result(messages).result == "better now"
    retry = systems(messages, "api_retry")[0].data
    assert retry["attempt"] == 1 and retry["error_status"] == 429 and retry["max_retries"] >= 1
    assert "retry_delay_ms" in retry and retry["error"]


@behaviour
async def options_about_the_model_reach_the_request(case):
    script = Script("ok")
    await ask(case, script, model="claude-sonnet-4-6", effort="low", task_budget={"total": 50_000}, betas=["context-1m-2025-08-07"], thinking={"type": "disabled"})
    sent = script.sent(0)
    assert sent["body"]["model"] == "claude-sonnet-4-6"
    assert sent["body"]["output_config"] == {"effort": "low", "task_budget": {"type": "tokens", "total": 50000}}
    assert "context-1m-2025-08-07" in sent["betas"] and "task-budgets-2026-03-13" in sent["betas"]
    assert sent["body"].get("thinking", {}).get("type") in (None, "disabled")


@behaviour
async def commands_as_prompts_are_carried_out_here(case):
    one, two = Script("before"), Script("after", "a summary of it all", "later")
    async with ClaudeSDKClient(case.options()) as client:
        a = await turn(client, f"remember me {one}")
        cleared = await turn(client, "/clear")
        assert any(isinstance(m, ConversationResetMessage) for m in cleared), cleared
        b = await turn(client, two)
        assert result(b).session_id != result(a).session_id
        unknown = await turn(client, "/nonsense here")
        assert "nonsense" in result(unknown).result and not result(unknown).is_error
        await turn(client, "/compact")
    assert "remember me" not in json.dumps(two.sent(0)["body"]["messages"])


@behaviour
async def how_full_the_window_is_can_be_asked(case):
    script = Script("ok")
    async with ClaudeSDKClient(case.options()) as client:
        await turn(client, script)
        usage = await client.get_context_usage()
    assert 0 < usage["totalTokens"] < usage["maxTokens"] and 0 <= usage["percentage"] <= 100
    assert {c["kind"] for c in usage["categories"]} >= {"used", "free"}


@behaviour
async def a_background_command_is_told_of_and_can_be_stopped(case):
    script = Script(call("Bash", command="sleep 300", run_in_background=True), "started")
    async with ClaudeSDKClient(case.options(allowed_tools=["Bash"])) as client:
        messages = await turn(client, script)
        started = [m for m in messages if isinstance(m, TaskStartedMessage)][0]
        assert started.task_type == "local_bash" and started.tool_use_id
        assert systems(messages, "background_tasks_changed")
        output = results_of_tools(messages)[0][0].tool_use_result
        assert output["backgroundTaskId"] == started.task_id
        await client.stop_task(started.task_id)
        async for message in client.receive_messages():
            if isinstance(message, TaskNotificationMessage):
                assert message.task_id == started.task_id and message.status == "stopped"
                break
        try:
            await client.stop_task("nothing")
            raise AssertionError("an unknown task was stopped")
        except Exception as error:
            assert "nothing" in str(error), error


main()
