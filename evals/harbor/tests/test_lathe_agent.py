"""Tests of the adapter with the package from PyPI: python -m unittest discover -s evals/harbor/tests

Harbor itself runs a task from its definition to its reward; bubblewrap stands for the container engine, and a scripted server for the
model. LATHE_PROGRAM and LATHE_SCRIPTED name the two programs.
"""

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ["HARBOR_TELEMETRY"] = "0"

from harbor.agents.factory import AgentFactory
from harbor.agents.installed.base import (
    AgentAuthenticationError,
    ApiRateLimitError,
    NonZeroAgentExitCodeError,
)
from harbor.environments.base import ExecResult
from harbor.job import Job
from harbor.models.agent.context import AgentContext
from harbor.models.job.config import JobConfig
from harbor.models.task.config import MCPServerConfig
from lathe_agent import Lathe

PROGRAM = os.environ.get("LATHE_PROGRAM", "")
SCRIPTED = os.environ.get("LATHE_SCRIPTED", "")
TASK = HERE / "task"
MODEL = "anthropic/claude-sonnet-4-5"


class Recorder:
    """An environment that answers commands from a table of patterns, and writes down what came."""

    default_user = None

    def __init__(self, answers=()):
        self.answers = list(answers)
        self.commands = []
        self.uploads = []

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        self.commands.append((command, env or {}, user))
        for pattern, result in self.answers:
            if re.search(pattern, command):
                return result
        return ExecResult(stdout="", stderr="", return_code=0)

    async def upload_file(self, source, target):
        self.uploads.append((Path(source).read_bytes()[:100], target))

    def lines(self):
        return [command for command, _, _ in self.commands]


def agent(folder, **options):
    return Lathe(logs_dir=Path(folder), model_name=options.pop("model_name", MODEL), **options)


class Adapter(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("ANTHROPIC_")]:
            del os.environ[name]

    def run_with(self, made, recorder, instruction="Do it."):
        asyncio.run(made.run(instruction, recorder, AgentContext()))
        return recorder

    def test_the_factory_of_the_package_makes_it_from_its_import_path(self):
        made = AgentFactory.create_agent_from_import_path("lathe_agent:Lathe", logs_dir=self.folder, model_name=MODEL)
        self.assertEqual(made.name(), "lathe")
        self.assertEqual(made.to_agent_info().model_info.provider, "anthropic")

    def test_the_instruction_is_one_argument_whatever_is_in_it(self):
        instruction = "--help; it's $(touch /x) `y`\n\"z\""
        recorder = self.run_with(agent(self.folder), Recorder(), instruction)
        line = recorder.lines()[-1]
        script = re.sub(r"/installed-agent/lathe", "printf '%s\\\\0'", line, count=1).split(" </dev/null")[0]
        words = subprocess.run(["bash", "-c", script.removeprefix("set -o pipefail; ")], capture_output=True, text=True).stdout.split("\0")
        self.assertEqual(words[-3:], ["--", instruction, ""])
        self.assertEqual(words[words.index("--model") + 1], MODEL)
        self.assertEqual(words[words.index("--permission-mode") + 1], "bypassPermissions")

    def test_options_become_flags_and_unknown_ones_are_refused(self):
        made = agent(self.folder, effort="high", max_turns="7", max_budget_usd="1.5", append_system_prompt="Be brief.")
        line = self.run_with(made, Recorder()).lines()[-1]
        for flag in ["--effort high", "--max-turns 7", "--max-budget-usd 1.5", "--append-system-prompt 'Be brief.'"]:
            self.assertIn(flag, line)
        with self.assertRaisesRegex(ValueError, "Unknown option 'efort'"):
            agent(self.folder, efort="high")

    def test_the_key_of_the_provider_reaches_the_program_and_no_other(self):
        os.environ.update(ANTHROPIC_API_KEY="a-key", OPENAI_API_KEY="o-key")
        _, env, _ = self.run_with(agent(self.folder), Recorder()).commands[-1]
        self.assertEqual(env["ANTHROPIC_API_KEY"], "a-key")
        self.assertNotIn("o-key", env.values())
        self.assertEqual(env["IS_SANDBOX"], "1")
        self.assertTrue(env["LATHE_CONFIG_DIR"].startswith("/logs/agent/"))
        _, env, _ = self.run_with(agent(self.folder, model_name="openai/gpt-5"), Recorder()).commands[-1]
        self.assertEqual(env["OPENAI_API_KEY"], "o-key")
        self.assertNotIn("a-key", env.values())

    def test_a_release_is_fetched_with_its_sum_and_nothing_is_guessed(self):
        with self.assertRaisesRegex(RuntimeError, "name what to install"):
            asyncio.run(agent(self.folder).setup(Recorder()))
        recorder = Recorder()
        asyncio.run(agent(self.folder, version="0.1.0").setup(recorder))
        fetched = next(line for line in recorder.lines() if "SHA256SUMS" in line)
        self.assertIn("sha256sum -c", fetched)
        self.assertIn("version=0.1.0", fetched)
        missing = agent(self.folder, program=str(self.folder / "none"))
        with self.assertRaisesRegex(RuntimeError, "there is no program at"):
            asyncio.run(missing.setup(Recorder()))

    def test_the_sum_of_a_download_is_really_checked(self):
        made = agent(self.folder, version="0.1.0")
        recorder = Recorder()
        asyncio.run(made.setup(recorder))
        script = next(line for line in recorder.lines() if "SHA256SUMS" in line)
        # curl gives an archive and sums that do not fit.
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "curl").write_text(
            '#!/bin/bash\ncase "$*" in *SHA256SUMS*) name="lathe-0.1.0-$(uname -m)-unknown-linux-musl.tar.gz"; '
            'echo "$SUM  $name" > sums ;; *) echo archive > lathe.tar.gz ;; esac\n'
        )
        (tools / "curl").chmod(0o755)
        script = script.replace("/installed-agent", str(self.folder))
        good = subprocess.run(["sha256sum"], input=b"archive\n", capture_output=True).stdout.decode().split()[0]
        for digest, code in [(good, 0), ("0" * 64, 1), ("", 1)]:
            environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SUM": digest}
            ended = subprocess.run(["bash", "-c", script], env=environment, capture_output=True)
            self.assertEqual(ended.returncode != 0, code != 0, ended)

    def test_servers_and_skills_of_the_task_are_used(self):
        servers = [
            MCPServerConfig(name="files", transport="stdio", command="serve", args=["--x"]),
            MCPServerConfig(name="web", transport="streamable-http", url="http://tools/mcp"),
        ]
        program = self.folder / "lathe"
        program.write_text("program")
        made = agent(self.folder, program=str(program), mcp_servers=servers, skills_dir="/harbor/skills")
        recorder = Recorder()
        asyncio.run(made.setup(recorder))
        self.assertIn("--mcp-config /installed-agent/mcp.json", self.run_with(made, recorder).lines()[-1])
        self.assertTrue(any("/harbor/skills" in line for line in recorder.lines()))
        content = dict((target, content) for content, target in recorder.uploads)["/installed-agent/mcp.json"]
        self.assertIn(b"mcpServers", content)
        self.assertEqual(made._servers()["web"], {"type": "http", "url": "http://tools/mcp"})

    def test_a_second_step_goes_on_with_the_session(self):
        recorder = Recorder()
        asyncio.run(agent(self.folder).resume("Go on.", recorder, AgentContext()))
        self.assertIn("--continue", recorder.lines()[-1])
        self.assertIn("tee -a", recorder.lines()[-1])

    def test_failures_are_told_by_the_result_and_not_by_what_the_model_read(self):
        def failing(*frames):
            text = "\n".join(json.dumps(frame) for frame in frames)
            return Recorder([("tail -n 1", ExecResult(return_code=1)), ("lathe -p", ExecResult(stdout=text, return_code=1))])

        read = {"type": "user", "message": "a log: rate limit, Invalid API key"}
        with self.assertRaises(NonZeroAgentExitCodeError) as raised:
            self.run_with(agent(self.folder), failing(read, {"type": "result", "result": "no answer"}))
        self.assertIs(type(raised.exception), NonZeroAgentExitCodeError)
        with self.assertRaises(ApiRateLimitError):
            self.run_with(agent(self.folder), failing(read, {"type": "result", "result": "429: rate limit"}))
        with self.assertRaises(AgentAuthenticationError):
            self.run_with(agent(self.folder), failing({"type": "result", "result": "Invalid API key"}))

    def test_a_limit_ends_the_task_and_not_the_benchmark(self):
        recorder = Recorder([("tail -n 1", ExecResult(return_code=0)), ("lathe -p", ExecResult(stdout="", return_code=1))])
        self.run_with(agent(self.folder), recorder)

    def test_tokens_and_cost_are_those_of_all_runs(self):
        usage = {"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 100, "cacheCreationInputTokens": 20, "costUSD": 0.5}
        result = {"type": "result", "subtype": "success", "num_turns": 2, "total_cost_usd": 0.5, "modelUsage": {"m": usage}, "session_id": "s"}
        (self.folder / "lathe.jsonl").write_text(f'{{"type":"system"}}\nnot json\n{json.dumps(result)}\n{json.dumps(result)}\n')
        context = AgentContext()
        agent(self.folder).populate_context_post_run(context)
        self.assertEqual((context.n_input_tokens, context.n_cache_tokens, context.n_output_tokens), (260, 200, 10))
        self.assertEqual((context.cost_usd, context.metadata["num_turns"]), (1.0, 4))
        empty = AgentContext()
        (self.folder / "lathe.jsonl").unlink()
        agent(self.folder).populate_context_post_run(empty)
        self.assertTrue(empty.is_empty())


@unittest.skipUnless(PROGRAM and SCRIPTED, "LATHE_PROGRAM and LATHE_SCRIPTED are not set")
class WholeTask(unittest.TestCase):
    """`harbor run` of one task, with the real program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def serve(self, replies):
        scenario = self.folder / "scenario.json"
        scenario.write_text(json.dumps({"replies": replies}))
        server = subprocess.Popen([SCRIPTED, "serve", str(scenario)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.terminate(), server.wait(), server.stdout.close()))
        address = re.search(r"http://\S+", server.stdout.readline())
        return address[0]

    def harbor(self, address, **options):
        config = JobConfig.model_validate(
            {
                "job_name": "job",
                "jobs_dir": str(self.folder / "jobs"),
                "quiet": True,
                "tasks": [{"path": str(TASK)}],
                "environment": {"import_path": "bubble:Bubble"},
                "agents": [
                    {
                        "import_path": "lathe_agent:Lathe",
                        "model_name": MODEL,
                        "kwargs": options,
                        "env": {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "test-key"},
                    }
                ],
            }
        )

        async def go():
            return await (await Job.create(config)).run()

        asyncio.run(go())
        folder = next((self.folder / "jobs/job").glob("task__*"))
        return folder, json.loads((folder / "result.json").read_text())

    def write(self, text):
        call = {"type": "tool_use", "name": "Write", "input": {"file_path": "/app/greeting.txt", "content": text}}
        return [{"text": "I write it.", "content": [call]}, {"text": "Done."}]

    def test_a_solved_task_is_worth_one_and_has_tokens_cost_and_a_transcript(self):
        archive = self.folder / "lathe-0.1.0-x86_64-unknown-linux-musl.tar.gz"
        with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
            packed.add(PROGRAM, "lathe-0.1.0/lathe")
            packed.addfile(tarfile.TarInfo("lathe-0.1.0/LICENSE"), io.BytesIO())
        folder, result = self.harbor(self.serve(self.write("Hello, world!\n")), program=str(archive))
        self.assertIsNone(result["exception_info"], result["exception_info"])
        self.assertEqual(result["verifier_result"]["rewards"]["reward"], 1.0)
        self.assertGreater(result["agent_result"]["n_input_tokens"], 1000)
        self.assertGreater(result["agent_result"]["cost_usd"], 0)
        self.assertEqual(result["agent_info"]["name"], "lathe")
        self.assertRegex(result["agent_info"]["version"], r"^\d+\.\d+\.\d+")
        self.assertEqual(len(list((folder / "agent/lathe/projects").rglob("*.jsonl"))), 1)

    def test_a_wrong_answer_is_worth_nothing(self):
        _, result = self.harbor(self.serve(self.write("Hi\n")), program=PROGRAM)
        self.assertEqual(result["verifier_result"]["rewards"]["reward"], 0.0)

    def test_a_task_that_meets_a_limit_is_graded(self):
        _, result = self.harbor(self.serve(self.write("Hello, world!\n")), program=PROGRAM, max_turns=1)
        self.assertIsNone(result["exception_info"], result["exception_info"])
        self.assertEqual(result["agent_result"]["metadata"]["subtype"], "error_max_turns")
        self.assertEqual(result["verifier_result"]["rewards"]["reward"], 1.0)


if __name__ == "__main__":
    unittest.main()
