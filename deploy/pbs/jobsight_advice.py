"""Asks Jobsight for advice on a job at submission: for the PBS hook and the TORQUE filter.

A question takes ``limit_s`` at most, from the first byte to the last, even if the server answers slowly. After
``failures`` of them in a row, it asks none for as long as there has been no answer, ``pause_s`` at most; then it tries
one. Python 3.6 or later, nothing else.
"""

import json
import re
import socket
import time
from pathlib import Path

ANSWER_BYTES = 64 * 1024
SHOWN = 200
SHORTEST_PAUSE_S = 2
DEFAULTS = {
    "address": "127.0.0.1",
    "port": 8470,
    "cluster": "default",
    "token_file": "/etc/jobsight/submitter-token",
    "limit_s": 0.1,
    "failures": 3,
    "pause_s": 60,
    "breaker_file": None,
}


MODES = ("no", "missing", "lower", "always")
MESSAGES = ("no", "notable", "always")


class NoAdviceError(Exception):
    """Why there is no advice; ``counts``: the question counts as a failure, as with a server that hangs."""

    def __init__(self, reason, counts=False):
        super().__init__(one_line(reason))
        self.counts = counts


def choices(settings):
    """Return ``settings`` with those of their ``settings_file``, and a list of its wrong lines."""
    found = {**DEFAULTS, "memory": "no", "time": "no", "such_jobs": 5, "message": "notable", **settings}
    path = settings["settings_file"]
    try:
        lines = Path(path).read_text("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    problems = []
    for line in lines:
        words = line.partition("#")[0]
        match = re.match(r"\s*([A-Za-z_]+)(?:\.(\S+?))?\s*=\s*(\S+)\s*$", words)
        valid = match and _choice(*match.groups())
        if valid:
            found[match.group(1) + ("." + match.group(2) if match.group(2) else "")] = valid
        elif words.strip():
            problems.append(f"{path}: wrong line: {one_line(words, 60)}")
    return found, problems


def _choice(name, queue, value):
    """Return the value of a setting; None if it is invalid."""
    if name in ("memory", "time"):
        return value if value in MODES else None
    if queue:
        return None
    if name == "message":
        return value if value in MESSAGES else None
    if name == "such_jobs" or isinstance(DEFAULTS.get(name), (int, float)):
        return _positive(name, value)
    return value if name in ("address", "cluster", "token_file") else None


def _positive(name, value):
    try:
        found = float(value) if name == "limit_s" else int(value)
    except ValueError:
        return None
    return found if 0 < found < 2**31 else None


def mode_of(settings, queue):
    """Return the modes for jobs of a queue: ``memory`` and ``time``."""
    return {name: settings.get(f"{name}.{queue}", settings[name]) for name in ("memory", "time")}


def words_of(*texts):
    """Return the words for Jobsight in a job's comment and variables, as its log has them; None without any."""
    found = [word for text in texts if text for word in re.findall(r"\bjobsight:[\w.=+-][\w.,=+-]*", str(text)[:4000])]
    return "; ".join(found) or None


def is_kept(words):
    """Return whether the user wants no change: ``jobsight:keep``, alone or among facts."""
    return any("keep" in word[len("jobsight:") :].split(",") for word in (words or "").split("; "))


def engine(script="", output=""):
    """Return the workflow engine that wrote a job's script; the server knows others by the job's name."""
    if "\n# NEXTFLOW TASK: " in script or output.endswith("/.command.log"):
        return "Nextflow"
    return "Snakemake" if '\n# properties = {"type": ' in script else None


def kept_by(words, answer, script="", output=""):
    """Return why a job's request stays as it is; None if it may be changed.

    A workflow engine may have written the amount into the command, too: only its own integration may change it.
    """
    if is_kept(words):
        return "jobsight:keep"
    found = engine(script, output) or answer.get("engine")
    return one_line(found, 40) if isinstance(found, str) else None


def advice(settings, question, log):
    """Return the answer of ``POST /api/v1/advice``, a dict whose ``text`` is a text.

    ``log`` takes a line once there are answers again after a pause.

    Raises:
        NoAdviceError: there is none.
    """
    settings = {**DEFAULTS, **settings}
    failed, since = _failed(settings)
    counts = False
    try:
        return _ask(settings, question)
    except NoAdviceError as error:
        counts = error.counts
        raise
    finally:
        if counts:
            _note(settings, failed + 1, since)
        elif failed:
            _note(settings, 0, 0)
            if failed >= settings["failures"]:
                log(f"advice is on again, after {int(time.time()) - since} s without an answer")


def one_line(text, length=SHOWN):
    """Return the text's first ``length`` characters, without control characters."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:length]


def wanted(mode, asked, recommended):
    """Return whether to set a value, if the job requests ``asked`` or nothing (None); see submit.conf."""
    if recommended is None or mode not in ("missing", "lower", "always"):
        return False
    if asked is None:
        return True
    return (mode == "lower" and recommended < asked) or (mode == "always" and recommended != asked)


def requested(answer, metric):
    """Return the job's request as the server understood it, in bytes or seconds; None for nothing."""
    forecasts = answer.get("forecasts")
    for entry in forecasts if isinstance(forecasts, list) else ():
        if isinstance(entry, dict) and entry.get("metric") == metric:
            return _number(entry.get("requested"))
    return None


def such_jobs(answer):
    """Return the number of measured similar jobs of the user."""
    return _number(answer.get("such_jobs")) or 0


def in_words(answer, name, form):
    """Return a recommendation of the answer in PBS's words, if it has this form; else None."""
    words = answer.get("pbs")
    value = words.get(name) if isinstance(words, dict) else None
    return value if isinstance(value, str) and re.fullmatch(form, value) else None


def megabytes(text):
    """Return the bytes of ``2300mb``."""
    return None if text is None else int(text[:-2]) * 2**20


def clock_s(text):
    """Return the seconds of ``HH:MM:SS``."""
    if text is None:
        return None
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return hours * 3600 + minutes * 60 + seconds


MEMORY = "[1-9][0-9]{0,11}mb"
CLOCK = "[0-9]{2,6}:[0-5][0-9]:[0-5][0-9]"
SELECT = "[A-Za-z0-9_.,:=/+-]{1,4000}"


def _number(value):
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if numeric and 0 < value < 2**63 else None


def _ask(settings, question):
    try:
        with Path(settings["token_file"]).open(encoding="ascii") as file:
            token = file.read(4096).strip()
    except (OSError, ValueError) as error:
        raise NoAdviceError(f"cannot read the token: {error}") from error
    if not re.fullmatch("[A-Za-z0-9_-]+", token):
        raise NoAdviceError(f"{settings['token_file']} has no token; write the output of `jobsight token create` to it")
    sets_memory = mode_of(settings, question.get("queue"))["memory"] in ("lower", "always")
    body = json.dumps({"cluster": settings["cluster"], "sets_memory": sets_memory, **question}).encode()
    head = (
        f"POST /api/v1/advice HTTP/1.1\r\nHost: {settings['address']}:{settings['port']}\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    status, text = _exchange(settings, head.encode() + body)
    try:
        answer = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise NoAdviceError(f"answered {status}, not with JSON: {text[:60]!r}", counts=True) from error
    if status != 200:
        said = answer.get("error", answer) if isinstance(answer, dict) else answer
        raise NoAdviceError(f"answered {status}: {said}", counts=status >= 500)
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise NoAdviceError(f"answered without a text: {text[:60]!r}", counts=True)
    return answer


def _exchange(settings, request):
    """Return status and body of the answer. Each step gets the time left: a server may send a byte now and then."""
    address, late = settings["address"], f"no answer within {settings['limit_s'] * 1000:.0f} ms"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.inet_pton(family, address)
    except OSError:
        raise NoAdviceError(
            f"address {address}: give an IP address, because looking up a name has no time limit"
        ) from None
    end = time.monotonic() + settings["limit_s"]
    received = b""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(settings["limit_s"])
            connection.connect((address, settings["port"]))
            _leave(connection, end, late)
            connection.sendall(request)
            while True:
                _leave(connection, end, late)
                part = connection.recv(8192)
                received += part
                if len(received) > ANSWER_BYTES:
                    raise NoAdviceError(f"an answer of more than {ANSWER_BYTES} bytes", counts=True)
                answer = _parse(received, closed=not part)
                if answer is not None:
                    return answer
    except OSError as error:
        raise NoAdviceError(late if isinstance(error, socket.timeout) else error, counts=True) from error


def _leave(connection, end, late):
    left = end - time.monotonic()
    if left <= 0:
        raise NoAdviceError(late, counts=True)
    connection.settimeout(left)


def _parse(received, closed):
    """Return status and body; None while they are incomplete."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        if closed:
            raise NoAdviceError("the connection was closed before an answer", counts=True)
        return None
    status = re.match(rb"HTTP/1\.\d (\d{3})", head)
    if status is None:
        raise NoAdviceError(f"not an answer in HTTP: {head[:60]!r}", counts=True)
    length = re.search(rb"\r\ncontent-length:[ \t]*(\d{1,9})(?=\r\n|$)", head.lower())
    expected = None if length is None else int(length.group(1))
    if expected is not None and len(body) >= expected:
        return int(status.group(1)), body[:expected]
    if not closed:
        return None
    if expected is not None:
        raise NoAdviceError(f"the answer is cut after {len(body)} of {expected} bytes", counts=True)
    return int(status.group(1)), body


def _failed(settings):
    """Return the number of questions in a row that failed, and since when.

    Raises:
        NoAdviceError: too many to ask now.
    """
    path, now = settings["breaker_file"], int(time.time())
    try:
        with Path(path or "").open(encoding="ascii") as file:
            found = re.fullmatch(r"(\d{1,9}) (\d{1,12}) (\d{1,12})", file.read(100))
    except (OSError, ValueError):
        return 0, now
    if found is None:
        return 0, now
    failed, since, until = map(int, found.groups())
    if 0 < until - now <= settings["pause_s"]:  # more: the clock was set back
        raise NoAdviceError(f"not asked: {failed} questions in a row failed")
    return failed, since if failed and since <= now else now


def _note(settings, failed, since):
    """Store the count, and a pause as long as there has been no answer: a dead server is asked less than a busy one."""
    path, now = settings["breaker_file"], int(time.time())
    if not path:
        return
    pause_s = min(settings["pause_s"], max(SHORTEST_PAUSE_S, now - since))
    until = now + pause_s if failed >= settings["failures"] else 0
    try:
        with Path(path).open("w", encoding="ascii") as file:
            file.write(f"{failed} {since} {until}")
    except OSError:
        return  # without the file it asks each question, and limits it
