"""A Harbor environment without a container engine: bubblewrap over a folder, with this machine's programs.

Only for the tests of the adapter: it isolates files, not the network (the scripted model is on loopback).
"""

import asyncio
import shutil
from pathlib import Path
from typing import override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities


class Bubble(BaseEnvironment):
    """A root folder below the trial, and /usr of this machine."""

    @staticmethod
    @override
    def type() -> str:
        return "bubble"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(mounted=False)

    @override
    def _validate_definition(self) -> None:
        pass

    @property
    def root(self) -> Path:
        return self.trial_paths.trial_dir / "root"

    def inside(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    @override
    async def start(self, force_build: bool) -> None:
        for folder in ("app", "home", "installed-agent", "logs/agent", "logs/verifier", "logs/artifacts", "tests", "tmp", "etc"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / name).symlink_to(f"usr/{name}")
        files = self.environment_dir / "files"
        if files.is_dir():
            shutil.copytree(files, self.root / "app", dirs_exist_ok=True)

    @override
    async def stop(self, delete: bool) -> None:
        pass

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        self.inside(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source_path, self.inside(target_path))

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self.inside(target_dir), dirs_exist_ok=True)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copyfile(self.inside(source_path), target_path)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self.inside(source_dir), target_dir, dirs_exist_ok=True)

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        line = ["bwrap", "--bind", str(self.root), "/", "--ro-bind", "/usr", "/usr"]
        line += ["--proc", "/proc", "--dev", "/dev", "--die-with-parent", "--unshare-pid", "--clearenv"]
        variables = {"HOME": "/home", "PATH": "/usr/bin:/bin", **(self._merge_env(env) or {})}
        for name, value in variables.items():
            line += ["--setenv", name, value]
        line += ["--chdir", cwd or "/app", "bash", "-c", command]
        process = await asyncio.create_subprocess_exec(
            *line, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
            return ExecResult(stdout="", stderr="timed out", return_code=124)
        return ExecResult(stdout=out.decode(errors="replace"), stderr=err.decode(errors="replace"), return_code=process.returncode or 0)
