"""What is a secret in payloads, messages and tracebacks, and how it is masked before people or reports see it.

Two things give a secret away: the name it is kept under, and its own shape. The names are judged word by word, so that
`api_key` is masked and `keyboard` is not. Requests, whose secrets are known exactly, are ``webhook.masking``'s.
"""

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
DEEPEST = 60

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORD = re.compile(
    r"auth|authentication|authorization|bearer|cookies?|credentials?|cvc|cvv|dsn|hmac|jwt|keys?|otp|pass|passcode"
    r"|passphrase|passwd|passwords?|pin|pw|pwd|secrets?|session|sessionid|sid|sig|signatures?|tokens?"
)
# Words that some write together: `clientsecret`, `apikey`, `dbpassword`.
_SECRET_PARTS = re.compile(
    r"secret|passw|passphrase|credential|api_?key|access_?key|private_?key|signing_?key|auth_?token|access_?token"
    r"|refresh_?token|id_?token|session_?id|authorization|signature"
)
_HARMLESS = re.compile(
    r"(?:^|_)(?:cache|correlation|dedupe|foreign|idempotency|metric|natural|object|partition|primary|public|routing"
    r"|sort|unique)_keys?$"
    r"|^(?:max|min|num|total|prompt|completion)_tokens$|^tokens?_(?:count|limit|used)$"
    r"|_(?:at|count|id|type|expires|expires_in|hint|length|url|uri)$"
)
_HIDES_ITS_ID = re.compile(r"session|cookie")

_PEM = re.compile(
    r"-----BEGIN (?!CERTIFICATE|PUBLIC|RSA PUBLIC)([A-Z0-9 ]{1,60})-----.*?(?:-----END [A-Z0-9 ]{1,60}-----|\Z)",
    re.DOTALL,
)
# A whole header line: cookies and credentials contain blanks and semicolons.
_HEADER_LINE = re.compile(r"(?im)\b((?:proxy-)?authorization|(?:set-)?cookie)(\s{0,4}[:=]\s{0,4})(?![\"'\\\s])[^\r\n]+")
_SCHEME = re.compile(
    r"\b((?i:bearer)\s{1,4})[\w.~+/=-]{6,}|\b((?i:basic|token|digest)\s{1,4})(?=\S{0,500}[\dA-Z=+/])[\w.~+/=-]{8,}"
)
_LOGIN = re.compile(
    r"\b([a-z][a-z0-9+.-]{0,30}://)(?:[^\s/?#\"'<>]*@|[^\s/@:\"'<>]{0,200}:(?!\d{1,5}(?:[/?#\s]|$))[^\s@\"'<>]{1,500}@)",
    re.IGNORECASE,
)
_KNOWN_SHAPES = re.compile(
    r"\b(?:eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|AIza[\w-]{30,}|whsec_[\w+/=-]{8,}|[rs]k_(?:live|test)_\w{8,}|sk-[\w-]{20,})"
)
# The name in `name=value` and in `"name": "value"`, also where the quotes are themselves escaped.
_NAME = re.compile(
    r"(?:\\{0,3}([\"']))?(?<![\w.-])([A-Za-z_][\w.-]{0,80})(?:\\{0,3}\1)?\s{0,4}(?:=>|[:=])\s{0,4}(?!//)"
)
# The value behind it, which may be cut off.
_VALUE = re.compile(
    r"(?P<escaped>\\{1,3}(?P<q>[\"']))(?P<a>.*?)(?:(?P<end>(?P=escaped))|\Z)"
    r"|(?P<quote>[\"'])(?P<b>(?:[^\\]|\\.)*?)(?:(?P=quote)|\Z)"
    r"|[^\s&,;\"'<>(){}\[\]\\]+",
    re.DOTALL,
)
_NOTHING = frozenset({"", "None", "null", "True", "true", "False", "false"})


def is_secret_name(name: str) -> bool:
    """Whether what is kept under this name (a JSON key, a header, a parameter) is likely to be a secret."""
    words = [word.lower() for word in _WORDS.findall(name[:200])]
    plain = "_".join(words)
    if _HARMLESS.search(plain) and not _HIDES_ITS_ID.search(plain):
        return False
    return any(_SECRET_WORD.fullmatch(word) for word in words) or _SECRET_PARTS.search(plain) is not None


def redacted(value: Any, *, longest_text: int | None = None) -> Any:
    """A JSON value with its secrets masked. ``longest_text`` cuts each text after as many characters, saying so."""
    return _redacted(value, longest_text, DEEPEST)


def redacted_text(text: str, *, longest: int | None = None) -> str:
    """``text`` with everything masked that looks like a secret, or is named like one."""
    if longest is not None and len(text) > longest:
        # Masked with a margin before it is cut: half a secret would not be recognised.
        kept = _masked(text[: longest + 1_000])[:longest]
        return f"{kept}… ({len(text) - longest:,} more characters)"
    return _masked(text)


def _redacted(value: Any, longest: int | None, depth: int) -> Any:
    match value:
        case str():
            return redacted_text(value, longest=longest)
        case Mapping() | list() | tuple() if depth == 0:
            return "(nested too deep to show)"
        case Mapping():
            named = next((value[word] for word in ("name", "key", "header") if isinstance(value.get(word), str)), "")
            return {
                redacted_text(str(key), longest=longest): MASK
                if _hides(key, item) or (key == "value" and _hides(named, item))
                else _redacted(item, longest, depth - 1)
                for key, item in value.items()
            }
        case [str() as name, item] if _hides(name, item) and isinstance(item, str):
            return [name, MASK]
        case list() | tuple():
            return [_redacted(item, longest, depth - 1) for item in value]
        case _:
            return value


def _hides(name: Any, value: Any) -> bool:
    """Names of secrets with nothing behind them stay readable: that a token is missing is worth seeing."""
    return value not in (None, True, False, "", [], {}) and isinstance(name, str) and is_secret_name(name)


def _masked(text: str) -> str:
    text = _PEM.sub(lambda found: f"-----BEGIN {found[1]}-----{MASK}", text)
    text = _HEADER_LINE.sub(rf"\1\2{MASK}", text)
    text = _SCHEME.sub(lambda found: f"{found[1] or found[2]}{MASK}", text)
    text = _LOGIN.sub(rf"\1{MASK}@", text)
    text = _KNOWN_SHAPES.sub(MASK, text)
    return _without_named(text)


def _without_named(text: str) -> str:
    parts: list[str] = []
    done = 0
    place = 0
    while name := _NAME.search(text, place):
        place = name.end()
        if not is_secret_name(name[2]):
            continue
        value = _VALUE.match(text, place)
        if value is None:
            continue
        opening = value["escaped"] or value["quote"] or ""
        inside = value["a"] if value["escaped"] else value["b"] if value["quote"] else value[0]
        if inside not in _NOTHING:
            parts += [text[done:place], opening, MASK, opening]
            done = value.end()
        place = value.end()
    return "".join(parts) + text[done:]
