"""Who wrote a line, and when: peels off what launchers, schedulers, containers and loggers wrote before its text.

Layers come in any order and several at once: ``2025-11-22T07:43:25.1Z stderr F 3: [default3]:[rank11]: Traceback``.
What could as well be the text itself (``3: ``, ``host: ``, ``name | ``) counts only where the file as a whole speaks
for it. Who these numbers are to each other is for :mod:`.joining`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from distcheck.core.patterns import lazy

from .clock import MONTHS, LogClock, epoch, full, year_in
from .labels import (
    HOST,
    LABEL,
    LABEL_APART,
    NAMED,
    NOBODIES,
    NUMBERED,
    PAIR,
    PIPED,
    PLAIN,
    REPLICA,
    LabelStyle,
    looks_like_a_host,
    shape,
)
from .model import MOST_RANKS, LineAuthor


class LineHead(NamedTuple):
    """A line taken apart."""

    who: LineAuthor
    #: seconds since the epoch; None: the line has no time
    time: float | None
    #: what is left of the line
    text: str
    #: ``stdout`` or ``stderr`` where a launcher or a container prints it
    stream: str = ""


UNKNOWN_WRITER = LineAuthor()
#: Layers that are peeled off one line; real lines have up to six.
_MOST_LAYERS = 12
#: Longest beginning of a line that is read.
_LONGEST_HEAD = 2000

#: Colour and cursor (ECMA-48: CSI), titles of terminals (OSC), and single-letter sequences.
ESCAPES = lazy(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_=>78])")

_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:Z| ?[+-]\d\d:?\d\d| UTC)?"
_DATE = r"(?:19|20)\d\d[-/][01]\d[-/][0-3]\d"
_MONTH = "(?:" + "|".join(MONTHS) + ")"
_LEVEL = r"(?:DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|SUCCESS|EXCEPTION)"

_BRACKET = lazy(
    r"\[(?:"
    # [rank3]: of torchrun and of torch's own hook, [rank: 3] of Lightning, [RANK 3], [rank3] of Megatron
    r"(?P<rank>(?:(?:(?:global|GLOBAL|Global)[ _-]?)?(?:rank|RANK)[ :=_#-]{0,2}|(?:Global[ _-]?)Rank[ :=_#-]{0,2}"
    r"|Rank[:=_#-] ?|Rank ?(?=\d{1,6} ?/))(?P<r>\d{1,6})(?: ?/ ?\d{1,6})?\](?::|(?=[ \[])))"
    r"|(?P<local>(?:local|LOCAL|Local)[ _-]?(?:rank|RANK|Rank)[ :=_#-]{0,2}(?P<ll>\d{1,4})\](?::|(?=[ \[])))"
    # torch's C++ loggers write their rank themselves; it belongs to the text
    r"|(?P<torch>[Rr]ank (?P<tr>\d{1,6})\][ :])"
    r"|(?P<group>PG (?:ID )?(?P<pg>\d+)"
    r"(?: \([\w:.-]{0,80}\))?(?: PG GUID (?P<guid>\d+)[^\]\[]{0,200}?)? Rank (?P<gr>\d{1,6})\])"
    # [default3]:, [trainer3]:
    r"|(?P<role>(?P<name>[A-Za-z_][A-Za-z_.-]{0,40}?)(?P<lr>\d{1,4})\]:)"
    # [E1122 07:43:25.123456789 ProcessGroupNCCL.cpp:616] , [W socket.cpp:601]
    r"|(?P<c10>[TDIWEFVR](?P<c10d>\d{3,4}|\d{8}) (?P<c10t>" + _TIME + r")(?: \d+)? [\w./+-]{1,200}:\d+\] ?)"
    r"|(?P<c10old>[TDIWEF] [\w/+-]{1,120}\.\w{1,4}:\d+\] ?)"
    r"|(?P<date>(?:NeMo [IWED] |task )?(?P<dd>"
    + _DATE
    + r")[T ](?P<dt>"
    + _TIME
    + r")(?P<dz>"
    + _ZONE
    # SGLang writes its rank of tensor parallelism behind the time: it counts over all hosts
    + r")(?: (?:[\w.]+:\d+|[IWEDFC] \d+ \d+|(?:DP(?P<dp>\d{1,5}) )?TP(?P<tp>\d{1,5})(?P<tpp> PP\d+)?(?: EP\d+)?))?\] ?)"
    r"|(?P<tensor>(?:DP(?P<dp2>\d{1,5}) )?TP(?P<tp2>\d{1,5})(?P<tpp2> PP\d+)?(?: EP\d+)?\] ?)"
    r"|(?P<hf>"
    + _LEVEL
    + r"\|(?:(?P<hd>"
    + _DATE
    + r")[T ](?P<ht>"
    + _TIME
    + r")\] (?:[\w./-]+:\d+ )?(?:>> ?)?|[^\]\s]{1,120}:\d+\] ?))"
    r"|(?P<short>(?P<sm>[01]?\d)/(?P<sd>[0-3]\d) (?P<st>" + _TIME + r")(?: [\w.]{1,60})?\]:? ?)"
    r"|(?P<ctime>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<cm>"
    + _MONTH
    + r") [ \d]?(?P<cd>\d) (?P<ct>"
    + _TIME
    + r") (?P<cy>\d{4})\] ?)"
    # [1,3]<stderr>:, [prterun-host-4711@1,3]<stdout>:, horovodrun's [3]<stderr>:
    # [1,mpirank:3,algo-1]<stderr>: of SageMaker
    r"|(?P<mpi>(?:[\w.-]{1,120}@)?(?:\d+,)?(?:mpirank:)?(?P<mt>\d{1,6})(?:,(?P<mh>" + HOST + r"))?\]"
    r"<(?P<ms>std(?:out|err))>: ?)"
    r"|(?P<pod>pod/(?P<pn>[\w.-]{1,253})/[\w.-]{1,63}\] ?)"
    # UCX and other clocks since the epoch; the kernel's since it started, or since the last line
    r"|(?P<unix>(?P<ut>\d{10}\.\d{3,9})\] (?:\[(?P<uh>" + HOST + r"):(?P<up>\d+) *:\d+\] ?)?)"
    r"|(?P<boot> *[+ ]?\d+\.\d{6}\] )"
    r"|(?P<ompi>(?P<oh>" + HOST + r"):(?P<op>\d{2,8})\] (?=\*\*\*|\[|mca|MCW|PMIX|pml|btl))"
    r"|(?P<pid>(?P<pp>\d{2,8})\] (?=\[rank\d))"
    r")"
)
_PAREN = lazy(
    r"\((?:"
    r"(?P<raylet>(?:raylet|gcs_server|scheduler|autoscaler|dashboard)(?:[, ][^()]{0,80})?\) ?)"
    r"|(?P<rank>(?:[Rr]ank|RANK)[ :=]{0,2}(?P<r>\d{1,6})\):? ?)"
    r"|(?P<ray>(?=.{0,160}?\b(?:pid|ip)=)(?P<about>[A-Za-z_][^()]{0,120}(?:\([^()]{0,80}\)[^()]{0,120})?)\) ?)"
    r")"
)
_DIGIT = lazy(
    r"(?:"
    # 2025-11-22T07:43:25.123456789Z stdout F …; 2025-11-22 07:43:25,123 …; 2025-11-22T… node01 train[123]:
    r"(?P<full>(?P<d>" + _DATE + r")[T _](?P<t>" + _TIME + r")(?P<z>" + _ZONE + r")"
    r"(?:(?=[ \t|:\]-])[:,]?[ \t]?(?:(?P<cri>stdout|stderr) [FP](?: |$))?|$)"
    r"(?:(?!" + _LEVEL + r"\b)(?P<h>" + HOST + r") (?P<i>[A-Za-z_][\w./@-]{0,60})(?:\[(?P<p>\d+)\])?: )?)"
    r"|(?P<us>(?P<um>[01]\d)/(?P<ud>[0-3]\d)/(?P<uy>(?:19|20)\d\d) (?P<ut>" + _TIME + r")(?=[ ,:-]) ?)"
    r"|(?P<short>(?P<sm>[01]\d)[-/](?P<sd>[0-3]\d) (?P<st>" + _TIME + r")(?=[ ,:-]) ?)"
    # 22-Nov-25 07:43:25 of strftime's %d-%b-%y
    r"|(?P<named>(?P<nd>[0-3]\d)-(?P<nm>" + _MONTH + r")-(?P<ny>(?:20)?\d\d) (?P<nt>" + _TIME + r")(?=[ ,:-]) ?)"
    r")"
)
_LETTER = lazy(
    r"(?:"
    # E1122 07:43:25.123000 4711 torch/distributed/…py:702] , I20251122 07:43:25.123456 4711 file.cc:22]
    r"(?P<glog>[VIWEFCD](?P<gd>\d{4}|\d{8}) (?P<gt>"
    + _TIME
    + r") +(?P<gp>\d+) [\w./<>+-]{1,200}:\d+\] ?(?:\[[\d/_]+\] )?)"
    # node01:4711:4890 [3] NCCL WARN …, since NCCL 2.27 with a file before NCCL
    r"|(?P<nccl>(?P<nh>[A-Za-z0-9][\w.-]{0,120}):(?P<np>\d+):\d+ (?:\[-?\d+\] )?"
    r"(?=(?:[\w./-]+:\d+ )?NCCL (?:INFO|WARN|TRACE|VERSION|CALL|ABORT|ERROR)))"
    # Nov 22 07:43:25 node01 train[123]:
    r"|(?P<sys>(?P<sm>"
    + _MONTH
    + r") [ \d]?(?P<sd>\d) (?P<st>"
    + _TIME
    + r") (?P<sh>"
    + HOST
    + r") (?P<si>[\w./@()-]{1,80})(?:\[(?P<sp>\d+)\])?: )"
    # Sat Nov 22 07:43:25 2025[1,3]<stderr>:
    r"|(?P<ctime>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<cm>"
    + _MONTH
    + r") [ \d]?(?P<cd>\d) (?P<ct>"
    + _TIME
    + r")(?: [A-Z]{3,4})? (?P<cy>\d{4})(?=[\[ :]):? ?)"
    # INFO:root: of logging without a format; INFO 11-22 07:43:25 [core.py:58] of vLLM
    r"|(?P<py>" + _LEVEL + r":[A-Za-z_][\w.]{0,100}:)"
    r"|(?P<vllm>" + _LEVEL + r" (?P<vm>[01]\d)-(?P<vd>[0-3]\d) (?P<vt>" + _TIME + r") \[?[\w./-]{1,120}:\d+\] ?)"
    r"|(?P<leveled>"
    + _LEVEL
    + r" *[:|-]? (?P<ld>"
    + _DATE
    + r")[T ](?P<lt>"
    + _TIME
    + r")(?P<lz>"
    + _ZONE
    + r")(?=[ :|,-])[:,]? ?)"
    # accelerate test, and other programs that print what a launcher printed
    r"|(?P<stream>(?P<ss>stdout|stderr): )"
    # Composer's rank3[4711][MainThread]: INFO: composer.trainer:
    r"|(?P<composer>rank(?P<cr>\d{1,6})\[(?P<cp>\d{1,8})\]\[[\w-]{1,60}\]: (?:" + _LEVEL + r": (?:[\w.]{1,120}: )?)?)"
    r"|(?P<label>(?:(?:global|Global|GLOBAL)[ _-]?)?(?:rank|Rank|RANK)(?:[ =_:#-]?(?P<r>\d{1,6})|\[(?P<rr>\d{1,6})\])"
    r"(?:: | ?\| | - (?=[A-Za-z\[])))"
    r")"
)
_ANGLE = lazy(r"<\d{1,3}>(?:1 )?(?=[\[A-Z\d])")
_ABOUT = lazy(r"\b(rank|pid|ip)=([\w.:-]+)")
#: A worker of vLLM whose only kind of parallelism is that of tensors.
_OF_TENSORS = lazy(r"(?:Vllm)?Worker[_ ](?:DP0_)?TP(\d{1,5})(?:_EP\d+)? ")
#: The rank that a script's own logger writes after the time, before its other fields: ``- rank 3 - ERROR - …``.
_LOGGED_RANK = lazy(
    r"[-|] ?(?:(?:global|GLOBAL|Global)[ _-]?)?(?:rank|RANK|Rank)[ :=_#-]{0,2}(?P<r>\d{1,6})(?: ?/ ?\d{1,6})? ?"
    r"(?=[-|:] ?[A-Za-z\[])"
)
#: The number that a script's own logger gives to a worker.
_WORKER = lazy(r"\[[Ww]orker[ :=_#-]{0,2}(?P<r>\d{1,6})\] ?")
#: What Python's loggers write between the time and the message.
_LOGGER = lazy(
    r"(?:"
    r"- [\w./:-]{1,120} - " + _LEVEL + r" ?- ?"
    r"|- " + _LEVEL + r" - (?:[\w./:-]{1,120} - )?"
    r"|\| ?" + _LEVEL + r" *\| (?:[\w./:<>-]{1,160} [|-] )?"
    r"|(?:[\w.]{1,120}: )?\[" + _LEVEL + r"\](?::? ?- |:? ?)"
    r"|\[[\w./-]{1,120}\]\[" + _LEVEL + r"\](?: ?- | ?)"
    r"|" + _LEVEL + r" [\w./-]{1,120}:\d+ -- "
    r"|" + _LEVEL + r"(?::| +[-:|]) (?:[\w.]{1,100}: )?"
    r"|(?:\w{0,60}[._][\w.]{0,100}|root) " + _LEVEL + r":? +"
    r"|" + _LEVEL + r" +(?:[a-z_][\w.]{0,100}: )?"
    r"|\[[\w./-]{1,120}:\d+(?::[\w<>.]+)?\] ?"
    r"|>> "
    # Determined: the container, and the rank in brackets before or after the bars
    r"|[0-9a-f]{8} (?=\[rank=\d|\|\| )|\|\| "
    r"|[IWEF] [\w./-]{1,200}:\d+\] ?"
    r")"
)
#: A progress bar of tqdm that ended without a line break: the line goes on with something else.
_BAR = lazy(r"[^\[]{0,500}\d+/[\d.?]+\w? \[[^\]]{0,120}(?:it/s|s/it|B/s|/s)[^\]]{0,80}\] ?(?=[A-Za-z\[(])")

#: What peels one layer: adds to what is known, returns where the rest begins.
#: Words of another process that ended no line, before a traceback of torch's.
_BEFORE_TRACEBACK = lazy(r".{1,300}?(?=\[rank\d{1,6}\]: ?Traceback \(most recent call last\))")

_Found = dict[str, "int | str | float | None"]


class Prefixes:
    """Takes the lines of one file apart.

    :param sample: the first lines of the file: which of the ambiguous styles it really has
    """

    def __init__(self, sample: Sequence[str] = ()) -> None:
        self._clock = LogClock()
        self._lines = 0
        self._label = LabelStyle(LABEL, of_hosts=False)
        self._apart = LabelStyle(LABEL_APART, of_hosts=False)
        self._numbered = LabelStyle(NUMBERED, of_hosts=False)
        self._named = LabelStyle(NAMED, of_hosts=True)
        self._piped = LabelStyle(PIPED, of_hosts=True)
        self._pair = LabelStyle(PAIR, of_hosts=True)
        self._replica = LabelStyle(REPLICA, of_hosts=True)
        self._styles = (
            self._label, self._apart, self._numbered, self._named, self._piped, self._pair, self._replica,
        )  # fmt: skip
        self._enabled: list[LabelStyle] = []
        self._replica_of: dict[int, int] = {}
        #: SGLang runs replicas of the model, whose ranks count from 0 in each
        self.replicas_count_their_own = False
        self._whos: dict[tuple[int | None, int | None, str | None, int | None, int | None], LineAuthor] = {}
        if sample:
            self.learn(sample)

    @property
    def year_is_guessed(self) -> bool:
        """Whether the times of the lines are of no known year."""
        return self._clock.guessed

    @property
    def styles(self) -> tuple[tuple[bool, int], ...]:
        """What is known of the labels so far: another value may take lines apart in another way."""
        return (
            *((style.enabled, len(style.shapes)) for style in self._styles),
            (self.replicas_count_their_own, 0),
        )

    def note_replica(self, replica: int, rank: int) -> None:
        """Note a pair of SGLang's numbers. With attention that is data parallel, the rank counts over all replicas."""
        known = self._replica_of.setdefault(rank, replica)
        self.replicas_count_their_own = self.replicas_count_their_own or known != replica or rank < replica

    def learn(self, lines: Sequence[str]) -> None:
        """Inspect more lines of the file. Styles that were found stay."""
        for line in lines:
            self._clock.saw(year_in(line[:200]))
        for line in lines:
            text = line.rstrip("\r\n")[:_LONGEST_HEAD]
            if text.strip():
                self._lines += 1
                self._notice(text)
        for style in self._styles:
            style.decide(self._lines)
        self._enabled = [style for style in self._styles if style.enabled]

    def _notice(self, line: str) -> None:
        """Note which ambiguous labels stand at any layer of one line."""
        text = ESCAPES.sub("", line) if "\x1b" in line else line
        found: _Found = {}
        noted: set[int] = set()
        for _ in range(_MOST_LAYERS):
            end = self._certain_layer(text, found)
            if end:
                text = text[end:]
                continue
            for style in self._styles:
                match = style.pattern.match(text)
                if match is None or id(style) in noted:
                    continue
                if style.could_be(name := style.name_of(match)):
                    noted.add(id(style))
                    style.note(name, text[match.end() :])
                    text = text[match.end() :]
                    break
                style.question(name, text[match.end() :])
            else:
                return

    def parse(self, line: str) -> LineHead:
        """Take one line apart."""
        if "\x1b" in line:
            line = ESCAPES.sub("", line)
        text = line.rstrip("\r\n")
        if "\r" in text:
            text = _last_shown(text)
        tail = ""
        if len(text) > _LONGEST_HEAD:
            text, tail = text[:_LONGEST_HEAD], text[_LONGEST_HEAD:]
        found: _Found = {}
        for _ in range(_MOST_LAYERS):
            if not text:
                break
            end = self._certain_layer(text, found) or self._labelled_layer(text, found)
            if not end:
                if text[0] == "{" and (inner := self._json(text + tail, found)) is not None:
                    text, tail = inner, ""
                    continue
                if ("/s" in text or "s/it" in text) and (bar := _BAR.match(text)):
                    end = bar.end()
                elif "rank" not in found and "]: Traceback" in text and (words := _BEFORE_TRACEBACK.match(text)):
                    end = words.end()
                else:
                    break
            text = text[end:]
            if "stop" in found:
                break
        if not found:
            return LineHead(UNKNOWN_WRITER, None, text + tail)
        return LineHead(self._who(found), found.get("time"), text + tail, found.get("stream") or "")  # type: ignore[arg-type]

    def _who(self, found: _Found) -> LineAuthor:
        rank = found.get("rank")
        key = (
            found.get("weak_rank") if rank is None else rank,
            found.get("local_rank"),
            found.get("host"),
            found.get("pid"),
            found.get("task"),
        )
        who = self._whos.get(key)  # type: ignore[arg-type]
        if who is None:
            if len(self._whos) > 50_000:
                self._whos.clear()
            who = self._whos[key] = LineAuthor(*key)  # type: ignore[index, arg-type]
        return who

    def _certain_layer(self, text: str, found: _Found) -> int:
        """Peel one layer that no text of a program looks like; returns its length, 0 for none."""
        first = text[0] if text else ""
        if first == "[":
            match = _BRACKET.match(text)
        elif "0" <= first <= "9":
            match = _DIGIT.match(text) or _LETTER.match(text)
        elif first.isalpha():
            match = _LETTER.match(text)
        elif first == "(":
            match = _PAREN.match(text)
        elif first == "<":
            match = _ANGLE.match(text)
            return match.end() if match else 0
        else:
            match = None
        if match is not None:
            layer = _LAYERS[match.lastgroup or ""]
            return layer(self, match, found, text)
        if "time" not in found:
            return 0
        if (logged := _LOGGED_RANK.match(text)) is not None:
            found.setdefault("weak_rank", int(logged["r"]))
            return logged.end()
        if "trainer" in found and (worker := _WORKER.match(text)) is not None:
            found.setdefault("weak_rank", int(worker["r"]))
            return worker.end()
        logger = _LOGGER.match(text)
        return logger.end() if logger is not None else 0

    def _labelled_layer(self, text: str, found: _Found) -> int:
        """Peel a label that the file as a whole speaks for, or that what follows makes certain."""
        first = text[0]
        if not (first.isalnum() or first in " ["):
            return 0
        for style in self._enabled:
            match = style.pattern.match(text)
            if match and (end := self._take(style, match, text, found)):
                return end
        for style in (self._label, self._named, self._replica, self._piped, self._pair):
            if not style.enabled and ":" in text[:130]:
                match = style.pattern.match(text)
                if match and self._plainly(style, match, text):
                    return self._take(style, match, text, found, certain=True)
        return 0

    def _plainly(self, style: LabelStyle, match: re.Match[str], text: str) -> bool:
        """What follows the label is a launcher's or Python's; such lines teach the style."""
        name = style.name_of(match)
        twice = style.of_hosts and text.startswith(match[0], match.end())
        if not (twice or PLAIN.match(text, match.end())):
            return False
        if not style.could_be(name) or (style.of_hosts and not looks_like_a_host(name)):
            return False
        style.note(name, text[match.end() :])
        if style.certain >= 3:
            style.decide(1 << 30)
            self._enabled = [style for style in self._styles if style.enabled]
        return True

    def _take(self, style: LabelStyle, match: re.Match[str], text: str, found: _Found, certain: bool = False) -> int:
        name = style.name_of(match)
        end = match.end()
        if style.of_hosts:
            if not style.could_be(name) or (not certain and shape(name) not in style.shapes):
                return 0
            if found.get("label", name) != name:
                return 0
            found["label"] = found["host"] = name
            return end
        if "task" in found:
            return 0
        found["task"] = int(name)
        return end

    def _json(self, text: str, found: _Found) -> str | None:
        """A line of a container's log as JSON: ``{"log": "…\\n", "stream": "stderr", "time": "…"}``."""
        if not text.endswith("}") or '"' not in text[:3] or found.get("json"):
            return None
        import json

        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict):
            return None
        message = next((record[key] for key in _JSON_TEXTS if isinstance(record.get(key), str)), None)
        if message is None:
            return None
        found["json"] = 1
        for key in _JSON_TIMES:
            value = record.get(key)
            if "time" not in found and isinstance(value, (str, int, float)) and not isinstance(value, bool):
                match = _DIGIT.match(str(value))
                moment = (
                    full(match["d"], match["t"], match["z"] or "") if match and match["full"] else epoch(str(value))
                )
                if moment is not None:
                    found["time"] = moment
        if isinstance(stream := record.get("stream"), str) and stream in ("stdout", "stderr"):
            found["stream"] = stream
        around = record.get("kubernetes")
        host = around.get("pod_name") if isinstance(around, dict) else None
        host = host or next((record[key] for key in _JSON_HOSTS if isinstance(record.get(key), str)), None)
        if isinstance(host, str) and host:
            found.setdefault("host", host)
        rank = record.get("rank")
        # -1 stands for "not distributed"
        if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANKS:
            found.setdefault("rank", rank)
        return str(message).rstrip("\r\n").replace("\r", "")


_JSON_TEXTS = ("log", "message", "msg", "text", "textPayload", "line", "MESSAGE")
_JSON_TIMES = ("time", "timestamp", "@timestamp", "ts", "asctime", "__REALTIME_TIMESTAMP")
_JSON_HOSTS = ("pod", "pod_name", "hostname", "host", "_HOSTNAME")


def _last_shown(text: str) -> str:
    """What a terminal shows of a line with carriage returns, with the label that stands before the first."""
    parts = [part for part in text.split("\r") if part.strip()]
    if len(parts) < 2:
        return parts[0] if parts else ""
    label = _BRACKET.match(parts[0])
    if label and label.lastgroup in ("rank", "role", "mpi") and not parts[-1].startswith("["):
        return parts[0][: label.end()] + parts[-1]
    return parts[-1]


def _space(text: str, end: int) -> int:
    """Past the one blank that a launcher writes after its label; an even number of them is Python's indentation."""
    stop = end
    while text[stop : stop + 1] == " ":
        stop += 1
    return end + ((stop - end) & 1)


def _time(found: _Found, moment: float | None) -> None:
    if moment is not None and found.get("time") is None:
        found["time"] = moment


def _of_rank(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["rank"] = int(match["r"])
    return _space(text, match.end())


def _of_stream(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found.setdefault("stream", match["ss"])
    return match.end()


def _of_rank_label(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["rank"] = int(match["r"] or match["rr"])
    return _space(text, match.end() - 1)


def _of_local_rank(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["local_rank"] = int(match["ll"])
    return _space(text, match.end())


def _of_composer(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["rank"], found["pid"] = int(match["cr"]), int(match["cp"])
    return match.end()


def _of_torch(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found.setdefault("weak_rank", int(match["tr"]))
    found["stop"] = 1
    return 0


def _of_group(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    # the rank inside of that group: the job's own only where the group is the default one
    if int(match["guid"] or match["pg"]) == 0:
        found.setdefault("weak_rank", int(match["gr"]))
    found["stop"] = 1
    return 0


def _of_role(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    if match["name"].strip("_.-").lower() in NOBODIES:
        return 0
    found["local_rank"] = int(match["lr"])
    return _space(text, match.end())


def _of_c10(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    _time(found, _glog_time(prefixes, match["c10d"], match["c10t"]))
    return match.end()


def _glog_time(prefixes: Prefixes, date: str, time: str) -> float | None:
    if len(date) == 8:
        prefixes._clock.saw(int(date[:4]))
        return full(date, time)
    return prefixes._clock.day(int(date[:-2]), int(date[-2:]), time)


def _of_nothing(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    # a level: what follows it was written by a logger as well
    found.setdefault("time", None)
    return match.end()


def _of_a_file(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    return match.end()


def _of_date(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    prefixes._clock.saw(int(match["dd"][:4]))
    _time(found, full(match["dd"], match["dt"], match["dz"] or ""))
    found.setdefault("time", None)
    if match["tp"] and not match["tpp"]:
        _of_parallel(prefixes, match["dp"], int(match["tp"]), found)
    return match.end()


def _of_tensor(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    if not match["tpp2"]:
        _of_parallel(prefixes, match["dp2"], int(match["tp2"]), found)
    return match.end()


def _of_parallel(prefixes: Prefixes, replica: str | None, rank: int, found: _Found) -> None:
    """SGLang's rank of tensor parallelism, and its replica."""
    if replica is not None:
        prefixes.note_replica(int(replica), rank)
    if replica is None or not prefixes.replicas_count_their_own:
        found.setdefault("weak_rank", rank)


def _of_hf(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    if match["hd"]:
        _time(found, full(match["hd"], match["ht"]))
    found.setdefault("time", None)
    return match.end()


def _of_short(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    _time(found, prefixes._clock.day(int(match["sm"]), int(match["sd"]), match["st"]))
    found.setdefault("time", None)
    return match.end()


def _of_ctime(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    day = text[match.start("cd") - 1 : match.end("cd")].strip()
    _time(found, full(f"{match['cy']}-{MONTHS[match['cm']]:02}-{int(day):02}", match["ct"]))
    return match.end()


def _of_mpi(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["task"] = int(match["mt"])
    found["stream"] = match["ms"]
    if match["mh"]:
        found["host"] = match["mh"]
    return match.end() - (text[match.end() - 1] == " ") + (_space(text, match.end("ms") + 2) - match.end("ms") - 2)


def _of_pod(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["host"] = match["pn"]
    return match.end()


def _of_unix(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    _time(found, epoch(match["ut"]))
    if match["uh"]:
        found["host"], found["pid"] = match["uh"], int(match["up"])
    return match.end()


def _of_boot(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    # seconds since the kernel started are no time that others have
    found.setdefault("boot", 1)
    return match.end()


def _of_ompi(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["host"], found["pid"] = match["oh"], int(match["op"])
    return match.end()


def _of_pid(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["pid"] = int(match["pp"])
    return match.end()


def _of_ray(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    about = _ABOUT.findall(match["about"])
    if not any(name != "rank" for name, _ in about):
        return 0
    for name, value in about:
        if name == "ip":
            found["host"] = value
        elif value.isdecimal() and len(value) <= 9:
            # a worker's number of its own: the job's rank only where nothing else names one
            found.setdefault(*(("weak_rank", int(value)) if name == "rank" else ("pid", int(value))))
    if (parallel := _OF_TENSORS.match(match["about"])) is not None:
        found.setdefault("weak_rank", int(parallel[1]))
    elif "TrainWorker" in match["about"]:
        found["trainer"] = 1
    return _space(text, match.end() - (text[match.end() - 1] == " "))


def _of_raylet(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    for name, value in _ABOUT.findall(match["raylet"]):
        if name == "ip":
            found["host"] = value
    return _space(text, match.end() - (text[match.end() - 1] == " "))


def _of_full(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    prefixes._clock.saw(int(match["d"][:4]))
    _time(found, full(match["d"], match["t"], match["z"] or ""))
    found.setdefault("time", None)
    if match["cri"]:
        found["stream"] = match["cri"]
    if match["h"]:
        found["host"] = match["h"]
        if match["p"]:
            found["pid"] = int(match["p"])
    return match.end()


def _of_us(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    _time(found, full(f"{match['uy']}-{match['um']}-{match['ud']}", match["ut"]))
    found.setdefault("time", None)
    return match.end()


def _of_named(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    year = int(match["ny"]) % 100 + 2000
    prefixes._clock.saw(year)
    _time(found, full(f"{year}-{MONTHS[match['nm']]:02}-{match['nd']}", match["nt"]))
    found.setdefault("time", None)
    return match.end()


def _of_glog(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    _time(found, _glog_time(prefixes, match["gd"], match["gt"]))
    pid = int(match["gp"])
    if pid <= _HIGHEST_PID:
        found.setdefault("pid", pid)
    return match.end()


def _of_nccl(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    found["host"], found["pid"] = match["nh"], int(match["np"])
    found["stop"] = 1
    return match.end()


def _of_sys(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    day = text[match.start("sd") - 1 : match.end("sd")].strip()
    _time(found, prefixes._clock.day(MONTHS[match["sm"]], int(day), match["st"]))
    found["host"] = match["sh"]
    if match["sp"]:
        found["pid"] = int(match["sp"])
    return match.end()


def _of_vllm(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    _time(found, prefixes._clock.day(int(match["vm"]), int(match["vd"]), match["vt"]))
    return match.end()


def _of_leveled(prefixes: Prefixes, match: re.Match[str], found: _Found, text: str) -> int:
    _time(found, full(match["ld"], match["lt"], match["lz"] or ""))
    found.setdefault("time", None)
    return match.end()


#: Linux gives no process a higher number (proc(5), pid_max on 64 bits); what is higher is a thread's handle.
_HIGHEST_PID = 4_194_304

_LAYERS: dict[str, Callable[[Prefixes, re.Match[str], _Found, str], int]] = {
    "rank": _of_rank,
    "label": _of_rank_label,
    "local": _of_local_rank,
    "composer": _of_composer,
    "stream": _of_stream,
    "torch": _of_torch,
    "group": _of_group,
    "role": _of_role,
    "c10": _of_c10,
    "c10old": _of_a_file,
    "date": _of_date,
    "tensor": _of_tensor,
    "hf": _of_hf,
    "short": _of_short,
    "ctime": _of_ctime,
    "mpi": _of_mpi,
    "pod": _of_pod,
    "unix": _of_unix,
    "boot": _of_boot,
    "ompi": _of_ompi,
    "pid": _of_pid,
    "ray": _of_ray,
    "raylet": _of_raylet,
    "full": _of_full,
    "us": _of_us,
    "named": _of_named,
    "glog": _of_glog,
    "nccl": _of_nccl,
    "sys": _of_sys,
    "py": _of_nothing,
    "vllm": _of_vllm,
    "leveled": _of_leveled,
}
