"""Corners of the protocol: what hooks may answer, what the environment says, and what else is told."""

import asyncio
import os
import uuid

from support import *
from support import main


def hooks(event, function, **changes):
    return {event: [HookMatcher(hooks=[function], **changes)]}


def specific(event, **fields):
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


async def streamed(text, **fields):
    yield {"type": "user", "message": {"role": "user", "content": str(text)}, "parent_tool_use_id": None, "session_id": "", **fields}


async def ask_streamed(case, text, fields=None, **changes):
    return [m async for m in query(prompt=streamed(text, **(fields or {})), options=case.options(**changes))]


@behaviour
async def a_hook_can_put_a_call_off_for_the_host(case):
    async def defer(input, id, context):
        return specific("PreToolUse", permissionDecision="defer")

    script = Script(call("Bash", command="echo hi"), "never")
    messages = await ask_streamed(case, script, hooks=hooks("PreToolUse", defer))
    end = result(messages)
    assert end.subtype == "success" and end.terminal_reason == "tool_deferred" and not end.is_error
    deferred = end.deferred_tool_use
    assert deferred and "echo hi" in str(deferred), deferred
    assert script.count() == 1


@behaviour
async def a_hook_that_takes_too_long_decides_nothing(case):
    async def slow(input, id, context):
        await asyncio.sleep(30)
        return specific("PreToolUse", permissionDecision="deny")

    script = Script(call("Bash", command="echo hi"), "done")
    messages = await ask_streamed(case, script, hooks=hooks("PreToolUse", slow, timeout=0.3))
    assert "hi" in str(results_of_tools(messages)[0][1].content)


@behaviour
async def a_hook_on_prompts_names_the_session(case):
    async def title(input, id, context):
        return specific("UserPromptSubmit", sessionTitle="About clocks")

    await ask_streamed(case, Script("ok"), hooks=hooks("UserPromptSubmit", title))
    info, = list_sessions(directory=case.cwd)
    assert info.summary == "About clocks", info


@behaviour
async def a_hook_after_a_call_can_replace_what_the_model_sees(case):
    async def replace(input, id, context):
        return specific("PostToolUse", updatedToolOutput={**input["tool_response"], "stdout": "nothing to see"})

    script = Script(call("Bash", command="echo secret-words"), "done")
    await ask_streamed(case, script, hooks=hooks("PostToolUse", replace))
    sent = json.dumps(script.sent(1)["body"]["messages"])
    results = [b for m in script.sent(1)["body"]["messages"] for b in m["content"] if isinstance(b, dict) and b["type"] == "tool_result"]
    assert "nothing to see" in sent and "secret-words" not in json.dumps(results), results


@behaviour
async def a_hook_hears_of_a_compaction_and_its_words(case):
    seen = []

    async def note(input, id, context):
        seen.append((input["hook_event_name"], input["trigger"], input.get("custom_instructions")))
        return {}

    script = Script("one " * 50, "a summary of it", "after")
    async with ClaudeSDKClient(case.options(hooks=hooks("PreCompact", note))) as client:
        await turn(client, f"{'words ' * 200} {script}")
        messages = await turn(client, "/compact mind the clocks")
        assert not result(messages).is_error, messages
        boundary, = systems(messages, "compact_boundary")
        assert boundary.data["compact_metadata"]["trigger"] == "manual"
        assert any(m.data.get("status") == "compacting" for m in systems(messages, "status"))
    assert seen == [("PreCompact", "manual", "mind the clocks")], seen


@behaviour
async def a_fallback_model_takes_over(case):
    busy = {"fault": {"error": {"status": 529}}}
    script = Script(busy, busy, busy, "here I am")
    messages = await ask(case, script, model="claude-opus-4-6", fallback_model="claude-haiku-4-5", env={"LATHE_RETRY_BASE_MS": "1"})
    assert result(messages).result == "here I am"
    assert script.sent(3)["body"]["model"].startswith("claude-haiku-4-5")


@behaviour
async def retries_are_as_many_as_the_environment_says(case):
    script = Script(*[{"fault": {"error": {"status": 500}}}] * 5)
    messages = []
    try:
        async for message in query(prompt=str(script), options=case.options(env={"CLAUDE_CODE_MAX_RETRIES": "2", "LATHE_RETRY_BASE_MS": "1"})):
            messages.append(message)
    except ResultError as error:
        assert error.api_error_status == 500
    assert script.count() == 3
    assert [m.data["attempt"] for m in systems(messages, "api_retry")] == [1, 2]


@behaviour
async def the_environment_chooses_model_and_thinking(case):
    script = Script("ok")
    await ask(case, script, env={"ANTHROPIC_MODEL": "claude-sonnet-4-6", "MAX_THINKING_TOKENS": "2048"})
    body = script.sent(0)["body"]
    assert body["model"] == "claude-sonnet-4-6"
    assert body["thinking"]["budget_tokens"] == 2048 and body["max_tokens"] > 2048, body["thinking"]


@behaviour
async def the_application_is_named_to_the_api(case):
    script = Script("ok")
    await ask(case, script, env={"CLAUDE_AGENT_SDK_CLIENT_APP": "clock-app/3"})
    agent = script.sent(0)["user_agent"]
    assert agent.startswith("lathe/") and "clock-app/3" in agent, agent


@behaviour
async def hooks_of_settings_are_told_as_frames_where_wanted(case):
    settings = json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo noted >&2"}]}]}})
    script = Script(call("Bash", command="echo hi"), "done")
    messages = await ask(case, script, settings=settings, include_hook_events=True)
    response, = [m.data for m in systems(messages, "hook_response") if m.data["hook_event"] == "PreToolUse"]
    assert response["outcome"] == "success" and response["exit_code"] == 0 and "noted" in response["stderr"]
    assert any(m.data["hook_event"] == "PreToolUse" for m in systems(messages, "hook_started"))
    quiet = await ask(case, Script(call("Bash", command="echo hi"), "done"), settings=settings)
    assert not systems(quiet, "hook_response")


@behaviour
async def an_answer_that_never_ends_is_an_error_that_names_the_limit(case):
    script = Script(*[{"text": "more", "stop_reason": "max_tokens"}] * 5)
    messages = []
    try:
        async for message in query(prompt=str(script), options=case.options()):
            messages.append(message)
        raise AssertionError("no error came")
    except ResultError as error:
        assert "output limit" in str(error), error
    told = [m for m in messages if isinstance(m, AssistantMessage)][-1]
    assert told.error == "max_output_tokens" and script.count() == 5


@behaviour
async def two_hundred_and_sixty_kilobytes_of_agents_fit_into_the_first_request(case):
    agents = {f"agent-{n}": AgentDefinition(description="does things", prompt="word " * 520) for n in range(100)}
    messages = await ask_streamed(case, Script("ok"), agents=agents)
    assert result(messages).result == "ok"


@behaviour
async def a_human_origin_is_echoed_and_no_other(case):
    messages = await ask_streamed(case, Script("a"), {"origin": {"kind": "human"}})
    raw = result(messages)
    assert getattr(raw, "origin", None) in (None, {"kind": "human"})
    other = await ask_streamed(case, Script("b"), {"origin": {"kind": "task-notification"}})
    assert getattr(result(other), "origin", None) is None


@behaviour
async def the_end_of_a_cleared_session_is_told_to_its_hooks(case):
    log = case.path("ends.txt")
    settings = json.dumps({"hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": f"grep -o '\"reason\":\"[a-z]*\"' >> {log}"}]}]}})
    async with ClaudeSDKClient(case.options(settings=settings)) as client:
        await turn(client, Script("a"))
        await turn(client, "/clear")
        await turn(client, Script("b"))
    reasons = case.read("ends.txt").split()
    assert reasons == ['"reason":"clear"', '"reason":"other"'], reasons


@behaviour
async def what_the_calls_of_a_step_did_is_summed_up_for_hosts_that_want_it(case):
    said = Script("Listed the clocks")
    case.write("said.txt", str(said))
    script = Script(call("Bash", command="cat said.txt"), call("Bash", command="sleep 0.2; echo more"), "done")
    summaries = []
    process = await asyncio.create_subprocess_exec(
        BINARY, "--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--allowedTools", "Bash",
        cwd=case.cwd, env={**os.environ, "CLAUDE_CODE_EMIT_TOOL_USE_SUMMARIES": "1"},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    process.stdin.write((json.dumps({"type": "user", "message": {"role": "user", "content": str(script)}}) + "\n").encode())
    while not summaries:
        frame = json.loads(await process.stdout.readline())
        if frame["type"] == "tool_use_summary":
            summaries.append(frame)
    assert summaries[0]["summary"] == "Listed the clocks" and len(summaries[0]["preceding_tool_use_ids"]) == 1
    await process.communicate(b"")


@behaviour
async def the_application_is_named_by_an_option(case):
    script = Script("ok")
    await ask(case, script, client_app="sun-dial/4")
    assert "sun-dial/4" in script.sent(0)["user_agent"]


@behaviour
async def only_servers_of_the_host_count_where_it_says_so(case):
    case.write(".mcp.json", json.dumps({"mcpServers": {"outside": {"command": "true"}}}))
    servers = {"inside": create_sdk_mcp_server("inside", tools=[])}
    for strict in [False, True]:
        options = case.options(mcp_servers=servers, strict_mcp_config=strict, setting_sources=["project"])
        async with ClaudeSDKClient(options) as client:
            names = {server["name"] for server in (await client.get_mcp_status())["mcpServers"]}
        assert names == ({"inside"} if strict else {"inside", "outside"}), names


@behaviour
async def lines_of_an_ordinary_turn_fit_into_a_small_buffer(case):
    script = Script(call("Bash", command="echo hi"), "done")
    messages = await ask(case, script, max_buffer_size=64 * 1024, debug_stderr=None)
    assert result(messages).result == "done"


@behaviour
async def a_host_switches_the_sandbox_on_and_off(case):
    # The tests switch it off for everybody; here the host decides.
    for enabled in [True, False]:
        messages = await ask(case, Script("ok"), sandbox={"enabled": enabled}, env={"LATHE_SANDBOX": ""})
        (init,) = systems(messages, "init")
        assert ("sandbox" in init.data) == enabled, init.data


@behaviour
async def a_budget_for_thinking_reaches_the_model(case):
    script = Script("ok")
    await ask(case, script, max_thinking_tokens=3000, model="claude-sonnet-4-5")
    assert script.sent(0)["body"]["thinking"]["budget_tokens"] == 3000


@behaviour
async def a_store_that_wants_records_at_once_has_them(case):
    store = InMemorySessionStore()
    options = {"session_store": store, "session_store_flush": "eager", "load_timeout_ms": 5000}
    session = result(await ask(case, f"remember green {Script('a')}", **options)).session_id
    script = Script("b")
    await ask(case, script, resume=session, **options)
    assert "remember green" in json.dumps(script.sent(0)["body"]["messages"])


main()
