#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Test that series.py bears what is around it: the user's git, killed programs, full disks, locks.

The tests have the small repository of series_test.py.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from series_test import CORE, FIRST, HEAD, NEW, SECOND, SeriesTest, core


class Surroundings(SeriesTest):
    """What a user, another program or a full disk may leave around the scripts."""

    def test_locks_of_a_git_that_was_killed(self):
        self.good("tree")
        for name in ("index.lock", "index.series.lock", "HEAD.lock", "refs/heads/series.lock"):
            self.write("build/linux.git/" + name, "")
        self.write(NEW, "newer\n")
        self.good("tree")
        self.assertEqual(self.read("build/linux/" + NEW), "newer\n")

    def test_git_that_outlives_its_script(self):
        """The lock ends with the last program that may write to the tree."""
        self.good("tree")
        build = self.path("build")
        with self.own_git("reset", f"echo > {build}/started; sleep 1; echo > {build}/ended"):
            with subprocess.Popen([sys.executable, "scripts/series.py", "tree"], cwd=self.top, env=self.env) as killed:
                while not os.path.exists(build + "/started"):
                    time.sleep(0.01)
                killed.kill()
            self.good("manifest")
        self.assertTrue(os.path.exists(self.path("build/ended")))

    def test_interrupted_init(self):
        with self.own_git("init", '$git "$@"; exit 1'):
            self.bad("tree")
        self.good("tree")
        self.assertIn("worktree = ../linux", self.read("build/linux.git/config"))

    def packs(self):
        return {name for name in os.listdir(self.path("build/linux.git/objects/pack")) if name.endswith(".pack")}

    def test_repository_does_not_grow(self):
        """What earlier assemblies left is removed, but the large pack of the base is not written again."""
        self.good("tree")
        base = self.packs()
        with open(self.path("build/linux.git/config"), "a", encoding="ascii") as config:
            config.write("autoPackLimit = 1\n[fastimport]\nunpackLimit = 1\n")
        for number in range(4):
            self.write(NEW, f"{number}\n")
            self.good("tree")
            # A git that goes on in the background would hold the lock.
            with open(self.path("build/tree.lock"), encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.assertLessEqual(base, self.packs())
        self.assertLess(len(self.packs()), 4)
        loose = [name for name in os.listdir(self.path("build/linux.git/objects")) if len(name) == 2]
        self.assertEqual(loose, [])

    def test_full_disk_while_a_source_is_written(self):
        self.good("tree")
        self.write("build/linux/" + NEW, "edit\n")
        os.symlink("/dev/full", self.path(NEW + ".tmp~"))
        self.assertIn("No space left on device", self.bad("refresh"))
        self.assertEqual(self.read(NEW), "new\n")
        self.assertEqual(os.listdir(self.path("kernel")), ["new.c"])
        self.good("refresh")
        self.assertEqual(self.read(NEW), "edit\n")

    def test_base_that_was_edited(self):
        """The base is right after the edit is gone."""
        self.good("tree")
        tree = subprocess.run(["git", "--git-dir=build/linux.git", "rev-parse", "base^{tree}"], cwd=self.top,
                              check=True, capture_output=True, text=True).stdout.strip()
        self.write("patches/series", HEAD.format("1-1", tree) + f"{FIRST}\n{SECOND}\n\t{NEW}\n")
        shutil.rmtree(self.path("build/linux.git"))
        self.write("build/base/1-1/kernel/Makefile", "edit\n")
        self.assertIn(f"patches/series says tree {tree}; if build/base was edited", self.bad("tree"))
        self.write("build/base/1-1/kernel/Makefile", "obj-y += core.o\n")
        self.good("tree")

    def test_settings_of_the_user(self):
        """The user's attributes, hooks, templates and signatures do not change the tree."""
        home = self.path("build/home")
        self.write("build/home/.config/git/attributes", "* text eol=crlf\n")
        self.write("build/home/.gitconfig", "[core]\nautocrlf = true\nhooksPath = /nonexistent\n[commit]\n"
                   "gpgsign = true\n[user]\nuseConfigOnly = true\n[diff]\nnoprefix = true\nexternal = false\n"
                   f"[init]\ntemplateDir = {home}/template\n[format]\nsignOff = true\nattach = x\n")
        self.write("build/home/template/hooks/post-checkout", "#!/bin/sh\nexit 1\n")
        os.chmod(self.path("build/home/template/hooks/post-checkout"), 0o755)
        self.env.update(HOME=home, GIT_CONFIG_GLOBAL=home + "/.gitconfig", GIT_TEMPLATE_DIR=home + "/template")
        self.env.pop("XDG_CONFIG_HOME", None)
        self.good("tree")
        with open(self.path("build/linux/" + CORE), "rb") as f:
            self.assertEqual(f.read(), core((10, "first"), (40, "second")).encode())
        self.assertFalse(os.path.exists(self.path("build/linux.git/hooks")))
        self.write("build/linux/" + CORE, core((10, "first"), (40, "second"), (12, "edit")))
        self.good("refresh")
        self.good("export")

    def test_hook_of_git(self):
        """git runs hooks with variables that name another repository."""
        self.env.update(GIT_DIR="/nonexistent", GIT_INDEX_FILE="/nonexistent/index", GIT_WORK_TREE="/nonexistent")
        self.good("tree")
        self.good("manifest")
        self.good("export")

    def test_files_that_the_user_ignores(self):
        """The files that editors leave are no files of the series."""
        self.write("build/ignore", "*.swp\n")
        self.write("build/gitconfig", f"[core]\nexcludesFile = {self.path('build/ignore')}\n")
        self.env["GIT_CONFIG_GLOBAL"] = self.path("build/gitconfig")
        self.write("kernel/.new.c.swp", "")
        self.good("manifest")
        self.good("tree")
        self.assertFalse(os.path.exists(self.path("build/linux/kernel/.new.c.swp")))

    def test_path_with_spaces(self):
        top = self.top
        self.top = os.path.join(self.path("build"), "a b 'c'")
        shutil.copytree(top, self.top, ignore=shutil.ignore_patterns("a b*"))
        self.write("scripts/base.sh", "#!/bin/sh\necho \"${0%/*/*}/build/base/1-1\"\n")
        self.good("tree")
        self.write("build/linux/" + CORE, core((10, "first"), (40, "second"), (12, "edit")))
        self.good("refresh")
        self.good("export")
        self.top = top

    def test_full_disk(self):
        """The message says what happened."""
        self.good("tree")
        os.unlink(self.path("patches/" + FIRST))
        os.symlink("/dev/full", self.path("patches/" + FIRST + ".tmp~"))
        self.git("checkout", "patches/" + FIRST)
        self.write("build/linux/" + CORE, core((10, "first"), (40, "second"), (12, "edit")))
        text = self.bad("refresh")
        self.assertIn("No space left on device", text)
        self.assertNotIn("None", text)


class Lock(SeriesTest):
    def test_wait(self):
        """A verb waits until another one has ended with build/linux."""
        with open(self.path("build/tree.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with subprocess.Popen([sys.executable, "scripts/series.py", "tree"], cwd=self.top, env=self.env,
                                  stderr=subprocess.PIPE, text=True) as waiter:
                self.assertIn("tree: waiting for another make", waiter.stderr.readline())
                self.assertFalse(os.path.exists(self.path("build/linux")))
                fcntl.flock(lock, fcntl.LOCK_UN)
                waiter.communicate()
        self.assertEqual(waiter.returncode, 0)
        self.assertTrue(os.path.exists(self.path("build/linux")))

    def test_interrupted(self):
        with open(self.path("build/tree.lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with subprocess.Popen([sys.executable, "scripts/series.py", "tree"], cwd=self.top, env=self.env,
                                  stderr=subprocess.PIPE, text=True) as waiter:
                self.assertIn("tree: waiting for another make", waiter.stderr.readline())
                waiter.send_signal(signal.SIGINT)
                self.assertEqual(waiter.stderr.read(), "tree: interrupted\n")
        self.assertEqual(waiter.returncode, 130)


if __name__ == "__main__":
    unittest.main()
