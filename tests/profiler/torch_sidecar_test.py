"""torch_sidecar_test.py FILE: the side-car is one file that needs torch and the standard library alone, and says so without torch.

What it does with torch is recorded in tests/oracles/data/sidecar and tested by tests/models/sidecar_oracle_test.cpp."""

import ast
import os
import py_compile
import sys
import tempfile
import unittest

PATH = sys.argv.pop(1)


class SideCar(unittest.TestCase):
    def test_compiles(self):
        with tempfile.TemporaryDirectory() as folder:
            py_compile.compile(PATH, cfile=os.path.join(folder, "sidecar.pyc"), doraise=True)

    def test_needs_torch_and_the_standard_library_alone(self):
        with open(PATH, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        modules = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                self.assertEqual(node.level, 0)
                modules.add(node.module.split(".")[0])
        self.assertEqual(modules - set(getattr(sys, "stdlib_module_names", modules)) - {"torch"}, set())
        self.assertIn("torch", modules)

    def test_says_what_is_missing(self):
        sys.dont_write_bytecode = True
        sys.path.insert(0, os.path.dirname(PATH))
        sys.modules["torch"] = None  # as if it were not installed
        with self.assertRaisesRegex(ImportError, "torch cannot be imported here: install it with 'pip install torch'"):
            __import__(os.path.splitext(os.path.basename(PATH))[0])


if __name__ == "__main__":
    unittest.main()
