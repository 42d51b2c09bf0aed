"""Prints a sequence as a program that needs nothing but Python."""

import ast
import inspect
import os
import sys

from . import compare, names, operations, tree
from .run import FUNCTIONS, SPECIAL

MODULES = (tree, operations, names, compare)
MAIN = '''
# (actor, operation, arguments)
STEPS = [
%s]


def main():
    trees = [Tree(path) for path in sys.argv[1:]]
    for actor, function, arguments in STEPS:
        become(actor)
        answers = [play(tree, function, arguments) for tree in trees]
        same = "same " if answers.count(answers[0]) == len(answers) else "OTHER"
        print(same, ACTORS[actor][0], function.__name__, str(arguments)[:100], *(str(answer)[:300] for answer in answers),
              sep="  ")
%s

main()
'''
TICK = '''def tick(_):
    """Lets times taken before differ from times taken after."""
    time.sleep(0.012)
    Tree.mark = time.time_ns()
    time.sleep(0.012)
'''
HAND = '''def %s(_):
    input("now %s the volume of the mount, then press Enter: ")
'''


def program(steps, difference):
    """A program that plays the steps in each directory that it is given, and prints what they answer."""
    wanted = {FUNCTIONS[name].__name__ for _, name, _ in steps if name in FUNCTIONS}
    wanted |= {"Tree", "become", "play"}
    if difference.step is None:
        wanted |= {"snapshot", "compare_trees"}
    texts, imports = definitions(wanted)
    specials = sorted({name for _, name, _ in steps if name in SPECIAL})
    hand = "\n\n".join(TICK if name == "tick" else HAND % (name, name) for name in specials)
    lines = "".join(f"    ({actor}, {name}, {arguments!r}),\n" for actor, name, arguments in steps)
    head = f'#!/usr/bin/python3\n"""{difference}\n\nUsage: THIS-PROGRAM DIRECTORY…: empty directories, one on ext4 and one on a mount."""\n\n'
    end = ""
    if difference.step is None:
        end = ("    become(0)\n    for difference in compare_trees(*(snapshot(tree) for tree in trees)):\n"
               "        print(\"OTHER\", difference)\n")
    head = head.replace("\\", "\\\\")
    return head + "\n".join(sorted(imports | {"import sys", "import time"})) + "\n\n" + "\n\n\n".join(texts) + "\n\n" + hand + MAIN % (lines, end)


def definitions(wanted):
    """The source of what is wanted and of all that it uses, in the order of the modules; and the imports."""
    table, imports, order = {}, {}, []
    for module in MODULES:
        source = inspect.getsource(module)
        lines = source.splitlines()
        for node in ast.parse(source).body:
            text = "\n".join(lines[node.lineno - 1:node.end_lineno])
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if not getattr(node, "level", 0):
                    imports.update({(name.asname or name.name).split(".")[0]: text for name in node.names})
                continue
            for name in defined(node):
                table[name] = node, text
                order.append(name)
    needed, left = set(), set(wanted)
    while left:
        name = left.pop()
        if name in table and name not in needed:
            needed.add(name)
            left |= {word.id for word in ast.walk(table[name][0]) if isinstance(word, ast.Name)}
    used = {word.id for name in needed for word in ast.walk(table[name][0]) if isinstance(word, ast.Name)}
    texts = list(dict.fromkeys(table[name][1] for name in order if name in needed))
    return texts, {imports[name] for name in used if name in imports}


def defined(node):
    """The names that a statement of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return []


def write_program(steps, difference, path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(program(steps, difference))
    print(f"program: {path}", file=sys.stderr)
