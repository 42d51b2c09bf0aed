"""The results as text for a terminal, and as Markdown for the documents."""

from .results import SUBJECTS


def short(value):
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(value):
    """A ratio: one place behind the point, two where one would say nothing."""
    if value is None:
        return "–"
    return f"{value:.0f} ×" if value >= 10 else f"{value:.1f} ×" if value >= 0.95 else f"{value:.2f} ×"


def grid(rows):
    """Columns under each other, the first to the left."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join([f"{row[0]:<{widths[0]}}"] + [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:])]).rstrip()
        for row in rows)


def markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def cell(results, row, peer, figure):
    value = results.median(row, peer, figure)
    if value is None and any("failed" in one for one in results.of(row, peer)):
        return "failed"
    return short(value)


def figures(results, figure, has_units=False):
    """One figure of every row and peer."""
    found = [["row"] + [title(results, peer) for peer in results.peers()]]
    for name, about in results.about["rows"].items():
        cells = [cell(results, name, peer, figure) for peer in results.peers()]
        if any(one not in ("–", "failed") for one in cells) or figure == "rate":
            found.append([about["title"] + (f", {about['unit']}" if has_units else "")] + cells)
    return found


def ratios(results, header):
    columns = list(results.pairs())
    found = [["row"] + [header(subject, peer) for subject, peer in columns]]
    for name, about in results.about["rows"].items():
        found.append([about["title"]] + [times(results.ratio(name, subject, peer)) for subject, peer in columns])
    return found if columns else []


def title(results, peer):
    return results.about["peers"][peer]["title"]


def description(results):
    about = results.about
    sizes = ", ".join(f"{name} {value}" for name, value in about["sizes"].items())
    return f"{about['machine']}; user: {about.get('user', 'root')}; store on {about['store']}; {about['cipher']}; rounds: {results.rounds()}; {sizes}"


def text(results):
    """Everything, for a terminal."""
    parts = [description(results), "Speed, medians of the rounds (more is better):\n" + grid(figures(results, "rate", True))]
    table = ratios(results, lambda subject, peer: SUBJECTS[subject] + "/ " + peer)
    if table:
        parts.append("Speed of protectfs divided by that of the other:\n" + grid(table))
    parts.append("CPU seconds of the daemon per GiB:\n" + grid(figures(results, "cpuSecondsPerGiB")))
    parts.append("CPU seconds of the daemon:\n" + grid(figures(results, "cpuSeconds")))
    parts.append("Resident memory of the daemon after the row, MiB:\n" + grid(figures(results, "residentMiB")))
    for (row, peer, reason), count in results.failures().items():
        parts.append(f"failed, {count} of {results.rounds()} rounds: {row}, {peer}: {reason}")
    parts += [f"left out: {peer} ({reason})" for peer, reason in results.about["leftOut"].items()]
    return "\n\n".join(parts)


def all_ratios(results):
    def header(subject, peer):
        version = results.about["peers"][peer]["version"]
        name = "protectfs" if peer == "protectfs" else "loopback" if peer == "loopback" else f"{peer} {version}".removesuffix(" unknown")
        return f"{SUBJECTS[subject]}/ {name}"

    return ratios(results, header)


README_ROWS = ("sequential write", "SQLite in WAL mode, transactions", "make -j2 of a C project", "untar",
               "mail queue: write, fsync, rename, remove")


def readme(results):
    """The table of the README: five rows, good and bad ones, beside the encrypted peers."""
    first, *rows = all_ratios(results)
    columns = [place for place, name in enumerate(first) if not name.startswith("class A") and not name.endswith(("/ loopback", "/ protectfs"))]
    chosen = [row for name in README_ROWS for row in rows if row[0] == name]
    return markdown([[row[place] for place in columns] for row in [first, *chosen]])


def document(results):
    """The tables of docs/judge/benchmarks, without the text around them."""
    parts = ["### Speed of protectfs divided by that of the others\n\n" + markdown(all_ratios(results))]
    for heading, figure, has_units in (("Speed", "rate", True), ("CPU seconds of the daemon per GiB", "cpuSecondsPerGiB", False),
                                       ("CPU seconds of the daemon in a row", "cpuSeconds", False),
                                       ("Resident memory of the daemon after each row, MiB", "residentMiB", False)):
        parts.append(f"### {heading}\n\n" + markdown(figures(results, figure, has_units)))
    return "\n\n".join(parts) + "\n"
