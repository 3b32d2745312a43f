"""Where people keep keys, passwords and tokens, known by the names of files and folders wherever they lie.

One list for all: reading such a place asks in every mode, and the sandbox covers it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tools.names import plain_name
from tools.regular_file import start_of

_FOLDERS = frozenset(
    ".ssh .gnupg .gpg .aws .azure .kube .oci .bluemix .password-store .gopass .keychain "
    ".mozilla .thunderbird .electrum .bitcoin .ethereum .pki .vault.d .chamber .terraform.d .minikube "
    ".putty kwalletd kwallet .librewolf .waterfox .zen .floorp .ssh2 .kaggle .ngrok2 .cloudflared .aliyun "
    ".lastpass .dashlane .age .vnc .wireguard .openvpn .remmina .purple .weechat .irssi .mutt .chef "
    ".bitmonero .monero .solana .near-credentials .sui .aptos .pulumi .fly .jira.d .gsutil .gcloud .hcloud "
    ".openai .anthropic .replicate .ivy2 .appstoreconnect".split()
)
_PAIRS = frozenset(
    tuple(text.split("/"))
    for text in (
        ".config/gcloud .config/gh .config/hub .config/glab-cli .config/google-chrome .config/chromium "
        ".config/bravesoftware .config/microsoft-edge .config/vivaldi .config/opera .config/op "
        ".config/1password .config/github-copilot .config/doctl .config/rclone .config/age .config/sops "
        ".config/keepassxc .config/joplin .config/slack .config/discord .config/signal "
        ".docker/config.json containers/auth.json git/credentials .huggingface/token huggingface/token "
        "huggingface/stored_tokens .cargo/credentials .cargo/credentials.toml .gem/credentials "
        ".m2/settings-security.xml snowflake/config.toml .dbt/profiles.yml .streamlit/secrets.toml "
        ".subversion/auth etc/shadow etc/shadow- etc/gshadow etc/gshadow- etc/sudoers etc/sudoers.d "
        "etc/krb5.keytab ssl/private etc/letsencrypt etc/wireguard etc/kubernetes google/chrome "
        "share/keyrings library/keychains bravesoftware/brave-browser firefox/profiles "
        "networkmanager/system-connections .gnome2/keyrings config/google-chrome config/chromium "
        "chromium/default "
        ".config/ngrok .config/hcloud .config/scw .config/linode-cli .snowsql/config .config/gnupg "
        ".config/openai .config/anthropic .config/stripe .config/heroku .config/netlify .vercel/auth.json "
        "com.vercel.cli/auth.json .wrangler/config .config/.wrangler .config/configstore .circleci/cli.yml "
        ".travis/config.yml .config/jgit .config/glab .config/tea .config/.jira .mc/config.json "
        ".config/bitwarden .config/lpass .config/enpass .config/exodus .config/solana .config/element "
        ".config/filezilla .config/remmina .config/freerdp .config/tigervnc .config/protonvpn "
        ".config/weechat .config/msmtp .config/replicate .config/wandb .config/adb .android/adbkey "
        "share/telegramdesktop pypoetry/auth.toml uv/credentials helm/registry .sbt/.credentials "
        ".claude/.credentials.json .gemini/oauth_creds.json .codex/auth.json .pub-cache/credentials.json "
        ".hex/hex.config .luarocks/upload_config.lua .mongodb/mongosh .foundry/keystores nu/history.txt "
        "state/python_history litecli/history pgcli/history .cassandra/cqlshrc library/cookies"
    ).split()
)
_FILES = frozenset(
    ".netrc _netrc .git-credentials .pypirc .pgpass .my.cnf .mylogin.cnf .vault-token .s3cfg .boto "
    ".htpasswd .dockercfg .smbcredentials .authinfo .authinfo.gpg .msmtprc .fetchmailrc .esmtprc .env "
    "id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk ssh_host_rsa_key ssh_host_dsa_key "
    "ssh_host_ecdsa_key ssh_host_ed25519_key application_default_credentials.json credentials.tfrc.json "
    "login.keychain-db key3.db key4.db logins.json cookies.sqlite .bash_history .zsh_history .sh_history "
    ".ksh_history .fish_history fish_history .python_history .node_repl_history .psql_history .mysql_history "
    ".sqlite_history .rediscli_history .lesshst .irb_history wallet.dat .xauthority .iceauthority "
    ".databrickscfg .modal.toml .cdsapirc .sentryclirc .rclone.conf rclone.conf .passwd-s3fs "
    ".cifscredentials .rediscli_auth .offlineimaprc .mbsyncrc .gitcookies .vault_pass .vault_password "
    ".vault_pass.txt vault_pass.txt .ansible_vault_pass kubeconfig .zhistory .histfile .mycli-history "
    ".pgcli_history .xonsh_history .dbshell adbkey .claude.json".split()
) | {"login data", "login data for account", "web data"}
_ENDINGS = tuple(
    ".kdbx .kdb .ppk .keychain .keychain-db .ovpn .agekey .gpg-key .p12 .pfx .pkcs12 .jks .keystore .bcfks "
    ".keytab .kubeconfig".split()
)
_BROWSERS = re.compile(r"(?:google-chrome|chromium|microsoft-edge|brave-browser|vivaldi|opera)-[a-z]+\Z")
_ENV = re.compile(r"\.env\.(?!(?:example|sample|template|dist|defaults?|schema|tmpl|tpl|test)\Z)[^/]+\Z")

_ASKED = frozenset(
    ".envrc .npmrc .yarnrc .yarnrc.yml pip.conf .wgetrc .curlrc gradle.properties settings.xml auth.json "
    "bunfig.toml nuget.config .condarc credentials.json token.json tokens.json client_secret.json "
    "client_secrets.json service-account.json service_account.json secrets.json secrets.yaml secrets.yml "
    "secrets.toml secrets.env credentials.yaml credentials.yml credentials.toml credentials.ini .flaskenv "
    ".terraformrc .muttrc .neomuttrc .ldaprc credentials .secrets kubeconfig.yaml kubeconfig.yml".split()
)
_ASKED_ENDINGS = (".env", ".tfvars", ".tfstate")
_ASKED_STARTS = (".env-", ".env_", "client_secret_", "service-account-", "firebase-adminsdk")
"""Files that hold a token only sometimes: what they say decides."""
_TOKEN = re.compile(rb"(?i)auth|token|passw|secret|api_?key|://[^/\s:@]*:[^/\s@]+@")
_OF_GIT = frozenset(("config", "config.worktree", ".gitmodules", ".gitconfig"))
_IN_ADDRESS = re.compile(
    rb"(?i)://(?:[^/\s:@]*:[^/\s@]+|[^/\s:@]{20,})@|^\s*(?:extraheader|password)\s*=", re.M
)
"""A password, or a token in place of a name, among the settings of a repository."""
_COPY = re.compile(r"(?:\.(?:bak|backup|old|orig|save|copy|tmp|sw[nop]|\d)|~)+\Z")
"""What editors and people hang on the name of a file that they keep a copy of."""
_KEYS = (".pem", ".key", ".p8", ".asc")
_KEY = re.compile(rb"PRIVATE KEY(?: BLOCK)?-----")
_EXAMPLES = frozenset(
    "test tests testdata testing fixtures example examples site-packages node_modules".split()
)
_MOST_BYTES = 256 << 10


def is_secret(path: Path) -> bool:
    """Whether keys, passwords or tokens lie at `path` or `path` lies in a place of such.

    `path` need not exist; pass the real path, since a link is judged by its own name. For a few kinds
    of files the content decides, and one that cannot be read counts as secret.
    """
    if is_named_secret(path):
        return True
    parts = [plain_name(part) for part in path.parts]
    name = parts[-1] if parts else ""
    if not _ASKED.isdisjoint(_bare(name)) or _is_asked(name):
        return _says(path, _TOKEN)
    if not _OF_GIT.isdisjoint(_bare(name)) and (name[:1] == "." or any(map(_is_of_git, parts[:-1]))):
        return _says(path, _IN_ADDRESS)
    return False


def _is_asked(name: str) -> bool:
    is_like_one = any(one.endswith(_ASKED_ENDINGS) for one in _bare(name)) or name.startswith(_ASKED_STARTS)
    return is_like_one and not any(word in name for word in ("example", "sample", "template"))


def is_named_secret(path: Path) -> bool:
    """As `is_secret`, without files that contain a token only sometimes: these may be ordinary settings."""
    parts = [plain_name(part) for part in path.parts]
    if _is_secret_name(parts):
        return True
    name = parts[-1] if parts else ""
    return (
        any(one.endswith(_KEYS) for one in _bare(name)) and _EXAMPLES.isdisjoint(parts) and _says(path, _KEY)
    )


def may_be_secret(plain: str) -> bool:
    """Whether a name as `plain_name` gives it is one that `is_secret` must look at: for walks over many."""
    looked_at = not _LOOKED_AT.isdisjoint(_bare(plain)) or plain.startswith(".env.") or _is_asked(plain)
    ends = any(one.endswith((*_ENDINGS, *_KEYS)) for one in _bare(plain))
    return looked_at or ends or _BROWSERS.match(plain) is not None


def _is_secret_name(parts: Sequence[str]) -> bool:
    if not _FOLDERS.isdisjoint(parts) or any(pair in _PAIRS for pair in pairwise(parts)):
        return True
    if any(above == ".config" and _BROWSERS.match(name) for above, name in pairwise(parts)):
        return True
    name = parts[-1] if parts else ""
    kept = not _FILES.isdisjoint(_bare(name))
    return kept or any(one.endswith(_ENDINGS) for one in _bare(name)) or _ENV.match(name) is not None


def _bare(name: str) -> tuple[str, str, str]:
    """A name, and what it is a copy of: `.id_rsa.swp` is one of `id_rsa`."""
    bare = _COPY.sub("", name)
    return name, bare, bare.removeprefix(".") if bare != name else bare


def _is_of_git(folder: str) -> bool:
    return folder.endswith(".git")


_LOOKED_AT = _FOLDERS | _FILES | _ASKED | _OF_GIT | frozenset(pair[-1] for pair in _PAIRS)


def _says(path: Path, wanted: re.Pattern[bytes]) -> bool:
    try:
        data = start_of(path, _MOST_BYTES)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return data is not None and wanted.search(data) is not None
