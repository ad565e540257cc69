#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Test series.py on a small repository whose base has three files.

Each test has a directory of its own: a copy of series.py and its modules, a base.sh that names the
base, two patches and one new file. Nothing outside this directory is read or written.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
HEADER = "From: A Name <a@example.org>\nSubject: [PATCH] {}\n\nWhy.\n\nSigned-off-by: A Name <a@example.org>\n---\n"
HEAD = "Base: {}\nTree: {}\nSubject: The series\n\nWhat it is for.\n---\n"
NEW = "kernel/new.c"
CORE = "kernel/core.c"
FIRST = "0010-first.patch"
SECOND = "0020-second.patch"


def core(*edits):
    """Return a file of 60 lines, with a line added after each of these lines."""
    lines = []
    for number in range(1, 61):
        lines.append(f"line {number}")
        lines += [text for after, text in edits if after == number]
    return "\n".join(lines) + "\n"


def hook(after, text, shift=0):
    """Return a patch of core.c that adds a line after this one."""
    return (f"diff --git a/{CORE} b/{CORE}\n--- a/{CORE}\n+++ b/{CORE}\n"
            f"@@ -{after + shift},2 +{after + shift},3 @@\n line {after}\n+{text}\n line {after + 1}\n")


class SeriesTest(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.top)
        self.env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", PYTHONDONTWRITEBYTECODE="1")
        self.write("base/" + CORE, core())
        self.write("base/kernel/Makefile", "obj-y += core.o\n")
        self.write("base/MAINTAINERS", "Text\n\nMaintainers List\n----\n\nALPHA\nM:\ta\n\nTHE REST\nM:\tz\n")
        self.write("scripts/base.sh", f"#!/bin/sh\necho {self.top}/build/base/${{2:-1-1}}\n")
        os.makedirs(self.path("build/base"))
        os.rename(self.path("base"), self.path("build/base/1-1"))
        for name in ("series.py", "manifest.py", "hooks.py", "worktree.py", "repo.py"):
            shutil.copy(os.path.join(HERE, name), self.path("scripts"))
        os.chmod(self.path("scripts/base.sh"), 0o755)
        self.write(".gitignore", "build/\n")
        self.write("patches/" + FIRST, HEADER.format("first: Add one") + hook(10, "first"))
        self.write("patches/" + SECOND, HEADER.format("second: Add two") + hook(40, "second", 1))
        self.series()
        self.write(NEW, "new\n")
        subprocess.run(["git", "init", "-q", self.top], check=True, env=self.env)
        self.git("add", "-A")

    def path(self, name):
        return os.path.join(self.top, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8", newline="") as f:
            f.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def read_exactly(self, name):
        with open(self.path(name), encoding="utf-8", newline="") as f:
            return f.read()

    def series(self, *brought):
        self.list(f"{FIRST}\n{SECOND}\n" + "".join(f"\t{name}\n" for name in brought or [NEW]))

    def list(self, lines):
        self.write("patches/series", HEAD.format("0-1", "0" * 40) + lines)

    def git(self, *args):
        subprocess.run(["git", "-C", self.top, *args], check=True, env=self.env)

    def run_series(self, *args):
        return subprocess.run([sys.executable, "scripts/series.py", *args], cwd=self.top, env=self.env, check=False,
                              capture_output=True, text=True)

    @contextlib.contextmanager
    def own_git(self, verb, commands):
        """Put a git on the PATH that first runs these commands of the shell if it is called with the verb."""
        self.write("build/bin/git", f"#!/bin/sh\ngit={shutil.which('git')}\ncase \" $* \" in\n*\" {verb} \"*)\n"
                   f"{commands}\n;;\nesac\nexec $git \"$@\"\n")
        os.chmod(self.path("build/bin/git"), 0o755)
        self.env["PATH"] = self.path("build/bin:") + os.environ["PATH"]
        try:
            yield
        finally:
            self.env["PATH"] = os.environ["PATH"]
            shutil.rmtree(self.path("build/bin"))

    def good(self, *args):
        done = self.run_series(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout + done.stderr

    def bad(self, *args):
        done = self.run_series(*args)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr


class Manifest(SeriesTest):
    def test_good(self):
        self.assertEqual(self.good("manifest"), "")

    def test_no_head(self):
        self.write("patches/series", f"{FIRST}\n{SECOND}\n\t{NEW}\n")
        self.assertIn("patches/series does not start with Base:, Tree:, Subject:", self.bad("manifest"))

    def test_comments(self):
        head = HEAD.format("0-1", "0" * 40)
        self.write("patches/series", f"# Text\n\n{head}# Topic\n\n{FIRST}  # Why\n{SECOND}\n\t{NEW}\n")
        self.assertEqual(self.good("manifest"), "")

    def test_folder(self):
        self.write("kernel/more/a.c", "a\n")
        self.git("add", "-A")
        self.series(NEW, "kernel/more/")
        self.assertEqual(self.good("manifest"), "")

    def test_specific_lines(self):
        """A file belongs to the most specific line that stands for it, whatever the order."""
        for name in ("kernel/more/a.c", "kernel/more/b_1.c", "kernel/more/below/c.c"):
            self.write(name, name + "\n")
        self.git("add", "-A")
        self.list(f"{FIRST}\n\tkernel/more/\n{SECOND}\n\tkernel/more/b_*\n\t{NEW}\n\tkernel/more/below/\n")
        self.assertEqual(self.good("manifest"), "")
        self.good("tree")
        self.good("draft")
        first, second = [self.read("build/draft/" + name) for name in sorted(os.listdir(self.path("build/draft")))]
        self.assertIn("b/kernel/more/a.c\n", first)
        self.assertNotIn("b/kernel/more/b", first)
        self.assertIn("b/kernel/more/b_1.c\n", second)
        self.assertIn("b/kernel/more/below/c.c\n", second)

    def test_empty_pattern(self):
        self.series(NEW, "kernel/more_*")
        self.assertIn("kernel/more_*, which holds no file that git knows", self.bad("manifest"))

    def test_folder_whose_files_are_elsewhere(self):
        self.list(f"{FIRST}\n\tkernel/\n{SECOND}\n\t{NEW}\n")
        self.assertIn(f"{FIRST} brings kernel/, which other lines bring", self.bad("manifest"))

    def test_empty_folder(self):
        self.series(NEW, "kernel/more/")
        self.assertIn("kernel/more/, which holds no file that git knows", self.bad("manifest"))

    def test_unlisted_file(self):
        """The message has the line that is missing, and the commit with files nearby."""
        self.list(f"{FIRST}\n\t{NEW}\n{SECOND}\n")
        self.write("kernel/other.c", "other\n")
        self.assertIn("kernel/other.c is in no commit of patches/series: add this line below its commit, "
                      f"perhaps {FIRST}:\n\tkernel/other.c\n", self.bad("manifest"))

    def test_unlisted_file_without_neighbours(self):
        self.write("lib/other.c", "other\n")
        self.assertIn("lib/other.c is in no commit of patches/series: add this line below its commit:\n"
                      "\tlib/other.c\n", self.bad("manifest"))

    def test_unknown_file_of_a_folder(self):
        self.write("kernel/more/a.c", "a\n")
        self.git("add", "-A")
        self.series(NEW, "kernel/more/")
        self.write("kernel/more/b.c", "b\n")
        self.assertIn("git add kernel/more/b.c\n", self.bad("manifest"))
        self.git("add", "-A")
        self.good("manifest")

    def test_file_in_two_commits(self):
        self.list(f"{FIRST}\n\t{NEW}\n{SECOND}\n\t{NEW}\n")
        self.assertIn(f"{NEW} is in {FIRST} and in {SECOND}", self.bad("manifest"))

    def test_all_violations(self):
        self.write("kernel/other.c", "other\n")
        self.series(NEW, "kernel/gone.c")
        text = self.bad("manifest")
        self.assertIn("kernel/other.c is in no commit", text)
        self.assertIn("kernel/gone.c, which does not exist", text)

    def test_scripts(self):
        """What is of the repository only is not part of the series."""
        for entry in ("scripts/series.py", "scripts/", "scripts/*.py", "README.md", "Makefile"):
            self.write("README.md", "Text\n")
            self.write("Makefile", "all:\n")
            self.git("add", "-A")
            self.series(NEW, entry)
            self.assertIn("is of the repository only: it cannot be part of the series", self.bad("manifest"))

    def test_missing_file(self):
        self.series(NEW, "kernel/gone.c")
        text = (f"{SECOND} brings kernel/gone.c, which does not exist: "
                "restore it, or remove its line from patches/series\n")
        for verb in ("manifest", "tree"):
            self.assertIn(f"{verb}: {text}", self.bad(verb))

    def test_removed_file_of_a_folder(self):
        """git still knows a file that was removed without git."""
        self.write("kernel/more/a.c", "a\n")
        self.write("kernel/more/b.c", "b\n")
        self.git("add", "-A")
        self.series(NEW, "kernel/more/")
        os.unlink(self.path("kernel/more/b.c"))
        text = f"{SECOND} brings kernel/more/b.c, which does not exist: restore it, or run 'git rm kernel/more/b.c'\n"
        for verb in ("manifest", "tree"):
            self.assertIn(f"{verb}: {text}", self.bad(verb))
        self.git("rm", "-q", "kernel/more/b.c")
        self.good("tree")

    def test_file_before_the_first_commit(self):
        self.list(f"\t{NEW}\n{FIRST}\n{SECOND}\n")
        self.assertIn("a file before the first commit", self.bad("manifest"))

    def test_unlisted_patch(self):
        self.write("patches/0030-third.patch", HEADER.format("third: Add") + hook(20, "third", 1))
        self.assertIn("patches/0030-third.patch is not in patches/series", self.bad("manifest"))

    def test_patch_listed_twice(self):
        self.list(f"{FIRST}\n{SECOND}\n\t{NEW}\n{FIRST}\n")
        self.assertIn(f"patches/series names {FIRST} more than once", self.bad("manifest"))

    def test_missing_patch(self):
        os.unlink(self.path("patches/" + FIRST))
        self.assertIn(f"patches/series names {FIRST}, which is not in patches/", self.bad("manifest"))

    def test_commit_without_a_change(self):
        self.write("patches/" + FIRST, HEADER.format("first: Add one"))
        self.assertIn(f"{FIRST} changes nothing", self.bad("manifest"))

    def test_bad_header(self):
        self.write("patches/" + FIRST, "Subject: first\n" + hook(10, "first"))
        self.assertIn(f"patches/{FIRST} does not start with From:", self.bad("manifest"))

    def test_no_sign_off(self):
        text = HEADER.format("first: Add one").replace("Signed-off-by", "Seen-by")
        self.write("patches/" + FIRST, text + hook(10, "first"))
        self.assertIn(f"patches/{FIRST} has no Signed-off-by", self.bad("manifest"))

    def test_text_before_the_diff(self):
        self.write("patches/" + FIRST, HEADER.format("first: Add one") + "text\n" + hook(10, "first"))
        self.assertIn("has text between '---' and the first diff", self.bad("manifest"))


class Tree(SeriesTest):
    def times(self):
        return {name: os.stat(self.path("build/linux/" + name)).st_mtime_ns
                for name in (NEW, CORE, "kernel/Makefile", "MAINTAINERS")}

    def test_assembled(self):
        self.good("tree")
        self.assertEqual(self.read("build/linux/" + CORE), core((10, "first"), (40, "second")))
        self.assertEqual(self.read("build/linux/" + NEW), "new\n")
        self.assertEqual(self.read("build/linux/kernel/Makefile"), "obj-y += core.o\n")

    def test_only_changes_are_written(self):
        self.good("tree")
        before = self.times()
        self.assertEqual(self.good("tree"), "")
        self.assertEqual(self.times(), before)
        self.write(NEW, "newer\n")
        self.good("tree")
        self.assertEqual(self.read("build/linux/" + NEW), "newer\n")
        changed = [name for name, when in self.times().items() if when != before[name]]
        self.assertEqual(changed, [NEW])

    def test_removed_file(self):
        self.write("kernel/other.c", "other\n")
        self.series(NEW, "kernel/other.c")
        self.good("tree")
        os.unlink(self.path("kernel/other.c"))
        self.series()
        self.good("tree")
        self.assertFalse(os.path.exists(self.path("build/linux/kernel/other.c")))

    def test_removed_patch(self):
        self.good("tree")
        os.unlink(self.path("patches/" + FIRST))
        self.write("patches/" + SECOND, HEADER.format("second: Add two") + hook(40, "second"))
        self.list(f"{SECOND}\n\t{NEW}\n")
        self.good("tree")
        self.assertEqual(self.read("build/linux/" + CORE), core((40, "second")))

    def test_kconfig_and_maintainers(self):
        self.write("Kconfig", "config NEW\n")
        self.write("MAINTAINERS", "BETA\nM:\tb\n")
        self.series(NEW, "Kconfig", "MAINTAINERS")
        self.good("tree")
        self.assertEqual(self.read("build/linux/kernel/unwind/Kconfig"), "config NEW\n")
        self.assertIn("M:\ta\n\nBETA\nM:\tb\n\nTHE REST", self.read("build/linux/MAINTAINERS"))

    def test_executable(self):
        os.chmod(self.path(NEW), 0o755)
        self.good("tree")
        self.assertTrue(os.access(self.path("build/linux/" + NEW), os.X_OK))

    def test_executable_of_the_base(self):
        """A patch that edits a file keeps its mode."""
        os.chmod(self.path("build/base/1-1/" + CORE), 0o755)
        self.good("tree")
        self.assertTrue(os.access(self.path("build/linux/" + CORE), os.X_OK))
        self.assertEqual(self.good("tree"), "")
        self.good("export")

    def test_edit_of_a_patched_file(self):
        self.good("tree")
        edited = core((10, "first"), (40, "second"), (20, "edit"))
        self.write("build/linux/" + CORE, edited)
        self.assertIn(f"edited in build/linux: {CORE}", self.bad("tree"))
        self.assertEqual(self.read("build/linux/" + CORE), edited)
        self.good("tree", "--force")
        self.assertEqual(self.read("build/linux/" + CORE), core((10, "first"), (40, "second")))

    def test_edit_of_a_new_file(self):
        self.good("tree")
        self.write("build/linux/" + NEW, "edit\n")
        self.assertIn(f"edited in build/linux: {NEW}", self.bad("tree"))
        self.write(NEW, "edit\n")
        self.good("tree")

    def test_edit_of_a_base_file(self):
        """A file that no patch edits is not left behind either."""
        self.good("tree")
        self.write("build/linux/kernel/Makefile", "edit\n")
        self.assertIn("edited in build/linux: kernel/Makefile", self.bad("tree"))
        self.assertEqual(self.read("build/linux/kernel/Makefile"), "edit\n")
        self.good("tree", "--force")
        self.assertEqual(self.read("build/linux/kernel/Makefile"), "obj-y += core.o\n")

    def test_edit_of_a_file_that_leaves_the_series(self):
        self.good("tree")
        self.write("build/linux/" + NEW, "edit\n")
        os.unlink(self.path(NEW))
        self.list(f"{FIRST}\n{SECOND}\n")
        self.assertIn(f"edited in build/linux: {NEW}", self.bad("tree"))

    def test_commit_in_the_tree(self):
        """An edit stays one if it is committed in the repository of the tree."""
        self.good("tree")
        self.write("build/linux/" + NEW, "edit\n")
        subprocess.run(["git", "--git-dir=build/linux.git", "-c", "user.name=a", "-c", "user.email=a", "commit",
                        "-qam", "edit"], cwd=self.top, env=self.env, check=True)
        self.assertIn(f"edited in build/linux: {NEW}", self.bad("tree"))

    def test_deleted_files(self):
        self.good("tree")
        shutil.rmtree(self.path("build/linux/kernel"))
        self.assertIn(f"tree: restored what was deleted in build/linux: kernel/Makefile, {CORE}, {NEW}\n",
                      self.good("tree"))
        self.assertEqual(self.read("build/linux/" + NEW), "new\n")
        self.assertEqual(self.read("build/linux/kernel/Makefile"), "obj-y += core.o\n")
        os.unlink(self.path("build/linux/kernel/Makefile"))
        self.assertIn("tree: restored what was deleted in build/linux: kernel/Makefile\n", self.good("refresh"))
        shutil.rmtree(self.path("build/linux"))
        self.assertNotIn("restored", self.good("tree"))

    def test_interrupted_before_the_end(self):
        """A tree that is not complete is no tree yet, and so no edit."""
        self.good("tree")
        os.rename(self.path("build/linux"), self.path("build/linux.new"))
        self.write("build/linux.new/" + CORE, "")
        os.unlink(self.path("build/linux.new/" + NEW))
        self.good("tree")
        self.assertEqual(self.read("build/linux/" + CORE), core((10, "first"), (40, "second")))
        self.assertEqual(self.read("build/linux/" + NEW), "new\n")
        self.assertEqual(self.good("tree"), "")

    def test_tree_of_an_older_script(self):
        """A tree without a repository keeps its files and their times."""
        self.good("tree")
        before = self.times()
        shutil.rmtree(self.path("build/linux.git"))
        self.good("tree")
        self.assertEqual(self.times(), before)
        shutil.rmtree(self.path("build/linux.git"))
        self.write("build/linux/" + NEW, "edit\n")
        self.assertIn(f"differs from the series in {NEW}", self.bad("tree"))

    def test_file_that_was_made_in_the_tree(self):
        """A new file of the series does not replace one that somebody else wrote there."""
        self.good("tree")
        self.write("build/linux/kernel/other.c", "mine\n")
        self.assertEqual(self.good("tree"), "")
        self.write("kernel/other.c", "other\n")
        self.assertIn("edited in build/linux: kernel/other.c", self.bad("tree"))
        self.assertEqual(self.read("build/linux/kernel/other.c"), "mine\n")
        self.write("kernel/other.c", "mine\n")
        self.good("tree")
        self.write("kernel/other.c", "other\n")
        self.good("tree")
        self.assertEqual(self.read("build/linux/kernel/other.c"), "other\n")

    def stop_in_checkout(self, text):
        """Leave the tree as a full disk or a kill does: one file is written in part."""
        self.write(NEW, "one\ntwo\nthree\n")
        os.unlink(self.path("build/linux/" + NEW))
        with self.own_git("reset", f"printf '{text}' > \"$GIT_WORK_TREE/{NEW}\"; exit 1"):
            self.bad("tree")

    def test_interrupted_checkout(self):
        """What an assembly wrote in part is no edit."""
        self.good("tree")
        self.stop_in_checkout("one\\ntw")
        self.good("tree")
        self.assertEqual(self.read("build/linux/" + NEW), "one\ntwo\nthree\n")
        self.stop_in_checkout("one\\ntw")
        self.good("refresh")
        self.assertEqual(self.read(NEW), "one\ntwo\nthree\n")
        self.assertEqual(self.read("build/linux/" + NEW), "one\ntwo\nthree\n")

    def test_edit_after_an_interrupted_checkout(self):
        self.good("tree")
        self.stop_in_checkout("edit\\n")
        self.assertIn(f"edited in build/linux: {NEW}", self.bad("tree"))

    def test_source_changed_after_an_interrupted_checkout(self):
        self.good("tree")
        self.stop_in_checkout("one\\ntwo\\nthree\\n")
        self.write(NEW, "four\n")
        self.good("tree")
        self.assertEqual(self.read("build/linux/" + NEW), "four\n")

    def test_old_tree_is_no_edit(self):
        """Nobody knows what an older script wrote: refresh must not take it for edits."""
        self.good("tree")
        shutil.rmtree(self.path("build/linux.git"))
        self.write(NEW, "newer\n")
        self.assertIn("older", self.bad("tree"))
        self.assertIn("not assembled", self.bad("refresh"))
        self.assertEqual(self.read(NEW), "newer\n")
        self.good("tree", "--force")
        self.assertEqual(self.read("build/linux/" + NEW), "newer\n")

    def test_force_says_what_it_drops(self):
        self.good("tree")
        self.write("build/linux/" + NEW, "edit\n")
        self.assertIn(f"dropped the edit of {NEW}\n", self.good("tree", "--force"))

    def test_another_base(self):
        """What is the same in both bases keeps its time."""
        self.good("tree")
        before = self.times()
        shutil.copytree(self.path("build/base/1-1"), self.path("build/base/1-2~deb"))
        self.write("build/base/1-2~deb/kernel/Makefile", "obj-y += core.o other.o\n")
        self.write("scripts/base.sh", f"#!/bin/sh\necho {self.top}/build/base/1-2~deb\n")
        self.assertIn("base 1-2~deb plus the series, 1 files written", self.good("tree"))
        self.assertEqual(self.read("build/linux/kernel/Makefile"), "obj-y += core.o other.o\n")
        changed = [name for name, when in self.times().items() if when != before[name]]
        self.assertEqual(changed, ["kernel/Makefile"])

    def test_file_without_a_commit(self):
        """A new file is in the tree before patches/series names it."""
        self.write("kernel/other.c", "other\n")
        self.good("tree")
        self.assertEqual(self.read("build/linux/kernel/other.c"), "other\n")

    def test_bad_hunk(self):
        self.write("patches/" + FIRST, HEADER.format("first: Add one") + hook(10, "first").replace("line 11", "line"))
        text = self.bad("tree")
        self.assertIn(f"patches/{FIRST}", text)
        self.assertIn(CORE, text)
        self.assertIn("1-1", text)

    def test_new_file_of_the_base(self):
        self.write(CORE, "core\n")
        self.series(NEW, CORE)
        self.assertIn(f"{CORE} exists in base 1-1", self.bad("tree"))

    def test_patch_of_a_file_that_is_not_there(self):
        text = hook(10, "first").replace(CORE, "kernel/gone.c")
        self.write("patches/" + FIRST, HEADER.format("first: Add one") + text)
        self.assertIn(f"patches/{FIRST}: kernel/gone.c is not a file of base 1-1", self.bad("tree"))

    def test_patch_that_removes_a_file(self):
        text = "".join(f"-line {number}\n" for number in range(1, 61))
        self.write("patches/" + SECOND, HEADER.format("second: Remove") + f"diff --git a/{CORE} b/{CORE}\n"
                   f"deleted file mode 100644\n--- a/{CORE}\n+++ /dev/null\n@@ -1,60 +0,0 @@\n{text}")
        self.assertIn(f"patches/{SECOND} does not just edit {CORE}", self.bad("tree"))

    def test_patch_that_changes_the_mode(self):
        text = hook(40, "second", 1).replace("\n---", "\nold mode 100644\nnew mode 100755\n---", 1)
        self.write("patches/" + SECOND, HEADER.format("second: Run it") + text)
        self.assertIn(f"patches/{SECOND} does not just edit {CORE}", self.bad("tree"))

    def test_patch_that_is_no_utf_8(self):
        with open(self.path("patches/" + SECOND), "ab") as f:
            f.write(b"\xe9")
        self.assertIn(f"patches/{SECOND} is not UTF-8", self.bad("manifest"))


class Refresh(SeriesTest):
    def setUp(self):
        super().setUp()
        self.good("tree")

    def edit(self, *edits):
        self.write("build/linux/" + CORE, core((10, "first"), (40, "second"), *edits))

    def test_nothing(self):
        before = self.read("patches/" + FIRST)
        self.assertEqual(self.good("refresh"), "")
        self.assertEqual(self.read("patches/" + FIRST), before)

    def test_new_file(self):
        self.write("build/linux/" + NEW, "edit\n")
        self.good("refresh")
        self.assertEqual(self.read(NEW), "edit\n")

    def test_times(self):
        """The tree is not written once more with what it contains."""
        self.edit((41, "edit"))
        self.write("build/linux/" + NEW, "edit\n")
        before = [os.stat(self.path("build/linux/" + name)).st_mtime_ns for name in (NEW, CORE)]
        self.good("refresh")
        self.good("tree")
        self.assertEqual([os.stat(self.path("build/linux/" + name)).st_mtime_ns for name in (NEW, CORE)], before)

    def test_nearest_patch(self):
        """Without a name, an edit belongs to the patch beside it, not to the last one."""
        self.edit((14, "edit"))
        self.good("refresh")
        self.assertIn("+edit\n", self.read("patches/" + FIRST))
        self.assertNotIn("+edit\n", self.read("patches/" + SECOND))
        self.assertEqual(self.good("tree"), "")

    def test_base(self):
        """The edit belongs to the base that is in the tree, whichever is the default."""
        shutil.copytree(self.path("build/base/1-1"), self.path("build/base/1-0"))
        self.write("build/base/1-0/kernel/Makefile", "obj-y += old.o\n")
        self.env["BASE"] = "1-0"
        self.good("tree")
        del self.env["BASE"]
        self.edit((14, "edit"))
        self.good("refresh")
        self.assertEqual(self.read("build/linux/kernel/Makefile"), "obj-y += old.o\n")

    def test_two_hunks(self):
        self.edit((8, "one"), (44, "two"))
        said = self.good("refresh")
        self.assertIn(f"refresh: {CORE} -> patches/{FIRST}\n", said)
        self.assertIn(f"refresh: {CORE} -> patches/{SECOND}\n", said)
        self.assertIn("+one\n", self.read("patches/" + FIRST))
        self.assertNotIn("+two\n", self.read("patches/" + FIRST))
        self.assertIn("+two\n", self.read("patches/" + SECOND))
        self.assertNotIn("one\n", self.read("patches/" + SECOND))
        self.assertEqual(self.good("tree"), "")

    def test_edit_of_a_hook(self):
        self.write("build/linux/" + CORE, core((10, "1st"), (40, "second")))
        self.good("refresh")
        self.assertIn("+1st\n", self.read("patches/" + FIRST))
        self.assertNotIn("first\n", self.read("patches/" + FIRST).split("---\n", 1)[1])

    def test_removed_hook(self):
        self.write("build/linux/" + CORE, core((10, "first")))
        self.good("refresh")
        self.assertEqual(self.read("patches/" + SECOND), HEADER.format("second: Add two"))

    def test_patch_that_only_removes(self):
        removes = hook(20, "", 1).replace("-21,2 +21,3", "-21,3 +21,2")
        removes = removes.replace("+\n line 21\n", "-line 21\n line 22\n")
        self.write("patches/0015-third.patch", HEADER.format("third: Remove") + removes)
        self.list(f"{FIRST}\n0015-third.patch\n{SECOND}\n\t{NEW}\n")
        self.write("patches/" + SECOND, HEADER.format("second: Add two") + hook(40, "second", 0))
        self.good("tree")
        text = core((10, "first"), (40, "second")).replace("line 21\n", "")
        self.assertEqual(self.read("build/linux/" + CORE), text)
        self.write("build/linux/" + CORE, text.replace("line 23\n", "line 23\nedit\n"))
        self.assertIn("-> patches/0015-third.patch", self.good("refresh"))
        self.assertEqual(self.good("tree"), "")

    def test_edit_of_a_patch_and_of_its_file(self):
        """An edit of a patch file is not undone."""
        self.write("patches/" + FIRST, HEADER.format("first: Add one") + hook(10, "1st"))
        self.edit((12, "edit"))
        self.assertIn(f"{CORE} was edited here and in build/linux", self.bad("refresh"))
        self.assertIn("+1st\n", self.read("patches/" + FIRST))

    def test_lines_of_a_later_patch(self):
        self.write("build/linux/" + CORE, core((10, "first"), (40, "2nd")))
        self.assertIn("change the same lines", self.bad("refresh", FIRST))
        self.assertIn("+second\n", self.read("patches/" + SECOND))

    def test_diffs_that_stay(self):
        """Refresh writes only what changed, whatever headings and blank lines at the end a patch has."""
        self.write("patches/" + FIRST, self.read("patches/" + FIRST) + "\n")
        self.write("patches/" + SECOND, self.read("patches/" + SECOND) + "\n")
        first = self.read("patches/" + FIRST)
        self.good("tree")
        self.write("build/linux/kernel/Makefile", "obj-y += core.o new.o\n")
        self.good("refresh", SECOND)
        self.assertIn("+obj-y += core.o new.o\n" + hook(40, "second", 1), self.read("patches/" + SECOND))
        self.edit((41, "edit"))
        self.good("refresh")
        self.assertIn("+edit\n", self.read("patches/" + SECOND))
        self.assertEqual(self.read("patches/" + FIRST), first)

    def test_last_patch(self):
        self.edit((41, "edit"))
        self.good("refresh")
        self.assertIn("+edit\n", self.read("patches/" + SECOND))
        self.assertNotIn("+edit\n", self.read("patches/" + FIRST))
        self.good("tree")

    def test_named_patch(self):
        self.edit((30, "edit"))
        self.good("refresh", FIRST)
        self.assertIn("+edit\n", self.read("patches/" + FIRST))
        self.assertNotIn("+edit\n", self.read("patches/" + SECOND))
        self.good("tree")

    def test_path_of_a_patch(self):
        self.edit((30, "edit"))
        self.good("refresh", "patches/" + FIRST)
        self.assertIn("+edit\n", self.read("patches/" + FIRST))

    def test_two_edits_of_a_new_file(self):
        self.write("build/linux/" + NEW, "edit\n")
        self.write(NEW, "another\n")
        self.assertIn(f"{NEW} was edited here and in build/linux", self.bad("refresh"))
        self.assertEqual(self.read(NEW), "another\n")
        self.assertEqual(self.read("build/linux/" + NEW), "edit\n")

    def test_unknown_patch(self):
        self.assertIn("0030-third.patch is not in patches/series", self.bad("refresh", "0030-third.patch"))

    def test_first_edit_of_a_base_file(self):
        self.write("build/linux/kernel/Makefile", "obj-y += core.o new.o\n")
        self.assertIn("no patch touches kernel/Makefile: name one", self.bad("refresh"))
        self.good("refresh", SECOND)
        self.assertIn("+obj-y += core.o new.o\n", self.read("patches/" + SECOND))
        self.good("tree")

    def test_lines_with_other_ends(self):
        """Only a newline ends a line: Python knows more ends, and git does not."""
        base = core().replace("line 3\n", "line 3\n\f\n\v\x1c\x85\u2028\r\n")
        self.write("build/base/1-1/" + CORE, base)
        shutil.rmtree(self.path("build/linux.git"))
        shutil.rmtree(self.path("build/linux"))
        self.good("tree")
        text = self.read_exactly("build/linux/" + CORE)
        self.write("build/linux/" + CORE, text.replace("line 11\n", "line 11\n\fedit\u2028\n"))
        self.assertIn(f"-> patches/{FIRST}", self.good("refresh"))
        self.assertIn("+\fedit\u2028\n", self.read_exactly("patches/" + FIRST))
        self.write("build/linux/" + CORE, text.replace("line 41\n", "line 41\nnext\n"))
        self.assertIn(f"-> patches/{SECOND}", self.good("refresh"))
        self.assertNotIn("next", self.read_exactly("patches/" + FIRST))
        self.assertEqual(self.good("tree"), "")

    def test_end_without_newline(self):
        self.edit((60, "edit"))
        text = self.read("build/linux/" + CORE)
        self.write("build/linux/" + CORE, text[:-1])
        self.assertIn(f"{CORE} does not end with a newline", self.bad("refresh"))
        self.assertNotIn("edit", self.read("patches/" + SECOND))

    def test_edit_of_the_mode(self):
        os.chmod(self.path("build/linux/" + CORE), 0o755)
        self.assertIn(f"the mode of {CORE} was changed", self.bad("refresh"))

    def test_edit_of_binary_data(self):
        self.write("build/linux/kernel/Makefile", "obj-y += core.o\n\0\n")
        self.assertIn("kernel/Makefile is no text", self.bad("refresh", FIRST))
        self.assertNotIn("Makefile", self.read("patches/" + FIRST))

    def test_maintainers(self):
        self.write("MAINTAINERS", "BETA\nM:\tb\n")
        self.series(NEW, "MAINTAINERS")
        self.good("tree")
        self.write("build/linux/MAINTAINERS", self.read("build/linux/MAINTAINERS").replace("BETA", "GAMMA"))
        self.assertIn("edit the MAINTAINERS at the root instead", self.bad("refresh"))


class Export(SeriesTest):
    def test_exported(self):
        self.good("tree")
        text = self.good("export")
        self.assertIn("2 patches in build/series, applied by git am to base 1-1", text)
        names = sorted(name for name in os.listdir(self.path("build/series")) if name.endswith(".patch"))
        self.assertEqual([name for name in names if not name.startswith("0000")],
                         ["0001-first-Add-one.patch", "0002-second-Add-two.patch"])
        self.assertIn("+second\n", self.read("build/series/0002-second-Add-two.patch"))
        self.assertIn("+new\n", self.read("build/series/0002-second-Add-two.patch"))

    def test_cover_letter(self):
        self.good("tree")
        self.good("export")
        text = self.read("build/series/0000-cover-letter.patch")
        self.assertIn("From: A Name <a@example.org>\n", text)
        self.assertIn("\nSubject: [PATCH 0/2] The series\n\nWhat it is for.\n\n", text)
        # Anybody can compute these.
        trees = subprocess.run(["git", "--git-dir=build/linux.git", "rev-parse", "base^{tree}", "series^{tree}"],
                               cwd=self.top, check=True, capture_output=True, text=True).stdout.split()
        self.assertIn(f"Base: Debian's linux-source-6.12 1-1, whose tree in git is\n{trees[0]}.\n"
                      f"With the series, the tree is {trees[1]}.\n", text)
        for name in os.listdir(self.path("build/series")):
            self.assertNotIn("base-commit", self.read("build/series/" + name))

    def test_another_tree_than_that_of_the_head(self):
        """patches/series says which tree the base is, but only of one version."""
        self.write("patches/series", HEAD.format("1-1", "1" * 40) + f"{FIRST}\n{SECOND}\n\t{NEW}\n")
        self.assertIn("patches/series says tree " + "1" * 40, self.bad("tree"))

    def test_long_subject(self):
        words = " ".join(["long"] * 14)
        self.write("patches/" + FIRST, HEADER.format("first: " + words) + hook(10, "first"))
        self.good("tree")
        self.good("export")
        self.assertIn(f"0001-first-{words.replace(' ', '-')}.patch", os.listdir(self.path("build/series")))

    def test_draft(self):
        self.good("tree")
        self.good("draft")
        self.assertIn("0002-second-Add-two.patch", os.listdir(self.path("build/draft")))

    def test_draft_of_some_files(self):
        """The names have the number in the series; the subjects do not, so that they stay the same."""
        self.good("tree")
        second = "0002-second-Add-two.patch"
        for name, patches in ((NEW, [second]), ("patches/" + SECOND, [second]),
                              (CORE, ["0001-first-Add-one.patch", second])):
            self.good("draft", name)
            self.assertEqual(sorted(os.listdir(self.path("build/draft"))), patches)
        self.assertIn("Subject: [PATCH] second: Add two\n", self.read("build/draft/" + second))
        self.good("draft", "README.md")
        self.assertFalse(os.path.exists(self.path("build/draft")))

    def test_git_am_that_gives_another_tree(self):
        self.good("tree")
        with self.own_git("am", "exit 0"):
            self.assertIn("git am gives tree", self.bad("export"))
        self.assertFalse(os.path.exists(self.path("build/series")))

    def test_edit(self):
        self.good("tree")
        self.write("build/linux/" + NEW, "edit\n")
        self.assertIn(NEW, self.bad("export"))

    def test_other_bases(self):
        """The edits must apply to each other base, where lines may have moved."""
        self.good("tree")
        for version, text in ("1-0", "line 0\n" + core()), ("0-9", core().replace("line 41\n", "")):
            shutil.copytree(self.path("build/base/1-1"), self.path("build/base/" + version))
            self.write("build/base/" + version + ".sha256", "")
            self.write(f"build/base/{version}/{CORE}", text)
        self.assertIn("series: applies to base 1-0\n", self.good("export", "1-1", "1-0"))
        self.assertIn(f"patches/{SECOND} does not apply to base 0-9", self.bad("export", "1-0", "0-9"))

    def test_new_file_of_another_base(self):
        self.good("tree")
        shutil.copytree(self.path("build/base/1-1"), self.path("build/base/1-0"))
        self.write("build/base/1-0.sha256", "")
        self.write("build/base/1-0/" + NEW, "new\n")
        self.assertIn(f"{NEW} exists in base 1-0", self.bad("export", "1-0"))

    def test_twice(self):
        self.good("tree")
        self.good("export")
        self.write(NEW, "newer\n")
        self.good("tree")
        self.good("export")
        self.assertIn("+newer\n", self.read("build/series/0002-second-Add-two.patch"))

    def test_usage(self):
        self.assertIn("usage:\n  series.py manifest ", self.bad("frobnicate"))

    def test_new(self):
        self.assertEqual(self.good("new"), NEW + "\n")


if __name__ == "__main__":
    unittest.main()
