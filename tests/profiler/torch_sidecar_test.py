"""torch_sidecar_test.py FILE [SideCar | Models]: the side-car is one file that needs torch and the standard library alone, and says so
without torch; and what it says of live models, where there is torch 2.15. Exits with 77 where a test was skipped.

What it records with torch is in tests/oracles/data/sidecar and tested by tests/models/sidecar_oracle_test.cpp."""

import ast
import contextlib
import os
import py_compile
import re
import shutil
import socket
import subprocess
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

    def test_puts_snapshots_beside_the_recording_of_its_process(self):
        with open(PATH, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        names = {"_RECORDING", "_whole_file", "_put_into_recording"}
        tree.body = [n for n in tree.body if getattr(n, "name", None) in names or isinstance(n, ast.Assign) and n.targets[0].id in names]
        sidecar = {"contextlib": contextlib, "os": os, "re": re, "shutil": shutil, "socket": socket}
        exec(compile(tree, PATH, "exec"), sidecar)
        process = f"{socket.gethostname()}_{os.getpid()}"
        for recordings, name in (([], process), ([f"rank3_{process}"], f"rank3_{process}"), ([f"{process}0", f"x_{process}"], process)):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["FOREGATHER_RECORD_DIR"] = os.path.join(folder, "raw")
                os.mkdir(os.environ["FOREGATHER_RECORD_DIR"])
                for recording in recordings:
                    open(os.path.join(folder, "raw", recording + ".sqlite"), "w").close()
                with open(os.path.join(folder, "own"), "w") as file:
                    file.write("snapshot")
                sidecar["_put_into_recording"](os.path.join(folder, "own"), "4-5")
                self.assertEqual(sorted(os.listdir(os.path.join(folder, "raw"))),
                                 sorted([r + ".sqlite" for r in recordings] + [name + ".step4-5.memory.pickle"]))
                with open(os.path.join(folder, "raw", name + ".step4-5.memory.pickle")) as file:
                    self.assertEqual(file.read(), "snapshot")

    def test_says_what_is_missing(self):
        sys.dont_write_bytecode = True
        sys.path.insert(0, os.path.dirname(PATH))
        sys.modules["torch"] = None  # as if it were not installed
        with self.assertRaisesRegex(ImportError, "torch cannot be imported here: install it with 'pip install torch'"):
            __import__(os.path.splitext(os.path.basename(PATH))[0])


class Models(unittest.TestCase):
    """Jobs of torch_sidecar_jobs.py."""

    @classmethod
    def setUpClass(cls):
        jobs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_sidecar_jobs.py")
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([sys.executable, jobs, os.path.abspath(PATH), folder], stderr=subprocess.PIPE, text=True, timeout=300)
            if ended.returncode == 77:
                raise unittest.SkipTest(f"{sys.executable} has no torch of 2.15 or later")
            if ended.returncode != 0:
                raise RuntimeError(ended.stderr)
            cls.texts = {}
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    cls.texts[name] = file.read()

    def assert_says(self, job, *lines):
        for line in lines:
            self.assertIn(line, self.texts[job].splitlines(), self.texts[job])

    def test_fsdp2_is_the_same_while_parameters_are_gathered(self):
        sharded = self.texts["fsdp2_sharded"]
        self.assert_says("fsdp2_sharded", 'precision = "bf16-mixed"', 'param_dtype = "bf16"', 'reduce_dtype = "fp32"',
                         '  { name = "3", linear = [8, 32], tied = "0.weight" },')
        self.assertNotIn("ignores", sharded)
        self.assertEqual(self.texts["fsdp2_after_evaluation"], sharded)
        self.assertEqual(self.texts["fsdp2_in_a_step"], sharded)
        self.assert_says("fsdp2_ignores", "# Note: 0.weight, …: FSDP ignores 2 parameters, which are written as sharded.")

    def test_fsdp1_replicas_of_one_rank_are_as_pytorch_runs_them(self):
        self.assert_says("fsdp1_replicas_of_one_rank", 'sharding = "no_shard"', "world_size = 1",
                         "# Note: a shard group is one rank, where FSDP1 reduces no gradients between the 2 replicas: "
                         "each trains alone, and one is written.", '  { name = "1", wrap = true, children = [')
        self.assertNotIn("group_size", self.texts["fsdp1_replicas_of_one_rank"])

    def test_fsdp1_replicas_may_keep_parameters_after_the_forward(self):
        self.assert_says("fsdp1_replicas_zero2", 'sharding = "shard_grad_op"', "world_size = 2", "shard_size = 2")
        self.assertNotIn("HYBRID", self.texts["fsdp1_replicas_zero2"])

    def test_a_module_within_fsdp1_has_its_whole_parameters(self):
        whole = self.texts["fsdp1"]
        self.assert_says("fsdp1", 'strategy = "fsdp1"', '  { name = "3", linear = [8, 32] },')
        self.assertIn("688 parameters", whole)
        part = whole.replace("\n", "\n# Note: the root is not wrapped; a tree's always is.\n", 1)
        flat, original = "use_orig_params = false", "use_orig_params = true"
        self.assertEqual(self.texts["fsdp1_from_within"], whole)
        self.assertEqual(self.texts["fsdp1_original_from_within"], whole.replace(flat, original))
        self.assertEqual(self.texts["fsdp1_part"], part)
        self.assertEqual(self.texts["fsdp1_original_part"], part.replace(flat, original))

    def test_a_unit_of_fsdp1_is_a_root(self):
        unit = self.texts["fsdp1_unit"]
        self.assert_says("fsdp1_unit", '  { name = "0", linear = [8, 8] },', "world_size = 2")
        self.assertEqual(unit, 2 * unit[:len(unit) // 2])
        self.assertNotIn("is not wrapped", unit)

    def test_a_module_within_ddp_is_described_as_under_it(self):
        self.assert_says("ddp", 'strategy = "ddp"', "bucket_bytes = 1048576")
        self.assertEqual(self.texts["ddp_from_within"], self.texts["ddp"])
        self.assert_says("ddp_part", 'strategy = "ddp"', "# Note: DistributedDataParallel is on more than this, and has it in its buckets.")
        self.assert_says("no_ddp_any_more", "# Note: neither FSDP nor DDP is on the model: written as FSDP2 of the whole of it.")

    def test_what_ddp_does_besides_reducing_is_said(self):
        self.assert_says("ddp_options", "find_unused_parameters = true", "broadcast_buffers = false",
                         "# Note: DistributedDataParallel's batched_grad_copy is not in here.")
        for job in ("ddp", "ddp_of_a_static_graph"):
            self.assertNotIn("find_unused_parameters", self.texts[job])
            self.assertNotIn("broadcast_buffers", self.texts[job])

    def test_a_plain_module_around_the_root_of_fsdp_is_left_out(self):
        note = "\n# Note: FSDP's root is net: what is around that is left out.\n"
        for inner, outer in (("fsdp1_after_a_step", "fsdp1_in_a_plain_module"), ("fsdp2", "fsdp2_in_a_plain_module")):
            self.assertIn(" 1.0/backward 1.0/forward ", self.texts[inner])
            self.assertEqual(self.texts[outer], self.texts[inner].replace("\n", note, 1))
        self.assert_says("fsdp2_of_one_block_in_a_plain_module", note.strip(), '  { name = "1", wrap = true, children = [')
        for job in ("fsdp2_in_a_plain_module", "fsdp2_of_one_block_in_a_plain_module"):
            self.assertNotIn("reshard_after_forward", self.texts[job])

    def test_compiled_and_partly_sharded_models_stay_as_they_are(self):
        self.assertNotIn("left out", self.texts["fsdp2_compiled"])
        self.assert_says("fsdp2_compiled", "# Note: torch.compile (of the model, …) is not in here: module trees have none.")
        self.assert_says("fsdp2_beside_parameters", "# Note: the root is not wrapped; a tree's always is.", '  { name = "1", linear = [32, 2] },')

    def test_adapters_of_fp32_are_reduced_in_fp32(self):
        note = "# Note: what is trained is in torch.float32: written in torch.bfloat16, as most parameters are."
        for job in ("fsdp1_adapted", "fsdp2_adapted"):
            self.assert_says(job, note, 'precision = "bf16"', 'param_dtype = "bf16"', 'reduce_dtype = "fp32"', "reduced in float")
        self.assert_says("fsdp2_adapted_mixed", note, 'reduce_dtype = "fp32"')
        self.assert_says("fsdp2_adapted_reduced_in_bf16", note, 'reduce_dtype = "bf16"')
        self.assert_says("ddp_adapted", note.replace("float32", "float32, in which DDP reduces it"))
        self.assertNotIn("_dtype", self.texts["ddp_adapted"])

    def test_an_optimizer_that_loops_over_parameters_is_one(self):
        self.assert_says("optimizer_that_loops", 'optimizer = "adamw"', 'optimizer_impl = "for-loop"')

    def test_an_optimizer_that_shards_its_states_is_named(self):
        self.assert_says("zero_redundancy", 'optimizer = "sgd"', "momentum = 0.5", "# Note: ZeroRedundancyOptimizer shards states over the "
                         "ranks and broadcasts parameters after each step: here each rank has all states, and nothing is broadcast.")


if __name__ == "__main__":
    ended = unittest.main(exit=False).result
    sys.exit((77 if ended.skipped else 0) if ended.wasSuccessful() else 1)
