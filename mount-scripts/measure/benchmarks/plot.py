"""An SVG plot of the ratios, as plain text: one panel for the default class, one for class A."""

import math

from .report import times, title

COLOURS = ("#3b6fb6", "#d1812b", "#4f9a57", "#7a7a7a", "#9a5fb0", "#b5493f")
BAR, GAP, LABELS, PANEL, TOP = 8, 8, 290, 400, 70
# The scale is logarithmic: as much slower is as long as as much faster.
LEAST, MOST = 1 / 16, 16


def place(ratio):
    """The distance of a ratio from the left end of a panel."""
    ratio = min(max(ratio, LEAST), MOST)
    return (math.log(ratio) - math.log(LEAST)) / (math.log(MOST) - math.log(LEAST)) * (PANEL - 60)


def label(x, y, words, more=""):
    words = str(words).replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{words}</text>'


def plot(results):
    """The picture of a run."""
    rows, peers, subjects = results.about["rows"], results.others(), results.subjects()
    height = len(peers) * BAR + GAP
    bottom = TOP + len(rows) * height
    out = []
    for number, peer in enumerate(peers):
        x = LABELS + number * 140
        out.append(f'<rect x="{x}" y="12" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>')
        out.append(label(x + 15, 21, "against " + title(results, peer)))
    for panel, subject in enumerate(subjects):
        left = LABELS + panel * PANEL
        out.append(label(left, 44, f"speed of {title(results, subject)} divided by the other's", ' font-weight="bold"'))
        for step in (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16):
            x = left + place(step)
            name = f"{step:g}" if step >= 1 else f"1/{1 / step:g}"
            out.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="{"#222" if step == 1 else "#ddd"}"/>')
            out.append(label(x, TOP - 11, name, ' text-anchor="middle" fill="#555"'))
    for number, (row, about) in enumerate(rows.items()):
        y = TOP + number * height
        out.append(label(LABELS - 10, y + height / 2, about["title"], ' text-anchor="end"'))
        for panel, subject in enumerate(subjects):
            left = LABELS + panel * PANEL
            for index, peer in enumerate(peers):
                ratio = results.ratio(row, subject, peer)
                top = y + index * BAR
                if ratio is None:
                    out.append(label(left + place(1) + 4, top + BAR - 1, "not measured", ' font-size="8" fill="#999"'))
                    continue
                start, end = sorted((place(1), place(ratio)))
                out.append(f'<rect x="{left + start:.1f}" y="{top}" width="{max(end - start, 0.5):.1f}" height="{BAR - 1}" '
                           f'fill="{COLOURS[index % len(COLOURS)]}"/>')
                out.append(label(left + max(end, place(1)) + 3, top + BAR - 1, times(ratio), ' font-size="8" fill="#333"'))
    width = LABELS + max(1, len(subjects)) * PANEL
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 10}" font-family="sans-serif" '
            f'font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(out) + "\n</svg>\n")
