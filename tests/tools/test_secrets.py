from __future__ import annotations

from pathlib import Path

import pytest

from tools.secrets import is_secret, may_be_secret


@pytest.mark.parametrize(
    "path",
    [
        "/home/a/.ssh/id_rsa",
        "/home/a/.ssh",
        "/w/.SSH/known_hosts",
        "/w/deploy/id_ed25519",
        "/w/.gnupg/private-keys-v1.d/x.key",
        "/w/.aws/credentials",
        "/w/.config/gcloud/application_default_credentials.json",
        "/w/.azure/msal_token_cache.json",
        "/w/.kube/config",
        "/w/.docker/config.json",
        "/w/.config/google-chrome/Default/Cookies",
        "/w/snap/firefox/common/.mozilla/firefox/x/logins.json",
        "/w/.local/share/keyrings/login.keyring",
        "/Users/a/Library/Keychains/login.keychain-db",
        "/w/.netrc",
        "/w/.git-credentials",
        "/w/.pypirc",
        "/w/.cache/huggingface/token",
        "/w/.huggingface/token",
        "/w/.config/gh/hosts.yml",
        "/w/.env",
        "/w/.env~",
        "/w/.env.bak",
        "/w/.netrc.old",
        "/w/backup/id_rsa.bak",
        "/w/.id_rsa.swp",
        "/w/id_ed25519.1",
        "/w/.git-credentials.save",
        "/w/app/.env.production",
        "/w/.ENV.local",
        "/w/passwords.kdbx",
        "/w/.bash_history",
        "/etc/shadow",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssl/private/x.pem",
        "/w/.var/app/com.google.Chrome/config/google-chrome/Default/Cookies",
        "/w/snap/chromium/common/chromium/Default/Cookies",
        "/w/.config/google-chrome-beta/Default/Cookies",
        "/w/.config/microsoft-edge-dev/x",
        "/w/backup/Login Data",
        "/w/.librewolf/x/prefs.js",
        "/w/.gnome2/keyrings/login.keyring",
        "/w/.databrickscfg",
        "/w/.kaggle/kaggle.json",
        "/w/.claude/.credentials.json",
        "/w/.codex/auth.json",
        "/w/.gemini/oauth_creds.json",
        "/w/.config/ngrok/ngrok.yml",
        "/w/.config/stripe/config.toml",
        "/w/.rclone.conf",
        "/w/.wireguard/wg0.conf",
        "/w/.vnc/passwd",
        "/w/.vault_pass",
        "/w/cert.p12",
        "/w/sign.jks",
        "/w/debug.keystore",
        "/w/service.keytab",
        "/w/prod.kubeconfig",
        "/w/.solana/id.json",
        "/w/.histfile",
    ],
)
def test_where_keys_lie_is_secret(path: str) -> None:
    assert is_secret(Path(path))
    assert any(may_be_secret(part.lower()) for part in Path(path).parts)


@pytest.mark.parametrize(
    "path",
    [
        "/w/src/token.py",
        "/w/.env.example",
        "/w/id_rsa.pub",
        "/w/id_rsa.pub.bak",
        "/w/credentials.json",
        "/w/docs/config.json",
        "/w/environment",
        "/w/.config/htop/htoprc",
        "/w/src/credentials",
        "/w/keys",
        "/w/config/chrome/x",
        "/w/google-chrome-beta/x",
        "/w/keyrings/backend.py",
        "/",
    ],
)
def test_what_only_looks_alike_is_not(path: str) -> None:
    assert not is_secret(Path(path))


@pytest.mark.parametrize(
    "name",
    [
        "credentials.json",
        "secrets.yaml",
        "service-account.json",
        "token.json.bak",
        "prod.env",
        ".env-staging",
        "terraform.tfvars",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        "prod.env.bak",
        "x.tfvars~",
        "client_secret_1.apps.json",
        "firebase-adminsdk-x.json",
        "credentials",
    ],
)
def test_a_file_with_such_a_name_is_one_where_it_holds_a_token(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"colour": "red"}')
    assert not is_secret(tmp_path / name)
    (tmp_path / name).write_text('{"client_secret": "x"}')
    assert is_secret(tmp_path / name) and may_be_secret(name)


def test_of_some_files_the_content_decides(tmp_path: Path) -> None:
    # The name of pytest's folder begins with the word "test", which is no folder of examples.
    npmrc, key, public = tmp_path / ".npmrc", tmp_path / "server.pem", tmp_path / "ca.pem"
    npmrc.write_text("registry=https://registry.npmjs.org/\n")
    assert not is_secret(npmrc)
    npmrc.write_text("//registry.npmjs.org/:_authToken=npm_x\n")
    assert is_secret(npmrc)
    (tmp_path / ".envrc").write_text("use nix\n")
    assert not is_secret(tmp_path / ".envrc")
    (tmp_path / ".envrc").write_text("export OPENAI_API_KEY=sk-x\n")
    assert is_secret(tmp_path / ".envrc")
    key.write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    public.write_text("-----BEGIN CERTIFICATE-----\n")
    assert is_secret(key)
    assert not is_secret(public)
    assert not is_secret(tmp_path / "missing.pem")


@pytest.mark.parametrize(
    "name", [".git/config", "x.git/config", ".git/modules/a/config", ".gitmodules", ".git/config.bak"]
)
@pytest.mark.parametrize(
    ("setting", "tells"),
    [
        ("url = https://me:pass@example.com/x.git", True),
        ("url = https://:pass@example.com/x.git", True),
        ("url = https://ghp_0123456789abcdefghij@example.com/x", True),
        ("extraheader = AUTHORIZATION: basic eDp5", True),
        ("url = https://example.com/x.git", False),
        ("url = https://me@example.com/x.git", False),
        ("url = ssh://git@example.com:22/x.git", False),
        ("url = git@example.com:me/x.git", False),
    ],
)
def test_settings_of_a_repository_with_a_token_are_secret(
    tmp_path: Path, name: str, setting: str, tells: bool
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[remote "origin"]\n\t{setting}\n')
    assert is_secret(path) is tells
    assert may_be_secret(path.name)
    other = tmp_path / "config"
    other.write_text(f"{setting}\n")
    assert not is_secret(other)


@pytest.mark.parametrize(
    "name", ["server.key.bak", "server.pem.old", "server.key.1", "key.pem~", ".server.key.swp"]
)
def test_a_copy_of_a_key_is_a_key(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    assert is_secret(tmp_path / name) and may_be_secret(name)


@pytest.mark.parametrize(
    "name",
    ["x.p12.bak", "a.kdbx.old", "x.kdbx~", ".env.test.local", ".env.example.local", ".env.defaults-prod"],
)
def test_names_that_go_on_behind_what_is_known_are_judged_to_their_end(name: str) -> None:
    assert is_secret(Path("/home/me") / name) and may_be_secret(name)
