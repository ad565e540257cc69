# SPDX-License-Identifier: GPL-2.0
"""The directories, files, git, and the lock on build/linux.

git() always works in one of two repositories: that of build/linux, or the one of the directory
that its caller names. The environment and the configuration of the user do not matter, except that
the files which the user's git ignores are no files of this repository.
"""

import fcntl
import glob
import os
import subprocess
import sys

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))
BUILD = os.path.join(TOP, "build")
LINUX = os.path.join(BUILD, "linux")
REPO = os.path.join(BUILD, "linux.git")

# The same commits have the same names everywhere.
DATE = "1700000000 +0000"
SETTINGS = ("safe.directory=*", "core.compression=1", "core.abbrev=7", "core.attributesFile=/dev/null")


class Failure(Exception):
    """One sentence for the user; ends the program with status 1."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    """Write the file atomically."""
    tmp = path + ".tmp~"
    try:
        with open(tmp, "wb") as f:
            f.write(data)
        os.rename(tmp, path)
    finally:
        if os.path.lexists(tmp):
            os.unlink(tmp)


def git(*args, cwd=None, stdin=None, good=(0,), **env):
    """Return the output of git for build/linux, or in a directory that is another repository."""
    full = {name: value for name, value in os.environ.items()
            if not name.startswith("GIT_") or (cwd == TOP and name.startswith("GIT_CONFIG_"))}
    full.update(GIT_ATTR_NOSYSTEM="1", GIT_COMMITTER_DATE=DATE, GIT_COMMITTER_NAME="unwind",
                GIT_COMMITTER_EMAIL="unwind@localhost")
    if cwd != TOP:
        full.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
    if not cwd:
        full.update(GIT_DIR=REPO, GIT_WORK_TREE=LINUX)
    full.update(env)
    # Programs inherit the lock, and so hold it if they outlive this one.
    done = subprocess.run(["git", *[word for setting in SETTINGS for word in ("-c", setting)], *args], cwd=cwd or TOP,
                          env=full, input=stdin, capture_output=True, check=False, close_fds=False)
    if done.returncode not in good:
        raise Failure(f"git {' '.join(args[:4])} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def line(*args, **kwargs):
    """Return one line of output."""
    return git(*args, **kwargs).decode().strip()


def names(*args, **kwargs):
    """Return the list that git prints with -z."""
    return [name for name in git(*args, **kwargs).decode().split("\0") if name]


def take_lock(verb):
    """Return the lock on build/linux, which this process and its programs hold until they end."""
    os.makedirs(BUILD, exist_ok=True)
    lock = open(BUILD + "/tree.lock", "w", encoding="ascii")
    os.set_inheritable(lock.fileno(), True)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"{verb}: waiting for another make to finish with build/linux")
        fcntl.flock(lock, fcntl.LOCK_EX)
    # The locks of git that are there now are of a git that was killed.
    for path in glob.glob(REPO + "/*.lock") + glob.glob(REPO + "/refs/**/*.lock", recursive=True):
        os.unlink(path)
    return lock
