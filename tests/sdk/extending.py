"""Agents, tasks, skills, commands, plugins and hooks of a host. Usage: python extending.py [behaviour …]"""

import asyncio
import json
import os

from support import *


def watcher(**changes):
    return {"watcher": AgentDefinition(description="watches clocks", prompt="You watch clocks.", **changes)}


def order(sub, **changes):
    """A call that gives an agent work; its own script lies in a file."""
    return call("Agent", description="look", prompt=sub.reference(), subagent_type="watcher", **changes)


async def one_prompt(prompt):
    yield {"type": "user", "message": {"role": "user", "content": str(prompt)}, "parent_tool_use_id": None, "session_id": ""}


async def ask_streamed(case, prompt, **changes):
    return [message async for message in query(prompt=one_prompt(prompt), options=case.options(**changes))]


@behaviour
async def an_agent_of_the_host_works_in_the_foreground_with_its_own_prompt_and_tools(case):
    case.write("clock.txt", "late")
    sub = Script(call("Read", file_path=case.path("clock.txt")), "the clock is late")
    script = Script(order(sub, run_in_background=False), "done")
    messages = await ask_streamed(case, script, agents=watcher(tools=["Read"], model="haiku"))
    first = sub.sent(0)["body"]
    assert "You watch clocks." in json.dumps(first["system"])
    assert [tool["name"] for tool in first["tools"]] == ["Read"]
    assert "haiku" in first["model"]
    call_id = [b.id for m in messages if isinstance(m, AssistantMessage) for b in m.content if isinstance(b, ToolUseBlock)][0]
    inner = [m for m in messages if getattr(m, "parent_tool_use_id", None) == call_id]
    assert any(isinstance(b, ToolUseBlock) for m in inner if isinstance(m, AssistantMessage) for b in m.content)
    assert not any(isinstance(b, TextBlock) for m in inner if isinstance(m, AssistantMessage) for b in m.content)
    outer = [block for message, block in results_of_tools(messages) if message.parent_tool_use_id is None]
    assert "the clock is late" in json.dumps(outer[0].content)
    started = [m for m in messages if isinstance(m, TaskStartedMessage)][0]
    assert started.task_type == "local_agent" and started.tool_use_id == call_id and started.description == "look"
    assert any(isinstance(m, TaskProgressMessage) and m.last_tool_name == "Read" for m in messages)
    ended = [m for m in messages if isinstance(m, TaskNotificationMessage)][0]
    assert ended.status == "completed" and ended.usage["tool_uses"] == 1
    place = messages.index(next(m for m, b in results_of_tools(messages) if m.parent_tool_use_id is None))
    assert messages.index(ended) < place, "its end is told before its result"


@behaviour
async def the_words_of_an_agent_are_shown_where_the_host_wants_them(case):
    sub = Script("the clock is late")
    script = Script(order(sub, run_in_background=False), "done")
    messages = await ask_streamed(case, script, agents=watcher(), forward_subagent_text=True)
    inner = [m for m in messages if isinstance(m, AssistantMessage) and m.parent_tool_use_id]
    assert [b.text for m in inner for b in m.content if isinstance(b, TextBlock)] == ["the clock is late"]


@behaviour
async def the_transcript_of_an_agent_is_found_by_the_helpers(case):
    sub = Script(call("Bash", command="echo tick"), "the clock is late")
    script = Script(order(sub, run_in_background=False), "done")
    messages = await ask_streamed(case, script, agents=watcher(tools=["Bash"]), allowed_tools=["Bash"])
    session = result(messages).session_id
    [agent] = list_subagents(session, directory=case.cwd)
    kept = get_subagent_messages(session, agent, directory=case.cwd)
    assert [m.type for m in kept] == ["user", "assistant", "user", "assistant"], kept
    call_id = [b.id for m in messages if isinstance(m, AssistantMessage) for b in m.content if isinstance(b, ToolUseBlock)][0]
    assert {m.parent_tool_use_id for m in kept} == {call_id}
    # The session itself lists none of it.
    assert len(get_session_messages(session, directory=case.cwd)) == 4
    folder = next(root for root, _, files in os.walk(os.environ["CLAUDE_CONFIG_DIR"]) if f"agent-{agent}.jsonl" in files)
    assert folder.endswith(f"{session}/subagents")
    with open(os.path.join(folder, f"agent-{agent}.meta.json")) as file:
        facts = json.load(file)
    assert facts["agentType"] == "watcher" and facts["toolUseId"] == call_id and facts["description"] == "look"
    with open(os.path.join(folder, f"agent-{agent}.jsonl")) as file:
        entries = [json.loads(line) for line in file]
    assert all(entry["isSidechain"] and entry["agentId"] == agent for entry in entries if entry["type"] in ("user", "assistant"))


@behaviour
async def the_records_of_agents_reach_a_store_too(case):
    store = InMemorySessionStore()
    sub = Script("the clock is late")
    script = Script(order(sub, run_in_background=False), "done")
    messages = await ask_streamed(case, script, agents=watcher(tools=["Read"]), session_store=store)
    session = result(messages).session_id
    [agent] = await list_subagents_from_store(store, session, directory=case.cwd)
    kept = await get_subagent_messages_from_store(store, session, agent, directory=case.cwd)
    assert [m.type for m in kept] == ["user", "assistant"], kept
    call_id = [b.id for m in messages if isinstance(m, AssistantMessage) for b in m.content if isinstance(b, ToolUseBlock)][0]
    assert {m.parent_tool_use_id for m in kept} == {call_id}, "its facts reach the store as well"
    assert not any(isinstance(m, MirrorErrorMessage) for m in messages)
    # A session that is taken up from the store knows what the agent found.
    again = Script("it was late")
    await ask(case, again, session_store=store, resume=session)
    assert "the clock is late" in json.dumps(again.sent(0)["body"]["messages"])


@behaviour
async def an_agent_in_the_background_starts_a_turn_when_it_is_done(case):
    sub = Script(call("Bash", command="while [ ! -e go ]; do sleep 0.02; done"), "all is well")
    script = Script(order(sub, run_in_background=True), "it is on its way", "I have heard")
    messages = []
    async for message in query(prompt=one_prompt(script), options=case.options(agents=watcher(), allowed_tools=["Bash"])):
        messages.append(message)
        if isinstance(message, ResultMessage):
            # Not before: what ends during a turn is told within it.
            case.write("go", "")
    ends = [m for m in messages if isinstance(m, ResultMessage)]
    assert [m.result for m in ends] == ["it is on its way", "I have heard"], ends
    assert ends[1].origin["kind"] == "task-notification"
    changes = systems(messages, "background_tasks_changed")
    assert [len(m.data["tasks"]) for m in changes] == [1, 0]
    updated = [m for m in messages if isinstance(m, TaskUpdatedMessage)]
    assert updated and updated[-1].patch["status"] == "completed"
    states = [m.data["state"] for m in systems(messages, "session_state_changed")]
    assert states.count("idle") <= 1, states


@behaviour
async def a_command_in_the_background_that_ends_is_told_and_starts_a_turn(case):
    waits = "while [ ! -e go ]; do sleep 0.02; done; echo tick"
    script = Script(call("Bash", command=waits, run_in_background=True), "started", "it is over")
    async with ClaudeSDKClient(case.options(allowed_tools=["Bash"])) as client:
        await client.query(str(script))
        seen = []
        async for message in client.receive_messages():
            seen.append(message)
            if isinstance(message, ResultMessage) and message.result == "started":
                # Not before: what ends during a turn is told within it.
                case.write("go", "")
            if isinstance(message, ResultMessage) and message.result == "it is over":
                break
    ended = [m for m in seen if isinstance(m, TaskNotificationMessage)][0]
    assert ended.status == "completed", ended
    with open(ended.output_file) as file:
        assert "tick" in file.read()
    assert [m.result for m in seen if isinstance(m, ResultMessage)][-1] == "it is over"


@behaviour
async def hooks_hear_of_agents(case):
    heard = []

    async def note(input, id, context):
        heard.append(input)
        return {}

    sub = Script("fine")
    script = Script(order(sub, run_in_background=False), "done")
    hooks = {event: [HookMatcher(hooks=[note])] for event in ("SubagentStart", "SubagentStop")}
    await ask_streamed(case, script, agents=watcher(), hooks=hooks)
    assert [h["hook_event_name"] for h in heard] == ["SubagentStart", "SubagentStop"]
    assert heard[0]["agent_type"] == "watcher" and heard[0]["agent_id"] == heard[1]["agent_id"]
    assert heard[1]["agent_transcript_path"].endswith(f"agent-{heard[0]['agent_id']}.jsonl")
    assert heard[1]["last_assistant_message"] == "fine"


@behaviour
async def a_question_from_inside_an_agent_names_it(case):
    asked = []

    async def can_use_tool(name, input, context):
        asked.append((name, context.agent_id))
        return PermissionResultAllow(updated_input=input)

    sub = Script(call("Bash", command="mkdir made"), "made it")
    script = Script(order(sub, run_in_background=False), "done")
    await ask_streamed(case, script, agents=watcher(), can_use_tool=can_use_tool)
    assert os.path.isdir(case.path("made"))
    inside = [agent for name, agent in asked if name == "Bash"]
    assert len(inside) == 1 and inside[0], asked


@behaviour
async def agents_of_files_count_where_the_sources_say_so(case):
    case.write(".claude/agents/winder.md", "---\nname: winder\ndescription: winds clocks\ntools: Read\n---\nYou wind clocks.\n")
    sub = Script("wound")
    script = Script(call("Agent", description="wind", prompt=sub.reference(), subagent_type="winder", run_in_background=False), "done")
    messages = await ask(case, script, setting_sources=["project"])
    assert "winder" in systems(messages, "init")[0].data["agents"]
    assert "You wind clocks." in json.dumps(sub.sent(0)["body"]["system"])
    none = await ask(case, Script("ok"), setting_sources=[])
    assert "winder" not in systems(none, "init")[0].data["agents"]


@behaviour
async def a_command_of_the_project_is_a_prompt(case):
    script = Script("hello")
    case.write(".claude/commands/greet.md", f"---\ndescription: greets\nargument-hint: NAME\n---\nGreet $ARGUMENTS politely. {script}\n")
    async with ClaudeSDKClient(case.options(setting_sources=["project"])) as client:
        info = await client.get_server_info()
        listed = next(c for c in info["commands"] if c["name"] == "greet")
        assert listed["argumentHint"] == "NAME" and "greets" in listed["description"]
        messages = await turn(client, "/greet the clockmaker")
    assert result(messages).result == "hello"
    assert "Greet the clockmaker politely." in json.dumps(script.sent(0)["body"]["messages"])
    assert "greet" in systems(messages, "init")[0].data["slash_commands"]
    verbatim = Script("as it is")
    messages = await ask(case, f"/greet {verbatim}", setting_sources=["project"], verbatim_prompts=True)
    assert "politely" not in json.dumps(verbatim.sent(0)["body"]["messages"])


@behaviour
async def a_skill_is_a_prompt_and_a_filter_leaves_others_out(case):
    script = Script("wound")
    for name in ("winding", "oiling"):
        case.write(f".claude/skills/{name}/SKILL.md", f"---\nname: {name}\ndescription: {name} of clocks\n---\nThis is {name}. {script}\n")
    messages = await ask(case, "/winding slowly", setting_sources=["project"], skills=["winding"])
    assert result(messages).result == "wound"
    sent = json.dumps(script.sent(0)["body"]["messages"])
    assert "This is winding." in sent and "slowly" in sent and "oiling of clocks" not in sent
    assert systems(messages, "init")[0].data["skills"] == ["winding"]


@behaviour
async def a_file_that_a_prompt_names_is_attached(case):
    case.write("clock.txt", "it is late\nvery late\n")
    script = Script("seen")
    await ask(case, f"look at @clock.txt#L2-2 {script}")
    sent = json.dumps(script.sent(0)["body"]["messages"])
    assert "very late" in sent and "it is late" not in sent


@behaviour
async def a_plugin_of_the_host_brings_commands_hooks_and_agents(case):
    case.write("clockwork/.claude-plugin/plugin.json", json.dumps({"name": "clockwork", "version": "1.0.0", "description": "for clocks"}))
    script = Script(call("Bash", command="echo tick"), "done")
    case.write("clockwork/commands/strike.md", f"---\ndescription: strikes\n---\nStrike $1 times. {script}\n")
    case.write("clockwork/agents/keeper.md", "---\nname: keeper\ndescription: keeps time\n---\nYou keep time.\n")
    case.write("clockwork/hooks/hooks.json", json.dumps({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "touch \"${CLAUDE_PLUGIN_ROOT}/heard\""}]}]}}))
    messages = await ask(case, "/clockwork:strike twelve", plugins=[{"type": "local", "path": case.path("clockwork")}], allowed_tools=["Bash"])
    init = systems(messages, "init")[0].data
    assert [p["name"] for p in init["plugins"]] == ["clockwork"]
    assert "clockwork:strike" in init["slash_commands"] and "clockwork:keeper" in init["agents"], init
    assert "Strike twelve times." in json.dumps(script.sent(0)["body"]["messages"])
    assert os.path.exists(case.path("clockwork/heard"))


@behaviour
async def a_hook_that_goes_on_in_the_background_holds_up_nothing(case):
    async def later(input, id, context):
        return {"async_": True, "asyncTimeout": 60_000}

    script = Script(call("Bash", command="mkdir made"), "done")
    messages = await ask_streamed(case, script, hooks={"PreToolUse": [HookMatcher(hooks=[later])]}, allowed_tools=["Bash(mkdir:*)"])
    assert result(messages).result == "done" and os.path.isdir(case.path("made"))


@behaviour
async def what_a_command_hook_says_in_the_background_comes_with_a_later_turn(case):
    said = json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "the hook has finished"}})
    hook = f"cat > /dev/null; echo '{{\"async\": true}}'; while [ ! -e go ]; do sleep 0.02; done; echo '{said}'; touch said"
    settings = {"hooks": {"PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": hook}]}]}}
    async with ClaudeSDKClient(case.options(settings=json.dumps(settings), allowed_tools=["Bash"])) as client:
        one = Script(call("Bash", command="echo tick"), "first")
        messages = await turn(client, one)
        assert result(messages).result == "first"
        assert "the hook has finished" not in json.dumps(one.sent(1))
        case.write("go", "")
        while not os.path.exists(case.path("said")):
            await asyncio.sleep(0.02)
        for _ in range(100):
            two = Script("second")
            await turn(client, two)
            if "the hook has finished" in json.dumps(two.sent(0)):
                return
        raise AssertionError("what the hook said never came")


@behaviour
async def a_system_prompt_is_kept_over_a_resume_where_the_host_wants_it(case):
    def prompt(words, **fields):
        return {"type": "custom", "prompt": words, **fields}

    one, two, three = Script("a"), Script("b"), Script("c")
    session = result(await ask(case, one, system_prompt=prompt("First words.", snapshot=True))).session_id
    await ask(case, two, resume=session, system_prompt=prompt("Second words.", snapshot=True))
    assert two.sent(0)["body"]["system"] == one.sent(0)["body"]["system"]
    await ask(case, three, resume=session, system_prompt=prompt("Third words.", snapshot=False))
    assert "Third words." in json.dumps(three.sent(0)["body"]["system"])


@behaviour
async def a_budget_is_for_this_run(case):
    one = Script("a")
    first = result(await ask(case, one))
    again = result(await ask(case, Script("b"), resume=first.session_id, max_budget_usd=first.total_cost_usd / 2))
    assert again.result == "b" and again.total_cost_usd > first.total_cost_usd
    # What was spent before a /clear was spent by this run.
    async with ClaudeSDKClient(case.options(max_budget_usd=first.total_cost_usd / 2)) as client:
        assert result(await turn(client, Script("c"))).result == "c"
        await turn(client, "/clear")
        assert result(await turn(client, Script("d"))).subtype == "error_max_budget_usd"


@behaviour
async def the_window_is_drawn_as_a_grid(case):
    async with ClaudeSDKClient(case.options(system_prompt={"type": "preset", "preset": "claude_code"})) as client:
        await turn(client, Script("ok"))
        usage = await client.get_context_usage()
    rows = usage["gridRows"]
    assert [len(row) for row in rows] == [10] * 10
    squares = [square for row in rows for square in row]
    assert {"color", "isFilled", "categoryName", "tokens", "percentage", "squareFullness"} <= set(squares[0])
    assert squares[0]["isFilled"] and not squares[60]["isFilled"]
    named = {c["name"] for c in usage["categories"]}
    assert {square["categoryName"] for square in squares} <= named


main()
