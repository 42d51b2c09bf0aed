"""What was measured: kept in a file after each row, so that nothing is lost whatever happens next."""

import json
import os
import statistics

from .processes import Failed

FIGURES = ("rate", "seconds", "cpuSeconds", "cpuSecondsPerGiB", "residentMiB")

# The peers that the ratios are about, and how a column calls each.
SUBJECTS = {"protectfs": "", "class-a": "class A ", "io-uring": "io_uring "}


class Results:
    """`about` describes the run; each sample is one row of one peer in one round, with a rate or the reason of a failure."""

    def __init__(self, about, path=None):
        self.about = about
        self.path = path
        self.samples = []

    @classmethod
    def read(cls, path):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        results = cls(kept["about"])
        results.samples = kept["samples"]
        return results

    def keep(self, earlier, order):
        """Takes over the other rows of an earlier run of the same sizes; a row is always of one run, with all its peers."""
        for name in ("sizes", "machine", "store", "cipher"):
            if earlier.about[name] != self.about[name]:
                raise Failed(f"the results that are there have other {name}: {earlier.about[name]}")
        self.samples = [one for one in earlier.samples if one["row"] not in self.about["rows"]]
        rows = {**earlier.about["rows"], **self.about["rows"]}
        self.about["rows"] = {name: rows[name] for name in order if name in rows}
        self.about["peers"] = earlier.about["peers"]

    def add(self, number, row, peer, **figures):
        self.samples.append({"round": number, "row": row, "peer": peer, **figures})
        self.save()

    def save(self):
        """Replaces the file in one step: an interrupted run leaves the state before or after a row."""
        if not self.path:
            return
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write('{\n"about": ' + json.dumps(self.about, indent=2, ensure_ascii=False) + ",\n")
            file.write('"medians": ' + self.lines("{}", [f"{json.dumps(row)}: {json.dumps(peers)}"
                                                        for row, peers in self.medians().items()]) + ",\n")
            file.write('"ratios": ' + self.lines("{}", [f"{json.dumps(row)}: {json.dumps(self.ratios(row))}"
                                                       for row in self.rows()]) + ",\n")
            # A line each, so that a difference between two runs can be read.
            file.write('"samples": ' + self.lines("[]", [json.dumps(one, ensure_ascii=False) for one in self.samples]) + "\n}\n")
        os.replace(self.path + ".new", self.path)

    def lines(self, ends, items):
        return f"{ends[0]}\n" + ",\n".join(items) + f"\n{ends[1]}"

    def rows(self):
        return list(self.about["rows"])

    def peers(self):
        return list(self.about["peers"])

    def rounds(self):
        """How many rounds were begun: fewer than were asked for after an interrupt."""
        return max([one["round"] for one in self.samples], default=0)

    def of(self, row, peer):
        return [one for one in self.samples if one["row"] == row and one["peer"] == peer]

    def median(self, row, peer, figure="rate"):
        """The median over the rounds that worked; nothing without one."""
        values = [one[figure] for one in self.of(row, peer) if one.get(figure) is not None]
        return statistics.median(values) if values else None

    def medians(self):
        found = {}
        for row in self.rows():
            for peer in self.peers():
                figures = {figure: self.median(row, peer, figure) for figure in FIGURES}
                figures = {figure: round(value, 4) for figure, value in figures.items() if value is not None}
                if figures:
                    found.setdefault(row, {})[peer] = figures
        return found

    def ratio(self, row, subject, peer):
        """The speed of the subject divided by that of the peer: in each round, where they ran after each other, then the median."""
        ours = {one["round"]: one["rate"] for one in self.of(row, subject) if "rate" in one}
        ratios = [ours[one["round"]] / one["rate"] for one in self.of(row, peer) if one.get("rate") and one["round"] in ours]
        return statistics.median(ratios) if ratios else None

    def subjects(self):
        """The peers that the ratios are about."""
        return [peer for peer in self.peers() if peer in SUBJECTS]

    def others(self):
        return [peer for peer in self.peers() if peer not in (*SUBJECTS, "plain")]

    def pairs(self):
        """Each subject with what it is compared with: the others, and protectfs as it is by default."""
        for subject in self.subjects():
            for peer in self.others() + (["protectfs"] if subject != "protectfs" and "protectfs" in self.peers() else []):
                yield subject, peer

    def ratios(self, row):
        found = {}
        for subject, peer in self.pairs():
            value = self.ratio(row, subject, peer)
            if value is not None:
                found.setdefault(subject, {})[peer] = round(value, 3)
        return found

    def failures(self):
        """Each reason once, with how often it was met."""
        found = {}
        for one in self.samples:
            if "failed" in one:
                key = (one["row"], one["peer"], one["failed"])
                found[key] = found.get(key, 0) + 1
        return found
