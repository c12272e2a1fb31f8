"""The commands that there are, from clap's own tree: the script for bash completion names them all, with their aliases."""

import re
import subprocess

from clients.cli import binary

CASE = re.compile(r"^ +(\w+),([\w-]+)\)\n +cmd=\"(\w+)\"", re.MULTILINE)
# What clap writes between the words of a function's name.
BETWEEN = "__subcmd__"
ROOT = "forebay"


class Tree:
    """Commands by the words that a user types."""

    def __init__(self, script):
        # (function of the command above, word) -> function
        self.below = {(above, word): function for above, word, function in CASE.findall(script) if word != "help"}
        assert (ROOT, "topic") in self.below, "the script for bash does not name the commands as it did"
        self.names = {ROOT: ""}
        for (above, word), function in sorted(self.below.items(), key=lambda one: len(one[1])):
            # A command stands for its name only: of an alias the function ends otherwise.
            if above in self.names and function == f"{above}{BETWEEN}{word.replace('-', BETWEEN)}":
                self.names[function] = f"{self.names[above]} {word}".strip()

    def leaves(self):
        """Every command that has none below it."""
        above = {above for above, _ in self.below}
        return sorted(name for function, name in self.names.items() if function not in above)

    def command(self, words):
        """The command that a line begins with, whether by names or by aliases."""
        function = ROOT
        for word in words:
            if (function, word) not in self.below:
                break
            function = self.below[function, word]
        assert self.names[function] in self.leaves(), f"{words} begins with none of our commands"
        return self.names[function]


def of_binary():
    """The commands of the binary under test."""
    done = subprocess.run([binary(), "completion", "bash"], capture_output=True, text=True, check=True, timeout=60)
    return Tree(done.stdout)
