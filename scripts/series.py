#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Assemble the series in build/linux, and export it as patches.

  series.py manifest            check patches/series against what is there
  series.py tree [--force]      assemble build/linux; touches only what changed
  series.py refresh [PATCH]     edits made in build/linux go back to their source
  series.py draft [FILE..]      build/draft/*.patch, for checks of the text
  series.py export [VERSION..]  build/series/*.patch, proved by git am
  series.py new                 list the files that the series adds, as DEST

worktree.py says what build/linux is. The branch 'series' of its repository has a commit for each
patch. Invariant: what was edited in build/linux is never overwritten without --force.
"""

import glob
import os
import shutil
import subprocess
import sys
import time

from hooks import rewrite, take_back
from manifest import destination, head, load, load_good, new_file, overlay
from repo import BUILD, DATE, LINUX, REPO, TOP, Failure, git, line, names, read, say, take_lock, write
from worktree import INDEX, WRITTEN, checkout, deleted, edited, import_base


def base_sh(*args, stdin=b""):
    done = subprocess.run([TOP + "/scripts/base.sh", *args], input=stdin, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(1)
    return done.stdout.decode().strip()


def apply_edits(commits, version, index):
    """Apply the edits, without fuzz, to an index. Return the versions of each edited file."""
    def blobs(*paths):
        entries = names("ls-files", "-s", "-z", "--", *paths, GIT_INDEX_FILE=index)
        return {entry.split("\t")[1]: entry.split()[1] for entry in entries}

    before, versions = blobs(), {}
    for commit in (commit for commit in commits if commit.edits):
        for path in commit.edits.keys() - before:
            raise Failure(f"patches/{commit.name}: {path} is not a file of base {version}")
        try:
            git("apply", "--cached", "--whitespace=nowarn", stdin="".join(commit.edits.values()).encode(),
                GIT_INDEX_FILE=index)
        except Failure as error:
            raise Failure(f"patches/{commit.name} does not apply to base {version}: {error}") from None
        after = blobs(*commit.edits)
        for path in commit.edits:
            versions.setdefault(path, [(None, before[path])]).append((commit.name, after[path]))
    return versions


def build(commits, version):
    """Make the branch 'series', a commit for each patch, and the branch 'tree', which also has the
    new files that no patch brings yet. Return the versions of each edited file."""
    gone = [text for commit in commits for text in commit.gone()]
    if gone:
        raise Failure("\n".join(gone))
    for path in names("ls-tree", "-r", "-z", "--name-only", "base", "--", "MAINTAINERS", *overlay()):
        if path != "MAINTAINERS":
            raise Failure(f"{path} exists in base {version}: edit it with a hook patch")
    listing = git("ls-tree", "-r", "-z", "base", "--", "MAINTAINERS", *{path for c in commits for path in c.edits})
    modes = {entry.split("\t")[1]: entry.split()[0] for entry in listing.decode().split("\0") if entry}
    git("read-tree", "--empty", GIT_INDEX_FILE=INDEX + ".series")
    git("update-index", "-z", "--index-info", stdin=listing, GIT_INDEX_FILE=INDEX + ".series")
    versions = apply_edits(commits, version, INDEX + ".series")
    left = set(overlay().values()).difference(*[commit.brings for commit in commits])
    stream = b"reset refs/heads/series\nfrom refs/heads/base\n\n"
    for commit in commits:
        stream += (f"commit refs/heads/series\nauthor {commit.author} {DATE}\ncommitter unwind <unwind@localhost> "
                   f"{DATE}\ndata {len(commit.message)}\n").encode() + commit.message
        for path in commit.edits:
            stream += f"M {modes[path]} {dict(versions[path])[commit.name]} {path}\n".encode()
        stream += b"".join(new_file(name) for name in commit.brings)
    stream += b"reset refs/heads/tree\nfrom refs/heads/series\n\n"
    if left:
        stream += f"commit refs/heads/tree\ncommitter unwind <unwind@localhost> {DATE}\ndata 0\n".encode()
        stream += b"".join(new_file(name) for name in sorted(left))
    git("fast-import", "--quiet", "--force", stdin=stream)
    return versions


def tree(force, version):
    start = time.monotonic()
    base = base_sh("tree", version)
    version = os.path.basename(base)
    import_base(base, version)
    build(load(), version)
    if not os.path.exists(INDEX):
        git("read-tree", "tree")
    if not os.path.isdir(LINUX):
        say(f"tree: writing base {version} and the series to build/linux (about 10 s)")
        os.makedirs(LINUX + ".new", exist_ok=True)
        checkout(LINUX + ".new")
        os.rename(LINUX + ".new", LINUX)
    edits, lost = edited()
    if lost and not force and not line("for-each-ref", WRITTEN):
        raise Failure("build/linux is from an older script, and differs from the series in " + ", ".join(lost[:20]) +
                      "; save what you edited there, then 'make tree FORCE=1'")
    if lost and not force:
        raise Failure("edited in build/linux: " + ", ".join(lost[:20]) +
                      "; take it over with 'make refresh' or drop it with 'make tree FORCE=1'")
    if lost:
        say("tree: dropped the edit of " + ", ".join(lost))
    restored = deleted()
    if restored:
        say("tree: restored what was deleted in build/linux: " + ", ".join(restored[:20]) +
            (f" and {len(restored) - 20} more" if restored[20:] else ""))
    # git does not write once more what is in the index: these files keep their times.
    git("update-index", "--add", "--remove", "-z", "--stdin", stdin="\0".join(set(edits) - set(lost)).encode())
    written = names("diff", "--no-renames", "--name-only", "-z", "tree")
    checkout(LINUX)
    git("gc", "--auto", "-q")
    if written:
        say(f"tree: build/linux is base {version} plus the series, {len(written)} files written, "
            f"{time.monotonic() - start:.1f} s")


def assembled():
    """Return the version of the base in build/linux."""
    if not os.path.exists(INDEX) or not os.path.isdir(LINUX) or not line("for-each-ref", WRITTEN):
        raise Failure("build/linux is not assembled yet: 'make tree'")
    return line("log", "-1", "--format=%s", "base").split()[1]


def refresh(patch):
    commits = load()
    listed = [commit.name for commit in commits]
    if patch and patch not in listed:
        raise Failure(f"{patch} is not in patches/series")
    version = assembled()
    versions = build(commits, version)
    sources, lost = overlay(), edited()[1]
    for path in set(lost).intersection(names("diff-tree", "-r", "-z", "--name-only", WRITTEN, "tree")):
        raise Failure(f"{sources.get(path, path)} was edited here and in build/linux: make the two equal first")
    if "MAINTAINERS" in lost and "MAINTAINERS" in sources:
        raise Failure("MAINTAINERS was edited in build/linux: edit the MAINTAINERS at the root instead")
    hooks = [path for path in lost if path not in sources]
    for path in hooks:
        take_back(path, patch, listed, versions)
    changed = {name for path in hooks for name, _ in versions[path]}
    for commit in (commit for commit in commits if commit.name in changed):
        rewrite(commit, versions)
    for path in set(lost).difference(hooks):
        write(os.path.join(TOP, sources[path]), read(os.path.join(LINUX, path)))
        shutil.copymode(os.path.join(LINUX, path), os.path.join(TOP, sources[path]))
        say(f"refresh: {sources[path]}")
    tree(False, version)


def checked():
    """Make the branch of a good series. Return the base, the commits, the versions of edited files."""
    commits = load_good()
    version = assembled()
    return version, commits, build(commits, version)


def format_patches(out, *args, **env):
    git("format-patch", "-q", "--zero-commit", "--no-signature", "--filename-max-length=200", "-o", f"{BUILD}/{out}",
        *args, **env)


def draft(files):
    """Write the patches that have one of the files of the repository, or all patches, without data."""
    _, commits, _ = checked()
    shutil.rmtree(BUILD + "/draft", ignore_errors=True)
    for number, made in enumerate(line("rev-list", "--reverse", "base..series").split(), 1):
        commit = commits[number - 1]
        if not files or not {f"patches/{commit.name}", *commit.edits, *commit.brings}.isdisjoint(files):
            format_patches("draft", f"--start-number={number}", "-1", made, "--", ".", ":!*corpus/*", ":!*.base64")


def prove_by_am(out, paths):
    """Apply the exported patches to a pristine base with git am, and return the resulting tree."""
    work = BUILD + "/git/am"
    shutil.rmtree(work, ignore_errors=True)
    git("worktree", "add", "-q", "-f", "--no-checkout", "--detach", work, "base")
    git("sparse-checkout", "set", "--no-cone", *["/" + path for path in sorted(paths)], cwd=work)
    git("checkout", "-q", "--detach", "base", cwd=work)
    git("am", "-q", *sorted(glob.glob(out + "/*.patch"))[1:], cwd=work)
    return line("rev-parse", "HEAD^{tree}", cwd=work)


def export(others):
    version, commits, versions = checked()
    made = line("rev-parse", "series^{tree}")
    name, mail = commits[0].author[:-1].split(" <")
    cover = (f"{head()[2]}\nBase: Debian's linux-source-6.12 {version}, whose tree in git is\n"
             f"{line('rev-parse', 'base^{tree}')}.\nWith the series, the tree is {made}.\n")
    shutil.rmtree(BUILD + "/series.tmp", ignore_errors=True)
    format_patches("series.tmp", "--cover-letter", "--cover-from-description=subject", "base..series",
                   GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="branch.series.description", GIT_CONFIG_VALUE_0=cover,
                   GIT_COMMITTER_NAME=name, GIT_COMMITTER_EMAIL=mail)
    brought = [destination(name) for commit in commits for name in commit.brings]
    applied = prove_by_am(BUILD + "/series.tmp", [*versions, *brought])
    if applied != made:
        raise Failure(f"git am gives tree {applied}, the series gives {made}")
    edits = edited()[0] or names("diff", "-z", "--no-renames", "--name-only", "series")
    if edits:
        raise Failure("build/linux differs from the series in " + ", ".join(edits[:20]))
    shutil.rmtree(BUILD + "/series", ignore_errors=True)
    os.rename(BUILD + "/series.tmp", BUILD + "/series")
    say(f"series: {len(commits)} patches in build/series, applied by git am to base {version}")
    for other in set(others) - {version}:
        apply_to(other, commits, list(versions))
    print(f"tree {made}")


def apply_to(version, commits, paths):
    """Check that the edits apply, without fuzz, to another version of the base."""
    full = f"{BUILD}/base/{version}"
    if not os.path.exists(full + ".sha256"):
        full = f"{BUILD}/base-files/{version}"
        if not all(os.path.exists(os.path.join(full, path)) for path in paths):
            base_sh("files", version, full, stdin="".join(path + "\n" for path in paths).encode())
    for name in overlay():
        if name != "MAINTAINERS" and os.path.exists(os.path.join(full, name)):
            raise Failure(f"{name} exists in base {version}")
    env = {"GIT_DIR": REPO, "GIT_WORK_TREE": full, "GIT_INDEX_FILE": INDEX + ".other"}
    git("read-tree", "--empty", **env)
    git("add", "-f", "--", *[path for path in paths if os.path.exists(os.path.join(full, path))], cwd=full, **env)
    apply_edits(commits, version, INDEX + ".other")
    say(f"series: applies to base {version}")


def main(verb="", *args):
    try:
        lock = take_lock(verb)  # held until the end
        if verb == "manifest":
            load_good()
        elif verb == "tree":
            tree("--force" in args, os.environ.get("BASE", ""))
        elif verb == "refresh":
            refresh(os.path.basename(args[0]) if args else "")
        elif verb == "export":
            export(args)
        elif verb == "draft":
            draft(args)
        elif verb == "new":
            print("\n".join(sorted(overlay())))
        else:
            raise Failure("usage:\n" + __doc__.split("\n\n")[1])
        return 0
    except Failure as error:
        say(f"{verb}: {error}")
        return 1
    except OSError as error:
        say(f"{verb}: {error.strerror}" + (f": {error.filename}" if error.filename else ""))
        return 1
    except KeyboardInterrupt:
        say(f"{verb}: interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
