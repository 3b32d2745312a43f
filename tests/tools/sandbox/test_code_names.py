"""Which names become code wherever they are made, and which are a project's own."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tools.names import plain_name
from tools.sandbox.code_names import is_code, may_be_code

OF_EDITORS = """eslint.config.js eslint.config.mjs eslint.config.ts prettier.config.cjs stylelint.config.js
commitlint.config.js lint-staged.config.mjs tailwind.config.ts jest.config.js vitest.config.ts .mocharc.cjs
.flake8 mypy.ini .mypy.ini .ackrc .python-version _exrc .git-hooks/pre-commit .lefthook/pre-commit/x
profile.ps1 Microsoft.PowerShell_profile.ps1 .mailcap .oxlintrc.json
.eslintrc .eslintrc.json .eslintrc.yml .eslintrc.cjs .prettierrc .prettierrc.json
.prettierrc.ts .stylelintrc .stylelintrc.json .babelrc .babelrc.mjs pylintrc
pylintrc.toml .pylintrc.toml .formatter.exs .credo.exs .solargraph.yml .standard.yml
.rubocop_todo.yml .luarc.json .luacheckrc .phpactor.json .php-cs-fixer.php
.php-cs-fixer.dist.php .vimspector.json .kateproject app.geany app.iml app.ipr
hie.yaml .lintr omnisharp.json .merlin rust-analyzer.toml devenv.nix .clj-kondo/config.edn
.sourcekit-lsp/config.json .trunk/trunk.yaml babel.config.js svelte.config.js cspell.config.mjs
graphql.config.js .graphqlrc.js .remarkrc.mjs .textlintrc.js .markdownlint-cli2.cjs
.template-lintrc.js .cmake-format.py nbproject/x .bsp/sbt.json
.lldbinit-app .gdbearlyinit .nvim.lua .helix/config.toml"""
OF_AGENTS = """AGENT.md CODEBUDDY.md IFLOW.md AGENTS.md .mcp.json .mcp/x crush.json opencode.jsonc
.roomodes .roorules .kilocode/rules/x .kilocodemodes .augment/x .augment-guidelines
.trae/x .aiassistant/x .factory/x .cline/x .openhands/x .goose/x .amp/x .copilot/x
.codebuddy/x .iflow/x .warp/x"""
OF_VERSION_CONTROL = """.lintstagedrc .lintstagedrc.mjs .simple-git-hooks.json .simple-git-hooks.js
.commitlintrc.cjs captainhook.json .arcconfig .arclint .reviewboardrc .lazygit.yml
.hgrc _darcs/prefs/x .pijul/config .azure-pipelines/x .azuredevops/x .tekton/x
.harness/x"""
OF_SHELLS_AND_PROGRAMS = """mise.production.toml .mise.local.toml .miserc.toml mise/config.toml
.config/mise.toml .xonshrc .shrc .bash_completion .zsh_aliases .aliases .p10k.zsh .zimrc .elvish/rc.elv
.config/xonsh/rc.xsh .config/nushell/config.nu .config/kitty/kitty.conf .wezterm.lua
.config/starship.toml .config/sway/config .config/Code/User/settings.json
.config/zed/x .config/nixpkgs/x .local/share/applications/x .virtualenvs/x .sbtopts
.jvmopts .htaccess .user.ini .tmuxp.yaml .tmuxinator.yml .mongorc.js .sbclrc .gemrc
.lessfilter .forward .procmailrc .rhosts .jupyter/x .simplecov .proverc .yardopts
.busted .terraformrc"""
OWN = """package.json Makefile setup.py pyproject.toml src/main.py vite.config.ts
docs/agent.txt README.md node_modules/x/.eslintrc node_modules/x/.prettierrc
node_modules/x/.babelrc node_modules/x/eslint.config.js pyvenv.cfg .venv/pyvenv.cfg .editorconfig .gitignore
.dockerignore .node-version .clang-format config/code/x lib/mise.py"""


@pytest.mark.parametrize(
    "name", " ".join((OF_EDITORS, OF_AGENTS, OF_VERSION_CONTROL, OF_SHELLS_AND_PROGRAMS)).split()
)
def test_what_other_programs_obey_unasked_becomes_code_at_any_depth(name: str) -> None:
    for path in (name, f"deep/er/{name}", name.upper()):
        parts = PurePosixPath(path).parts
        assert is_code(parts), path
        # A walk looks closer only where one of the names says so.
        assert any(may_be_code(plain_name(part)) for part in parts), path


@pytest.mark.parametrize("name", OWN.split())
def test_what_is_a_projects_own_does_not(name: str) -> None:
    assert not is_code(PurePosixPath(name).parts)
