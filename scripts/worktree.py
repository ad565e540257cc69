# SPDX-License-Identifier: GPL-2.0
"""build/linux, the work tree of the repository build/linux.git.

The branch 'base' of the repository is the base, and 'tree' is the base with the series. Invariant:
the reference WRITTEN is what the last assembly wrote, and what differs from it was edited. WRITING
exists while an assembly writes, and after one that did not end: a file that has the beginning of
its contents there is no edit. The repository is beside the work tree: a kernel that finds a .git
in its source puts the commit into its version, and changes with each edit.
"""

import glob
import os

from manifest import head
from repo import BUILD, DATE, LINUX, REPO, Failure, git, line, names, read, say, write

WRITTEN = "refs/series/written"
WRITING = "refs/series/writing"
INDEX = os.path.join(REPO, "index")
CONFIG = (b"[core]\nrepositoryformatversion = 0\nworktree = ../linux\nlogAllRefUpdates = false\n"
          b"[gc]\nautoDetach = false\npruneExpire = now\n")


def import_base(path, version):
    """Make the pristine source the branch 'base'."""
    ref = "refs/base/" + version.replace("~", "_")
    if not os.path.isdir(REPO):
        git("init", "-q", "--bare", "--template=", REPO + ".new", cwd=BUILD)
        write(REPO + ".new/config", CONFIG)
        os.rename(REPO + ".new", REPO)
    known = line("for-each-ref", ref)
    if known:
        made = line("rev-parse", ref + "^{tree}")
    else:
        say(f"tree: importing base {version} into git (about 40 s)")
        env = {"GIT_DIR": REPO, "GIT_WORK_TREE": path, "GIT_INDEX_FILE": INDEX + ".base"}
        # One pack is smaller and faster than a file for each object, and gc leaves it alone.
        git("-c", "core.bigFileThreshold=1", "-c", "pack.compression=1", "add", "-A", "-f", ".",
            cwd=path, **env)
        for pack in glob.glob(REPO + "/objects/pack/*.pack"):
            write(pack[:-4] + "keep", b"")
        made = line("write-tree", cwd=path, **env)
    named, wanted = head()[:2]
    if version == named and made != wanted:
        raise Failure(f"base {version} has tree {made}, patches/series says tree {wanted}; "
                      "if build/base was edited, remove it, and make extracts it once more")
    if not known:
        commit = line("commit-tree", "-m", f"linux-source-6.12 {version}", made, GIT_AUTHOR_NAME="Debian Kernel Team",
                      GIT_AUTHOR_EMAIL="debian-kernel@lists.debian.org", GIT_AUTHOR_DATE=DATE)
        git("update-ref", ref, commit)
    git("update-ref", "refs/heads/base", ref)


def half_written(path):
    return git("cat-file", "blob", f"{WRITING}:{path}", good=(0, 128)).startswith(read(os.path.join(LINUX, path)))


def edited():
    """List files that were edited in build/linux, and those of them that differ from the series."""
    def different(commit, *paths):
        return there(names("diff", "--no-renames", "--name-only", "-z", commit, "--", *paths))

    def there(paths):
        return [path for path in paths if os.path.lexists(os.path.join(LINUX, path))]

    git("update-index", "-q", "--refresh", good=(0, 1))
    if not line("for-each-ref", WRITTEN):
        return different("tree"), different("tree")
    edits = different(WRITTEN)
    lost = different("tree", *edits) if edits else []
    # git does not look at files that it does not know.
    made = there(names("diff", "--no-renames", "--name-only", "-z", "--diff-filter=A", WRITTEN, "tree"))
    lost += [path for path in made if read(os.path.join(LINUX, path)) != git("cat-file", "blob", "tree:" + path)]
    if line("for-each-ref", WRITING):
        lost = [path for path in lost if not half_written(path)]
    return edits + made, lost


def deleted():
    """List files that were deleted in build/linux, and that an assembly restores."""
    def missing(commit):
        return names("diff", "--no-renames", "--name-only", "-z", "--diff-filter=D", commit)

    # An assembly that did not end may have deleted what it was about to write.
    if not line("for-each-ref", WRITTEN) or line("for-each-ref", WRITING):
        return []
    written = missing(WRITTEN)
    return sorted(set(written).intersection(missing("tree"))) if written else []


def checkout(where):
    """Write to a directory what is not there yet."""
    git("update-ref", WRITING, "tree")
    git("update-ref", "--no-deref", "HEAD", "tree")
    git("reset", "-q", "--hard", "tree", GIT_WORK_TREE=where)
    git("update-ref", "--stdin", stdin=f"update {WRITTEN} tree\ndelete {WRITING}\n".encode())
