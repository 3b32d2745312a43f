"""Which commands a rule may cover: a list of what is known, and everything else asks each time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.builtin.shell import run_shell
from tools.definition import Touch, tool
from tools.permission.known_commands import UnknownCommandError, understand
from tools.permission.permissions import decide
from tools.permission.rules import Rule
from tools.permission.scope_options import why_not_obeyed
from tools.permission.shell_words import parse_command
from tools.workspace import Workspace


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def offers(space: Workspace, command: str, **more: Any) -> tuple[Rule, ...]:
    call = Call("run_shell", {"command": command, **more})
    return tuple(offer.rule for offer in decide(call, run_shell, "ask", (), space).scope_offer)


def is_allowed(space: Workspace, command: str, rules: tuple[Rule, ...], **more: Any) -> bool:
    call = Call("run_shell", {"command": command, **more})
    return decide(call, run_shell, "ask", rules, space).verdict == "allow"


KNOWN = """
ls
ls -la src
ls -l -a .
cat src/a.py
head -n 5 src/a.py
tail -n+2 src/a.py
wc -l src/a.py
du -sh src
grep -n 'x = 1' src/a.py
sort -n src/a.py
sha256sum src/a.py
stat src
pwd
whoami
uname -a
date +%F
echo 'a b' c
git status
git status -s src
git log --oneline -n 5
git branch -a
git rev-parse HEAD
git ls-files src
""".strip().splitlines()


@pytest.mark.parametrize("command", KNOWN)
def test_what_only_tells_may_be_remembered(space: Workspace, command: str) -> None:
    rules = offers(space, command)
    assert {rule.scope for rule in rules} == {"session", "always"}
    for rule in rules:
        assert is_allowed(space, command, (rule,))
        assert not is_allowed(space, command, (rule,), network=True)


UNKNOWN = r"""
run.sh
./run.sh
sub/run.sh
/work/run.sh
/usr/bin/ls
/bin/cat src/a.py
../ls
'./run.sh' x
r\un.sh
bash x
rbash
sh -c ls
dash x
zsh x
fish x
xonsh x
nu x
elvish x
python x
python3.12 -c 1
pypy3 x
ipython
perl x
ruby x
node x
deno run x
bun x
php x
lua x
luajit x
Rscript x
julia x
guile x
java -jar x
kotlin x
scala x
groovy x
dotnet run
swift run
zig run x
runghc x
ocaml x
erl
escript x
racket x
tclsh x
wish x
expect x
osascript x
pwsh x
env ls
/usr/bin/env ls
xargs ls
sudo ls
doas ls
su -c ls
pkexec ls
run0 ls
chroot . ls
unshare ls
nsenter ls
setpriv ls
bwrap ls
firejail ls
valgrind ls
cargo run
cargo test
cargo build
rustc x
rustdoc x
ld.so ls
ld-linux.so.2 ls
ld-linux-x86-64.so.2 ls
make
gmake
ninja
cmake .
meson x
bazel run x
just x
task x
npm run x
npm test
npx x
pnpm x
yarn x
uv run x
uvx x
pipx run x
pip install .
poetry run x
pdm run x
hatch run x
rye run x
conda run x
nix run
docker run x
podman run x
kubectl exec x
ssh host
scp x y
rsync -e sh x y
sftp host
git -c core.pager=x status
git -C sub status
git --exec-path=. status
git --git-dir=x status
git --work-tree=x status
git --no-pager log
git st
git diff
git diff --ext-diff
git log -p
git log --output=x
git log --show-signature
git show
git grep x
git grep -Osh x
git config -l
git config core.hooksPath x
git commit -m x
git checkout x
git fetch
git fetch --upload-pack=x .
git pull
git push
git clone x
git submodule update
git rebase --exec x
git bisect run x
git filter-branch x
git archive --exec=x
git ls-remote ext::x
git status :/
git status --ignore-submodules=none
git branch new
git branch -d x
git remote add x y
git remote -v
git
find . -exec ls
find . -delete
find .
fd -x ls
tar --to-command=x -xf y
tar -xf y
tar cf x --checkpoint-action=exec=x y
zip -T x
unzip x
cpio -i
7z x
awk 1
gawk 1
mawk 1
sed -n 1p x
sed -i s/a/b/ x
sed 's/a/b/e' x
sed 'w x' y
ed x
ex x
vi x
vim x
nvim x
emacs x
nano x
less x
more x
most x
man x
info x
gdb x
lldb x
strace ls
ltrace ls
perf record ls
time ls
nice ls
ionice ls
chrt 1 ls
taskset 1 ls
nohup ls
setsid ls
timeout 1 ls
watch ls
parallel ls
entr ls
flock x ls
stdbuf -o0 ls
unbuffer ls
script x
busybox ls
toybox ls
systemd-run ls
systemctl start x
at now
batch
crontab x
go run .
go test
go generate
pytest
pytest -q
python -m pytest
tox
nox
gradle
./gradlew
mvn test
ant
sbt
rake
bundle exec x
mix test
phpunit
jest
eslint .
tsc
ruff check
mypy .
black .
pre-commit run
prettier x
curl x
wget x
nc x
socat x
openssl x
gpg x
sqlite3 x
psql x
mysql x
jq . x
yq . x
bc x
dc x
m4 x
tee x
cp a b
mv a b
rm a
rmdir a
mkdir a
touch a
ln a b
install a b
dd if=a of=b
truncate -s0 a
chmod +x a
chown a b
split a
csplit a
shred a
patch x
diff a b
tree -o x
eval ls
exec ls
source x
. x
command ls
builtin ls
trap x EXIT
alias ls=x
export A=x
set -e
cd src
pushd src
hash -p ./x ls
enable -f ./x ls
type ls
ls -R
ls --recursive
ls -T 3
ls --time-style=+%s
ls -I x
cat -
cat --x
cat ../outside/a.txt
cat link/a.txt
cat data/chats.db
cat src/.env
cat .ssh/id_rsa
cat /etc/passwd
cat /proc/self/environ
cat -n /dev/fd/0
head --lines=5 src/a.py
head -n x src/a.py
tail -f src/a.py
tail --follow=name src/a.py
tail --pid=1 src/a.py
wc --files0-from=x
wc --files0-from x
wc @x
du src
du -a src
du --files0-from=x
du -s -X x
df -x ext4
stat -c %n src
stat --printf=x src
file -f x
file -m x src
file -z x
file -C -m x
grep -r x src
grep -R x src
grep --recursive x .
grep -d recurse x src
grep -f x src/a.py
grep --file=x src/a.py
grep -e x src/a.py
grep -P x src/a.py
grep --include=x x src
grep --exclude-from=x x src
sort -o x src/a.py
sort --output=x src/a.py
sort --compress-program=x src/a.py
sort --files0-from=x
sort -T x src/a.py
sort -S 1 src/a.py
uniq src/a.py out
md5sum -c x
sha256sum --check x
date -s x
date -f x
date -r x
date 01010000
hostname x
hostname -F x
readlink --files0-from=x
which -x
nproc --ignore=1
FOO=1 ls
PATH=. ls
LD_PRELOAD=./x ls
ls > x
ls >> x
ls 2>x
ls < x
ls | sh
ls | cat
ls && ls
ls || ls
ls; ls
ls &
ls $(x)
ls `x`
ls $HOME
ls *
ls ?
ls [a]
ls {a,b}
ls ~
ls ~root
ls #x
(ls)
{ ls; }
! ls
if ls
for x
[ -f x ]
[[ -f x ]]
while ls; do x; done
case x in y) ls;; esac
function ls
ls() { x; }
time -p ls
coproc ls
\ls -R
l''s -R
'ls' --dired=x
ls --
ls -
ls -laR
ls -lR src
ls --hide=x
ls $IFS
ls $'x'
ls "$(x)"
ls "`x`"
ls <(x)
cat <<< x
cat << x
cat ./../outside/a.txt
cat src/../../outside/a.txt
cat link/../outside/a.txt
cat '../outside/a.txt'
cat src/a.py ../outside/a.txt
cat src/a.py > src/b.py
cat src/a.py 2>&1
cat src/a.py -o out
cat .fireside/../../outside/a.txt
cat data
cat .git/config
cat .envrc
tac ../outside/a.txt
nl /etc/passwd
head -n5x src/a.py
head -n 5 -- src/a.py
head -5 src/a.py
tail -F src/a.py
tail -n 5 --retry src/a.py
wc -l --files0-from=-
du -s --exclude-from=x src
du -s --time-style=x src
df --output=x
stat -f src
stat -L link
file -f - src
file --magic-file=x src
file --compile
realpath --relative-to=/ src
readlink -f /etc/passwd
sort -k 1 src/a.py
sort -t , src/a.py
sort -R --random-source=x src/a.py
sort --parallel=9 src/a.py
sort --batch-size=2 src/a.py
sort -m src/a.py
sort -c src/a.py
sort --debug src/a.py
grep -- x src/a.py
grep -rn x .
grep -nr x .
grep --directories=recurse x src
grep -l x ../outside/a.txt
grep x /etc/passwd
grep --exclude-dir=x x src
grep --devices=read x src
grep
grep -n
cmp src/a.py /etc/passwd
cmp -i 1 src/a.py src/a.py
md5sum -c src/a.py
b2sum --check x
cksum --files0-from=x
basename -s x y
dirname -z x
id root
groups root
whoami x
uname x
arch x
pwd x
true x
hostname -I
nproc x
uptime --since
free -s 1
free --seconds 1
date --date=x
date --file=x
date --reference=x
date --set=x
echo --x
echo x > y
which --skip-alias x
git status -- src
git status -uall
git status --untracked-files=all
git status --column
git -p status
git --help
git help status
git version
git log -5
git log main
git log main..x
git log -L1,2:src/a.py
git log --follow src
git log --ext-diff
git log --textconv
git log --format=%x
git branch -m x
git branch --edit-description
git branch -u x
git branch --contains x
git branch -f x y
git ls-files -o
git ls-files --others
git ls-files --exclude-from=x
git ls-files -X x
git ls-files ../outside
git rev-parse --git-path x
git rev-parse --parseopt
git rev-parse --sq-quote x
git stash
git tag x
git blame src/a.py
git cat-file -p x
git cat-file --textconv x
git hash-object -w x
git worktree add x
git remote update
git maintenance run
git gc
git fsck
git notes edit
git send-email x
git difftool
git mergetool
git instaweb
git daemon
git shell
git upload-pack .
git http-backend
git lfs x
git annex x
git x
gitk
tig
gh pr list
hub x
svn status
hg status
jj status
""".strip().splitlines()


@pytest.mark.parametrize(
    "command", [*UNKNOWN, "ls\nls", "ls \\\n-l", "ls\r", "ls\u00a0", "l\u202es", "ls @x; x"]
)
def test_nothing_else_has_a_rule_and_a_saved_one_is_not_obeyed(space: Workspace, command: str) -> None:
    assert offers(space, command) == ()
    root, digest = str(space.root), run_shell.digest
    words = tuple(command.split())
    forged = [
        Rule("run_shell", digest, kind, values, "{}", root)
        for kind in ("argv", "argv2")
        for values in (words, words[:1], words[:2], words[:-1])
    ]
    whole = [Rule("run_shell", digest, "any", (), "", root)]
    for leads in ("", "{}"):
        for text in (f'{{"command": "{command}"}}', f'{{"command": "{command}", "network": false}}'):
            whole.append(Rule("run_shell", digest, "call", (text,), leads, root))
    assert not is_allowed(space, command, (*forged, *whole))


# ---- the program that would be found -----------------------------------------------------------


def program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_a_name_that_path_finds_in_the_workspace_has_no_rule(
    space: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved = offers(space, "ls src")
    usual = os.environ["PATH"]
    program(space.root / "bin" / "ls")
    (tmp_path / "around").symlink_to(space.root / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "ls").symlink_to(space.root / "bin" / "ls")
    for first in (space.root / "bin", space.root / "empty", tmp_path / "around", tmp_path / "links"):
        monkeypatch.setenv("PATH", f"{first}:{usual}")
        assert offers(space, "ls src") == (), first
        assert not is_allowed(space, "ls src", saved), first
    monkeypatch.setenv("PATH", f"{usual}:{space.root / 'bin'}")
    assert is_allowed(space, "ls src", saved)
    monkeypatch.setenv("PATH", str(tmp_path / "outside"))
    assert offers(space, "ls src") == ()


def test_a_path_folder_written_relatively_is_not_searched_at_all(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(space.root / "ls")
    monkeypatch.chdir(space.root)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    assert offers(space, "ls src")


# ---- what a rule covers ------------------------------------------------------------------------

PIECES = [
    "ls",
    "cat",
    "head",
    "git",
    "status",
    "-n",
    "5",
    "-l",
    "src",
    "src/a.py",
    "link",
    ".env",
    "..",
    "-R",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.lists(st.sampled_from(PIECES), max_size=4)
)
def test_a_rule_covers_only_what_its_card_showed(
    space: Workspace, shown: list[str], other: list[str]
) -> None:
    card, text = " ".join(shown), " ".join(other or shown)
    for rule in offers(space, card):
        if not is_allowed(space, text, (rule,)):
            continue
        if rule.kind == "argv":
            assert text == card
            continue
        # A wide rule: the words of the card without its paths, and then any paths of the workspace.
        fixed = rule.text.partition("`")[2].partition("`")[0].split()
        assert rule.text.endswith("with any paths in the workspace")
        left = text.split()
        for word in fixed:
            left.remove(word)
        for word in left:
            place = space.locate(word)
            assert place.inside and not place.secret and not word.startswith("-")


def test_a_rule_of_another_tool_that_takes_commands_is_none(space: Workspace) -> None:
    @tool(does="execute", touch=Touch(command="command"))
    def elsewhere(command: str, host: str = "") -> None: ...

    assert decide(Call("elsewhere", {"command": "ls"}), elsewhere, "ask", (), space).scope_offer == ()


@pytest.mark.parametrize("network", [True, False])
def test_where_a_command_runs_is_part_of_its_rule(space: Workspace, tmp_path: Path, network: bool) -> None:
    rules = offers(space, "ls src", network=network)
    assert rules
    assert is_allowed(space, "ls src", rules, network=network)
    assert not is_allowed(space, "ls src", rules, network=not network)
    other = Workspace.at(tmp_path / "outside")
    assert not is_allowed(other, "ls src", rules, network=network)


# ---- rules of older versions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("any", ()),
        ("call", ('{"command": "make"}',)),
        ("argv", ("cargo", "test")),
        ("argv", ("pytest", "-q")),
        ("argv", ("/usr/bin/ls",)),
        ("argv", ("run.sh",)),
        ("argv", ()),
        ("argv2", ("head", "-n")),
        ("argv2", ("git", "config")),
    ],
)
def test_what_an_older_version_saved_is_told_to_be_no_longer_obeyed(
    kind: Any, values: tuple[str, ...]
) -> None:
    assert why_not_obeyed(Rule("run_shell", "", kind, values))
    assert why_not_obeyed(Rule("run_shell", "", kind, values, verdict="deny")) == ""


def test_what_is_offered_now_is_not(space: Workspace) -> None:
    for command in KNOWN:
        assert [why_not_obeyed(rule) for rule in offers(space, command) if why_not_obeyed(rule)] == []


def test_words_alone_are_understood_without_a_workspace() -> None:
    assert understand(parse_command("head -n 5 a b")).paths == ("a", "b")
    with pytest.raises(UnknownCommandError, match="joins several"):
        understand(parse_command("ls; ls"))
