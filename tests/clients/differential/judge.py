"""Which differences have a reason, and which requests were asked enough.

Reasons are in toml files: the first entry that fits a difference explains it.
"""

import fnmatch
import tomllib
import warnings
from pathlib import Path

from clients.differential import schema

HERE = Path(__file__).parent


class Reasons:
    """The reasons of a script's file; those of `also` count too, and may all be unused."""

    def __init__(self, name, also=()):
        self.name = name
        self.said = tomllib.loads((HERE / name).read_text())
        self.own = self.said.get("difference", [])
        self.others = [entry for other in also for entry in tomllib.loads((HERE / other).read_text()).get("difference", [])]

    def left(self, found):
        """Lines about the differences that nothing explains; warns of reasons for nothing."""
        used, left = set(), {}
        for one in found:
            fitting = [index for index, entry in enumerate([*self.own, *self.others]) if explained(entry, *one)]
            used.update(fitting[:1])
            if not fitting:
                api, what, version, path, theirs, ours = one
                left.setdefault((api, what, path, str(theirs), str(ours)), []).append(version)
        for index, entry in enumerate(self.own):
            if index not in used:
                warnings.warn(f"nothing differs any more as {self.name} says: {entry}", stacklevel=1)
        return [f"{api} {versions}, {what}: {path}: Kafka {theirs}, ours {ours}"
                for (api, what, path, theirs, ours), versions in left.items()]


def explained(entry, api, what, version, path, theirs, ours):
    """Whether an entry is about this difference."""

    def fits(key, value):
        wanted = entry.get(key, ["*"])
        return any(fnmatch.fnmatchcase(str(value), one) for one in ([wanted] if isinstance(wanted, str) else wanted))

    return (fits("api", api) and fits("what", what) and fits("field", path) and version in entry.get("versions", [version])
            and entry.get("kafka", theirs) == theirs and entry.get("forebay", ours) == ours)


def asked(recorder):
    """(api, version) of what both brokers serve, and Kafka's answers by (what, answer)."""
    names = schema.keys()
    for key, (first, last) in recorder.versions.items():
        api = names[key]
        served = schema.message(f"{api}Request").versions
        for version in range(max(first, served.first), last + 1):
            yield api, version, [(what, answer) for (asked, what, in_version), answer in recorder.answers.items()
                                 if (asked, in_version) == (api, version)]
