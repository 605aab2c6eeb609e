#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types words and the tab key into a real bash, zsh or fish and reads what becomes of the line.

usage: completion.py SHELL BERTH

The line is not run: `printf` is put in front of it and shows its words as the shell reads them.
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 60  # until an answer must be there; a shell needs a fraction of one
HOME, TAB, ENTER, CLEAR = "\x01", "\t", "\r", "\x15"
SHOW = r"printf '\074%s\076' "  # <word> for each word; not what the terminal shows while it is typed

CASES = [  # typed before the tab key, then the words of the line
    ("berth fine", "berth finetune"),
    ("berth finetune sq", "berth finetune squad"),
    ("berth finetune squad --learning_r", "berth finetune squad --learning_rate"),
    ("berth finetune squad --learning-r", "berth finetune squad --learning-rate"),
    ("berth finetune squad --json --learning_rat", "berth finetune squad --json --learning_rate"),
    ("berth finetune squad --device emu", "berth finetune squad --device emulated"),
    ("berth finetune squad --device=emu", "berth finetune squad --device=emulated"),
    ("berth finetune squad --do_lower_case=tr", "berth finetune squad --do_lower_case=true"),
    ("berth finetune squad --resume_from_checkpoint au", "berth finetune squad --resume_from_checkpoint auto"),
    ("berth pretrain --objective mlm --line_by", "berth pretrain --objective mlm --line_by_line"),
    ("berth finetune squad --train tr", "berth finetune squad --train train.json"),
    ("berth finetune squad --train=tr", "berth finetune squad --train=train.json"),
    ("berth finetune squad --no_effect_of_a_number 3 nonse", "berth finetune squad --no_effect_of_a_number 3 nonse"),
    ("berth answer --model only", "berth answer --model|only one folder"),  # and not the file beside it
    ("berth answer -m only", "berth answer -m|only one folder"),
    ("berth serve --model name=only", "berth serve --model|name=only one folder"),
    ("berth vocab --text a.txt tr", "berth vocab --text a.txt train.json"),
    ("berth verify only", "berth verify only"),  # a file and a folder begin so
    ("berth verify tra", "berth verify train.json"),
    ("berth bench pe", "berth bench peak"),
    ("berth help envi", "berth help environment"),
    ("berth help evaluate toke", "berth help evaluate tokens"),
    ("berth completion fi", "berth completion fish"),
    ("berth convert a b --to tens", "berth convert a b --to tensorflow"),
    ("berth nonsense --learning_r", "berth nonsense --learning_r"),
]
LISTED = ("berth finetune ", ["squad", "classify", "tokens", "embed", "fill"])
UNDESCRIBED = ("berth completion ", ["bash", "zsh", "fish"])


class Shell:
    def __init__(self, name: str, folder: pathlib.Path, environment: dict):
        words = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"], "fish": ["fish", "-i"]}
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execvpe(name, words[name], environment)
        self.screen = ""

    def type(self, keys: str):
        os.write(self.terminal, keys.encode())

    def wait_for(self, pattern: str) -> re.Match:
        """Reads until the screen shows it; what was shown is forgotten."""
        end = time.monotonic() + SECONDS
        while (found := re.search(pattern, self.screen, re.S)) is None:
            ready = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))[0]
            if not ready:
                raise AssertionError(f"no {pattern!r} on the screen:\n{self.screen}")
            self.screen += os.read(self.terminal, 65536).decode(errors="replace")
        self.screen = self.screen[found.end():]
        return found

    def words_after(self, typed: str) -> list:
        """What becomes of the line when the tab key is pressed at its end."""
        self.type(typed + TAB)
        self.type(HOME + SHOW + ENTER)
        shown = self.wait_for(r"((?:<[^<>\r\n]*>)+)[^<]").group(1)
        return shown[1:-1].split("><")

    def end(self):
        os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        os.close(self.terminal)


def prepare(name: str, berth: str, folder: pathlib.Path) -> dict:
    """A home without settings, files to complete, and the script where the shell looks for it."""
    for part in ("bin", "work/only one folder", "zsh", "config/fish/completions"):
        (folder / part).mkdir(parents=True)
    (folder / "bin/berth").symlink_to(berth)
    (folder / "work/only.txt").touch()
    (folder / "work/train.json").touch()
    scripts = {"bash": "completion.bash", "zsh": "zsh/_berth", "fish": "config/fish/completions/berth.fish"}
    script = subprocess.run([berth, "completion", name], capture_output=True, text=True, check=True).stdout
    (folder / scripts[name]).write_text(script)
    return {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "TERM": "xterm", "LC_ALL": "C.UTF-8",
            "PATH": f"{folder}/bin:{os.environ['PATH']}", "XDG_DATA_HOME": str(folder / "data"),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ""), "LINES": "60", "COLUMNS": "200"}


def start(name: str, folder: pathlib.Path) -> str:
    """What to type first."""
    return {"bash": "source ../completion.bash",
            "zsh": "bindkey -e; fpath=(../zsh $fpath); autoload -Uz compinit; compinit -u -D",
            "fish": "function fish_prompt; end"}[name] + "; printf '\\074%s\\076' ready" + ENTER


def main() -> int:
    name, berth = sys.argv[1], os.path.abspath(sys.argv[2])
    if shutil.which(name) is None:
        print(f"skipped: no {name}")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = pathlib.Path(scratch)
        shell = Shell(name, folder / "work", prepare(name, berth, folder))
        shell.type(start(name, folder))
        shell.wait_for("<ready>")
        for typed, expected in CASES:
            head, *tail = expected.split("|")
            words = head.split() + tail
            found = shell.words_after(typed)
            if [word.rstrip("/") for word in found] != words:  # zsh removes the slash when the line goes on
                print(f"FAILED: {typed!r}: expected {words}, found {found}")
                failures += 1
        for typed, listed in (UNDESCRIBED, LISTED):
            shell.type(CLEAR + typed + TAB + TAB)
            shell.wait_for("".join(f"(?=.*{word})" for word in listed))
            if typed == UNDESCRIBED[0] and re.search(r"(bash|zsh|fish) +--", shell.screen):
                print("FAILED: dashes before no description")
                failures += 1
        listed = subprocess.run([berth, "__complete", "help", ""], capture_output=True, text=True, check=True).stdout.split("\n")
        if len(listed) != len(set(listed)):
            print("FAILED: berth help offers a word twice")
            failures += 1
        shell.end()
    print("all good" if failures == 0 else f"{failures} of {len(CASES)} lines are wrong")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
