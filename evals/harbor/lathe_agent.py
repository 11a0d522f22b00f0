"""Lathe as an agent of Harbor, the runner of Terminal-Bench and other benchmarks.

    harbor run -d terminal-bench@2.0 -a lathe_agent:Lathe -m anthropic/claude-sonnet-4-5 --ak program=lathe.tar.gz

The class puts the program into the container of a task, runs `lathe -p` with the instruction of the task, and reports tokens
and cost. See README.md beside this file.
"""

import json
import shlex
from pathlib import Path
from typing import Annotated, Any, override

from harbor.agents.capabilities import AgentCapabilities
from harbor.agents.installed.base import (
    BaseInstalledAgent,
    NonZeroAgentExitCodeError,
    filter_jsonl_events,
    with_prompt_template,
)
from harbor.agents.model_connection import ModelConnectionSpec
from harbor.agents.options import Cli, InstalledAgentOptions
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext, ModelUsage
from pydantic import Field

RELEASES = "https://github.com/lathe-dev/lathe/releases/download"
FOLDER = "/installed-agent"
PROGRAM = f"{FOLDER}/lathe"
OUTPUT = "lathe.jsonl"
# Variables of the host that reach the program; keys of the provider in use come from the model's connection.
PASSED_ON = (
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_REGION",
)


class LatheOptions(InstalledAgentOptions):
    """What `--ak name=value` sets."""

    program: str | None = Field(
        default=None,
        description="A release archive (.tar.gz) or a static program on this machine. Without it, the release `version` is downloaded.",
    )
    effort: Annotated[str | None, Cli("--effort")] = Field(
        default=None, description="low, medium, high, xhigh or max."
    )
    max_turns: Annotated[int | None, Cli("--max-turns")] = Field(
        default=None, description="The largest number of model calls."
    )
    max_budget_usd: Annotated[float | None, Cli("--max-budget-usd")] = Field(
        default=None, description="The most dollars that one task may cost."
    )
    append_system_prompt: Annotated[str | None, Cli("--append-system-prompt")] = Field(
        default=None, description="Text after the system prompt."
    )


class Lathe(BaseInstalledAgent):
    """Runs `lathe -p` in the container of a task."""

    capabilities = AgentCapabilities(skills=True, mcp_servers=True, resume=True)
    MODEL_CONNECTION = ModelConnectionSpec(passthrough=True)
    options_model = LatheOptions
    options: LatheOptions

    @staticmethod
    @override
    def name() -> str:
        return "lathe"

    @override
    def get_version_command(self) -> str | None:
        return f"{PROGRAM} --version"

    @override
    def parse_version(self, stdout: str) -> str:
        return stdout.split()[-1] if stdout.split() else "unknown"

    @override
    async def install(self, environment: BaseEnvironment) -> None:
        await self.ensure_system_dependencies(environment, ("bash",))
        if self.options.program:
            await self._upload(environment, Path(self.options.program).expanduser())
        else:
            await self._download(environment)
        await self.exec_as_agent(environment, command=f"{PROGRAM} --version")
        if self.mcp_servers:
            await self._upload_config_text(
                environment,
                content=json.dumps({"mcpServers": self._servers()}, indent=1),
                remote_path=f"{FOLDER}/mcp.json",
                filename="mcp.json",
            )

    async def _upload(self, environment: BaseEnvironment, program: Path) -> None:
        if not program.is_file():
            raise FileNotFoundError(f"there is no program at {program}")
        if program.name.endswith(".tar.gz"):
            await environment.upload_file(program, f"{FOLDER}/lathe.tar.gz")
            await self._unpack(environment)
        else:
            await environment.upload_file(program, PROGRAM)
            await self.exec_as_root(environment, command=f"chmod 755 {PROGRAM}")

    async def _download(self, environment: BaseEnvironment) -> None:
        if not self._version:
            raise ValueError("name what to install: --ak program=FILE or --ak version=VERSION")
        await self.ensure_system_dependencies(environment, ("curl", "ca_certificates"))
        version = shlex.quote(self._version.removeprefix("v"))
        await self.exec_as_root(
            environment,
            command=(
                f"cd {FOLDER} && version={version} && "
                'name="lathe-$version-$(uname -m)-unknown-linux-musl.tar.gz" && '
                f'curl -fsSL -o lathe.tar.gz "{RELEASES}/v$version/$name" && '
                f'curl -fsSL -o sums "{RELEASES}/v$version/SHA256SUMS" && '
                "sum=\"$(awk -v name=\"$name\" '$2 == name {print $1}' sums)\" && "
                'echo "$sum  lathe.tar.gz" | sha256sum -c -'
            ),
        )
        await self._unpack(environment)

    async def _unpack(self, environment: BaseEnvironment) -> None:
        await self.exec_as_root(
            environment,
            command=(
                f"cd {FOLDER} && tar -xzf lathe.tar.gz --strip-components=1 --wildcards '*/lathe' && "
                f"chmod 755 lathe && rm lathe.tar.gz"
            ),
        )

    def _servers(self) -> dict[str, dict[str, Any]]:
        """The task's MCP servers, in the form of `--mcp-config`."""
        servers: dict[str, dict[str, Any]] = {}
        for server in self.mcp_servers:
            if server.transport == "stdio":
                servers[server.name] = {"command": server.command, "args": list(server.args)}
            else:
                kind = "http" if server.transport == "streamable-http" else server.transport
                servers[server.name] = {"type": kind, "url": server.url}
        return servers

    def command(self, instruction: str, resume: bool = False) -> str:
        """The command line of one task."""
        parts = [PROGRAM, "-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
        if self.model_name:
            parts += ["--model", self.model_name]
        if self.mcp_servers:
            parts += ["--mcp-config", f"{FOLDER}/mcp.json"]
        if resume:
            parts.append("--continue")
        flags = self.build_cli_flags()
        output = shlex.quote((self.environment_logs_dir / OUTPUT).as_posix())
        tee = "tee -a" if resume else "tee"
        line = f"{shlex.join(parts)}{f' {flags}' if flags else ''} -- {shlex.quote(instruction)}"
        return f"{line} </dev/null 2>&1 | {tee} {output}"

    def environment_variables(self) -> dict[str, str]:
        """Keys of the model, and the folder in which the session is kept with the logs of the trial."""
        found = {name: value for name in PASSED_ON if (value := self._get_env(name))}
        return {
            **found,
            **self.model_connection.env,
            "LATHE_CONFIG_DIR": (self.environment_logs_dir / "lathe").as_posix(),
            # The container is thrown away: root may act without questions in it, and no second sandbox is needed.
            "IS_SANDBOX": "1",
            "LATHE_SANDBOX": "0",
        }

    async def _go(self, instruction: str, environment: BaseEnvironment, context: AgentContext, resume: bool) -> None:
        if self.skills_dir:
            skills = shlex.quote(self.skills_dir)
            target = shlex.quote((self.environment_logs_dir / "lathe" / "skills").as_posix())
            await self.exec_as_agent(
                environment,
                command=f"if [ -d {skills} ]; then mkdir -p {target} && cp -R {skills}/. {target}/; fi",
            )
        try:
            await self.exec_as_agent(
                environment,
                command=self.command(instruction, resume),
                env=self.environment_variables(),
            )
        except NonZeroAgentExitCodeError:
            # Limits that were set (turns, dollars) end the task, not the benchmark: what was done is graded.
            if not await self._ended_by_a_limit(environment):
                raise

    @override
    @with_prompt_template
    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await self._go(instruction, environment, context, resume=False)

    @override
    @with_prompt_template
    async def resume(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        await self._go(instruction, environment, context, resume=True)

    def results(self) -> list[dict[str, Any]]:
        """The results in the log; one per run."""
        log = self.logs_dir / OUTPUT
        found = []
        if log.is_file():
            for line in log.read_text(errors="replace").splitlines():
                try:
                    frame = json.loads(line)
                except ValueError:
                    continue
                if isinstance(frame, dict) and frame.get("type") == "result":
                    found.append(frame)
        return found

    async def _ended_by_a_limit(self, environment: BaseEnvironment) -> bool:
        """Asks in the container: the logs come to this machine only after the run."""
        output = shlex.quote((self.environment_logs_dir / OUTPUT).as_posix())
        limits = '"subtype":"error_max_(turns|budget_usd)"'
        found = await environment.exec(command=f"tail -n 1 {output} | grep -qE {shlex.quote(limits)}")
        return found.return_code == 0

    @override
    def _classify_exec_error(self, command: str, result: Any) -> NonZeroAgentExitCodeError:
        """By the result of the run alone: files and commands that the model looked at may have words of errors in them."""
        told = filter_jsonl_events(result.stdout, lambda event: event.get("type") == "result")
        return super()._classify_exec_error(command, result.model_copy(update={"stdout": told}))

    @override
    def populate_context_post_run(self, context: AgentContext) -> None:
        results = self.results()
        if not results:
            return
        models: dict[str, ModelUsage] = {}
        for result in results:
            for name, usage in (result.get("modelUsage") or {}).items():
                cached = usage.get("cacheReadInputTokens", 0)
                total = models.setdefault(name, ModelUsage())
                total.n_input_tokens += usage.get("inputTokens", 0) + cached + usage.get("cacheCreationInputTokens", 0)
                total.n_cache_tokens += cached
                total.n_output_tokens += usage.get("outputTokens", 0)
                total.cost_usd = (total.cost_usd or 0.0) + usage.get("costUSD", 0.0)
        context.model_usage = models
        context.n_input_tokens = sum(usage.n_input_tokens for usage in models.values())
        context.n_cache_tokens = sum(usage.n_cache_tokens for usage in models.values())
        context.n_output_tokens = sum(usage.n_output_tokens for usage in models.values())
        context.cost_usd = sum(result.get("total_cost_usd", 0.0) for result in results)
        last = results[-1]
        context.metadata = {
            "session_id": last.get("session_id"),
            "subtype": last.get("subtype"),
            "is_error": last.get("is_error"),
            "num_turns": sum(result.get("num_turns", 0) for result in results),
        }
