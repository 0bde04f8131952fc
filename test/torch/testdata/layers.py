# SPDX-License-Identifier: Apache-2.0
"""Compares the imports of a package with the table of its files in a README: layers.py README FOLDER.

A file may import only files of the package that come after it in the table. It counts where an import stands: at the top,
in a function, or where only type checkers read it. Each file that does otherwise is printed on a line, and the exit status
is 1. With that order no circle of files can be.
"""

import ast
import os
import re
import sys


def imports(tree, package, files):
    """Return the files of the package that a syntax tree imports, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = ".".join(part for part in (package if node.level else "", node.module) if part)
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == package:
                file = rest.partition(".")[0] + ".py"
                yield (file if file in files else "__init__.py"), node.lineno


def errors(readme, folder):
    """Return what does not agree."""
    rows = [line.split("|")[2] for line in readme.splitlines() if re.match(r"\|[^|]*\| `", line)]
    listed = [name for row in rows for name in re.findall(r"`(\w+\.py)`", row)]
    place = {name: i for i, name in enumerate(listed)}
    files = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    for name in sorted({*files, *listed}):
        if listed.count(name) != 1 or name not in files:
            yield f"{name}: it is {listed.count(name)} times in the table, and {files.count(name)} times in the folder"
    for name in files:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for imported, line in imports(tree, os.path.basename(folder), files):
            if place.get(imported, 0) <= place.get(name, -1):
                yield f"{name}:{line}: it imports {imported}, which does not come after it in the table"


with open(sys.argv[1], encoding="utf-8") as text:
    found = list(errors(text.read(), os.path.normpath(sys.argv[2])))
print("\n".join(found))
sys.exit(bool(found))
