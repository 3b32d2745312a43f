from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.app.files.pdfs import pdf

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[1]
DECOYS = ("app", "backend", "tools", "themes")


def run(*command: str | Path, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environ, capture_output=True, text=True, timeout=200
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result


class Environment:
    """An empty environment that finds this one's libraries, but nothing of Fireside."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        self.packages = next((folder / "lib").glob("python*/site-packages"))
        self.before = set(self.packages.iterdir())

    def lend_libraries(self) -> None:
        (self.packages / "libraries.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
        self.before.add(self.packages / "libraries.pth")

    def install(self, *arguments: str | Path, cwd: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-deps", "--quiet"]
        run(*pip, "--no-index", "--no-build-isolation", "--ignore-installed", *arguments, cwd=cwd)

    def gained(self) -> set[str]:
        return {path.name for path in set(self.packages.iterdir()) - self.before}


@pytest.fixture(scope="module")
def decoy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name in DECOYS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('the decoy was imported')\n")
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("environment"))
    environment.install(wheel, cwd=wheel.parent)
    environment.lend_libraries()
    return environment


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("editable"))
    environment.lend_libraries()
    environment.install("--editable", ROOT, cwd=ROOT)
    return environment


def test_site_packages_gain_only_what_is_ours(installed: Environment) -> None:
    ours = {name for name in installed.gained() if not name.endswith(".dist-info")} - {"__pycache__"}
    assert ours == {"fireside.py", "fireside"}
    assert {path.name for path in (installed.packages / "fireside").iterdir()} - {"__pycache__"} == set(
        DECOYS
    )


def test_pages_schema_and_child_processes_travel_along(installed: Environment, decoy_folder: Path) -> None:
    fireside = installed.bin / "fireside"
    assert run(fireside, "help", "keys", cwd=decoy_folder).stdout.startswith("# Keys")
    assert "$defs" in run(fireside, "help", "json", "--schema", cwd=decoy_folder).stdout
    (decoy_folder / "paper.pdf").write_bytes(pdf("A page."))
    attached = run(fireside, "-m", "no-such", "-p", "x", "--attach", "paper.pdf", cwd=decoy_folder, code=3)
    assert "no-such" in attached.stderr
    doctor = run(fireside, "doctor", "--json", cwd=decoy_folder, code=0)
    assert '"llama.cpp", "state": "ok"' in doctor.stdout


def test_the_license_travels_along(installed: Environment) -> None:
    assert list(installed.packages.glob("fireside-*.dist-info/licenses/LICENSE"))


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_the_command_runs_beside_a_decoy(
    kind: str, decoy_folder: Path, request: pytest.FixtureRequest
) -> None:
    environment: Environment = request.getfixturevalue(kind)
    assert run(environment.bin / "fireside", "--version", cwd=decoy_folder).stdout.startswith("fireside ")
    assert "Usage: fireside" in run(environment.bin / "fireside", "--help", cwd=decoy_folder).stdout


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_the_library_is_ours_beside_a_decoy(
    kind: str, decoy_folder: Path, request: pytest.FixtureRequest
) -> None:
    environment: Environment = request.getfixturevalue(kind)
    program = (
        "from fireside import GenerationConfig, load; print(GenerationConfig(seed=3).seed, load.__module__)"
    )
    result = run(environment.python, "-c", program, cwd=decoy_folder)
    assert result.stdout.startswith("3 backend")
    assert result.stderr.count("RuntimeWarning") == 1
    assert str(decoy_folder / "app" / "__init__.py") in result.stderr


def test_no_warning_where_nothing_is_hidden(installed: Environment, tmp_path: Path) -> None:
    result = run(installed.python, "-c", "from fireside import load, ToolCall", cwd=tmp_path)
    assert result.stderr == ""


def test_a_package_already_imported_is_refused_by_name(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("")
    program = "import tools, fireside; print('imported'); fireside.load"
    result = run(installed.python, "-c", program, cwd=tmp_path, code=1)
    assert result.stdout == "imported\n"
    assert "ImportError" in result.stderr
    assert str(tmp_path / "tools.py") in result.stderr


def test_an_editable_install_runs_the_checkout(editable: Environment, tmp_path: Path) -> None:
    result = run(editable.python, "-c", "import fireside; print(fireside.__file__)", cwd=tmp_path)
    assert result.stdout.strip() == str(ROOT / "fireside.py")
    assert not any(name in editable.gained() for name in (*DECOYS, "fireside"))
