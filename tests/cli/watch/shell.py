"""A shell as small as can be: it runs one module in the foreground, and again after each stop.

It tells how the command stopped or ended, and whether the terminal shows what is typed then.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios


def main() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    command = subprocess.Popen(
        [sys.executable, "-m", *sys.argv[1:]],
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGTTOU, signal.SIG_DFL),
    )
    while command.returncode is None:
        os.tcsetpgrp(0, command.pid)
        os.kill(command.pid, signal.SIGCONT)
        _, status = os.waitpid(command.pid, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        shows = bool(termios.tcgetattr(0)[3] & termios.ECHO)
        if os.WIFSTOPPED(status):
            print(f"\nstopped, shows: {shows}", flush=True)  # noqa: T201
            input()
        else:
            print(f"\nended with {os.waitstatus_to_exitcode(status)}, shows: {shows}", flush=True)  # noqa: T201
            return


if __name__ == "__main__":
    main()
