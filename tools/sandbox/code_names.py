"""Names of files that become code: something runs them, or obeys them, later and without asking.

Left out on purpose are a project's own programs and build files (`setup.py`, `package.json`,
`Makefile`): they run when the person runs the project, like every other source in it. `conftest.py` and
`eslint.config.js` count, because their mere presence beside other files runs them, in editors too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from tools.names import plain_name

_EVERYWHERE = frozenset(
    ".fireside .git git~1 .hg .svn .bzr .jj .direnv .ssh .gnupg .ipython launchagents launchdaemons "
    "init.d cron.d cron.daily cron.hourly cron.weekly cron.monthly .hooks .shadowenv.d sitecustomize "
    "usercustomize _darcs .pijul".split()
)
"""Folders that act wherever they lie."""
_IN_PROJECTS = frozenset(
    ".vscode .idea .zed .cursor .windsurf .fleet .nova .vs .run .theia .devcontainer .husky .githooks "
    ".github .gitlab .gitea .forgejo .circleci .buildkite .woodpecker .claude .codex .gemini .continue "
    ".clinerules .opencode .junie .roo .kiro .amazonq .mvn .emacs.d .vim .nvim .helix .mise .idx .agents "
    ".clj-kondo .sourcekit-lsp .trunk "
    ".qwen .codesandbox .semaphore .teamcity .builds .externaltoolbuilders .bsp .kilocode .augment .trae "
    ".aiassistant .factory .cline .openhands .goose .amp .copilot .mcp .codebuddy .iflow .warp .jupyter "
    ".azure-pipelines .azuredevops .tekton .harness nbproject .elvish .virtualenvs .nixpkgs .i3 .git-hooks "
    ".lefthook".split()
)
"""Folders that act at the top of what somebody opens as a project: not among installed packages."""
_FILES_EVERYWHERE = frozenset(
    ".envrc .autoenv .autoenv.zsh .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile "
    ".zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc "
    ".xinitrc .xprofile .xsession .xsessionrc .pam_environment config.fish .gitconfig .pythonrc "
    ".pythonrc.py .pdbrc .gdbinit .lldbinit .vimrc .exrc .nvimrc .nvim.lua .lvimrc .local.vimrc .gvimrc "
    "_vimrc .emacs .dir-locals.el .dir-locals-2.el .tmux.conf .screenrc .wgetrc .curlrc .netrc .rprofile "
    ".octaverc .ghci .ocamlinit .iex.exs .erlang .irbrc .pryrc .psqlrc .sqliterc .tool-versions .perldb "
    ".byebugrc .renviron .rdata startup.m latexmkrc .latexmkrc .lazy.lua .ycm_extra_conf.py .pylintrc "
    "rust-toolchain rust-toolchain.toml .bazelversion .bazeliskrc .mise.toml mise.toml .mise.local.toml "
    "mise.local.toml .rtx.toml sitecustomize.py usercustomize.py crontab sudoers ld.so.preload .miserc.toml "
    ".xonshrc .shrc .shinit .yashrc .bash_completion .zsh_aliases .aliases .p10k.zsh .zimrc .gdbearlyinit "
    ".hgrc .rhosts .shosts .forward .procmailrc .mongorc.js .mongoshrc.js .mysqlrc .duckdbrc .guile .sbclrc "
    ".clisprc .swiplrc .utoprc .lesskey .lessfilter .gemrc .wezterm.lua .terraformrc .radare2rc "
    ".lazygit.yml .arcconfig .arclint .reviewboardrc .htaccess .user.ini .gnuplot _exrc .mailcap profile.ps1 "
    "microsoft.powershell_profile.ps1".split()
)
_FILES_IN_PROJECTS = frozenset(
    ".gitmodules .gitattributes .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.mjs .pypirc .mcp.json "
    ".pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.yml .lefthook.yml "
    "lefthook.yaml .lefthook.yaml .overcommit.yml .gitlab-ci.yml .travis.yml azure-pipelines.yml "
    ".drone.yml .cirrus.yml agents.md claude.md claude.local.md gemini.md .cursorrules .windsurfrules "
    ".aider.conf.yml opencode.json .crush.json .goosehints .rules .bazelrc .rspec conftest.py "
    ".devcontainer.json .gitpod.yml .replit lefthook-local.yml .lefthook-local.yml lefthook.toml "
    ".lefthook.toml lefthook.json .lefthook.json .huskyrc .huskyrc.js .huskyrc.json .pnp.cjs .pnp.js "
    ".pnp.loader.mjs agents.override.md qwen.md warp.md crush.md jenkinsfile bitbucket-pipelines.yml "
    "appveyor.yml .appveyor.yml .build.yml .woodpecker.yml .woodpecker.yaml .eslintrc.js .eslintrc.cjs "
    ".prettierrc.js .prettierrc.cjs .prettierrc.mjs .stylelintrc.js .stylelintrc.cjs .rubocop.yml "
    "ipython_config.py jupyter_notebook_config.py jupyter_server_config.py jupyter_lab_config.py "
    "jupyter_config.py agent.md codebuddy.md iflow.md .roomodes .roorules .kilocodemodes "
    ".augment-guidelines crush.json opencode.jsonc .formatter.exs .credo.exs .proverc .simplecov .yardopts "
    ".luarc.json .luarc.jsonc .luacheckrc .busted .solargraph.yml .standard.yml .rubocop_todo.yml "
    ".phpactor.json .phpactor.yml .vimspector.json .kateproject .geany .sbtopts .jvmopts .mill-jvm-opts "
    ".tmuxinator.yml .tmuxp.yaml .tmuxp.yml .tmuxp.json captainhook.json pylintrc pylintrc.toml "
    ".flake8 mypy.ini .mypy.ini .ackrc .python-version hie.yaml .lintr omnisharp.json .merlin "
    "rust-analyzer.toml .rust-analyzer.toml devenv.nix".split()
)
_STARTS_IN_PROJECTS = (
    ".eslintrc",
    ".prettierrc",
    ".stylelintrc",
    ".babelrc",
    ".lintstagedrc",
    ".commitlintrc",
    ".simple-git-hooks.",
    "eslint.config.",
    "prettier.config.",
    "stylelint.config.",
    "commitlint.config.",
    "lint-staged.config.",
    "tailwind.config.",
    "jest.config.",
    "vitest.config.",
    ".mocharc.",
    ".oxlintrc",
    ".php-cs-fixer.",
    ".pylintrc",
    ".lldbinit",
    ".gdbinit",
    "babel.config.",
    "svelte.config.",
    "cspell.config.",
    "graphql.config.",
    ".graphqlrc",
    ".remarkrc",
    ".textlintrc",
    ".markdownlint-cli2.",
    ".template-lintrc",
    ".cmake-format.",
)
"""Beginnings of such names, which go on with the kind of the file or with what it is for."""
_PYTHON_STARTS = ("sitecustomize.", "usercustomize.")
_ENDINGS = (".pth", ".code-workspace", ".sublime-project", ".desktop", ".iml", ".ipr", ".geany")
_BELOW = {
    ".config": frozenset(
        "autostart systemd fish git environment.d nvim vim zsh bash tmux mise mise.toml direnv xonsh nushell "
        "elvish helix kitty alacritty wezterm i3 sway hypr awesome polybar ranger lf yazi starship.toml "
        "code zed jetbrains ipython nixpkgs pudb gdb lldb".split()
    ),
    "mise": frozenset(("config.toml", "conf.d")),
    ".local": frozenset(("bin", "lib", "applications", "bash-completion")),
    ".cargo": frozenset(("bin", "config", "config.toml", "env")),
    ".yarn": frozenset(("releases", "plugins", "sdks")),
    ".gradle": frozenset(("init.d", "init.gradle", "init.gradle.kts")),
    ".bundle": frozenset(("config", "plugin")),
}
_OF_AN_ENVIRONMENT = re.compile(r"\.?mise\.[^/]+\.toml\Z")
_PACKAGES = frozenset(("node_modules", "site-packages", "dist-packages"))

_STARTS = (*_PYTHON_STARTS, *_STARTS_IN_PROJECTS)
_ACTING = _EVERYWHERE | _FILES_EVERYWHERE
_ACTING_IN_PROJECTS = _IN_PROJECTS | _FILES_IN_PROJECTS
_LOOKED_AT = _ACTING | _ACTING_IN_PROJECTS | frozenset[str]().union(*_BELOW.values())


def is_code(parts: Sequence[str]) -> bool:
    """Whether the file at these parts of a path becomes code, by its name or by a folder it is in."""
    names = [plain_name(part) for part in parts]
    folders = set(names)
    if not _EVERYWHERE.isdisjoint(folders):
        return True
    if any(above in folders and not below.isdisjoint(folders) for above, below in _BELOW.items()):
        return True
    in_packages = not _PACKAGES.isdisjoint(folders)
    if not in_packages and not _IN_PROJECTS.isdisjoint(folders):
        return True
    last = names[-1] if names else ""
    return (
        last in _FILES_EVERYWHERE
        or last.endswith(_ENDINGS)
        or last.startswith(_PYTHON_STARTS)
        or _OF_AN_ENVIRONMENT.match(last) is not None
        or (not in_packages and (last in _FILES_IN_PROJECTS or last.startswith(_STARTS_IN_PROJECTS)))
    )


def is_code_anywhere(parts: Sequence[str]) -> bool:
    """Whether a whole path leads through a folder that acts wherever it lies, as one or below another."""
    names = [plain_name(part) for part in parts]
    pairs = pairwise(names)
    return not _EVERYWHERE.isdisjoint(names) or any(below in _BELOW.get(above, ()) for above, below in pairs)


def holds_code(parts: Sequence[str]) -> bool:
    """Whether the folder at these parts of a whole path is one that acts, or whose entries may."""
    return is_code_anywhere(parts) or any(plain_name(part) in _BELOW for part in parts[-1:])


def may_be_code(plain: str) -> bool:
    """Whether a name as `plain_name` gives it is one that `is_code` must look at: for walks over many."""
    odd = plain.endswith(_ENDINGS) or plain.startswith(_STARTS) or _OF_AN_ENVIRONMENT.match(plain)
    return plain in _LOOKED_AT or bool(odd)
