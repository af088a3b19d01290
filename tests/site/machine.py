"""A machine that has the kit under systemd: folders, a port, and what stands for `systemctl` and `journalctl`.

It starts what the kit's unit says, with its socket, its credentials and its drop-ins, until that notifies it. It starts
nothing again by itself.
"""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

from tests.cluster.servers import PROGRAMS, postgres_programs
from tests.pages import Pasted, steps
from tests.ports import free_port
from tests.processes import PATIENCE_S, until
from tests.source_tree import ROOT
from tests.terminal import JOB, OVER, Terminal, prints

KIT = ROOT / "examples" / "deploy"
HOWTO = ROOT / ".github" / "site" / "howto"
ASKED = """#!{python} -SE
import socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    asked.sendall("\\0".join(sys.argv[1:]).encode())
    asked.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: asked.recv(65536), b"")).decode()
code, _, output = answer.partition("\\n")
sys.stdout.write(output)
sys.exit(int(code))
"""
JOURNAL = """#!/bin/bash
while getopts u:o:n: option; do [[ $option != n ]] || last=$OPTARG; done
tail -n "${{last:-+1}}" {log!r}
"""
# Nothing is installed: a version is a program that is there already.
PIP = """#!/bin/bash
case "$*" in
    freeze) echo purgatory-async==0 ;;
    *--requirement*) cp {bin}/purgatory.earlier {bin}/purgatory ;;
    *) cp {bin}/purgatory.newer {bin}/purgatory ;;
esac
"""
EARLIER = """#!{python}
from purgatory_async.durable.fold import fold
fold.LEVEL = 1
from purgatory_async.__main__ import main
main()
"""


def sections(page):
    """The text below each heading of a page, by the heading."""
    parts = re.split(r"^##+ (.+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


class Machine:
    """One machine, on which one terminal is open; as a context it ends all that runs there.

    Args:
        folder: Where its folders are made.
        state: What stands for ``/var/lib``, if not one of these.
        flags: More flags of the service, in its unit.
        store: The URL of its store, if it is not the kit's SQLite file; empty for none.
        servers: Servers of the tests, by the units that start and stop them here.
        here: More texts that differ here; they come first.

    Attributes:
        here: The texts of the pages that differ here, and what stands for them.
        unit: The file of the service's unit.
    """

    def __init__(self, folder, *, state=None, flags="", store=None, servers=None, here=None):
        self.state, self.etc = state or folder / "lib", folder / "etc"
        self.log, self.port = folder / "journal", free_port()
        self.appeared, self._process, self._code = [], None, 0
        self._servers = servers or {}
        self._bin = folder / "bin"
        (self.state / "purgatory").mkdir(parents=True)
        for made in (self._bin, self.etc / "purgatory", self.etc / "systemd/system", folder / "root"):
            made.mkdir(parents=True)
        self.here = {
            **(here or {}),
            "/opt/purgatory/bin": f"{self._bin}",
            "/var/lib/": f"{self.state}/",
            "/etc/purgatory": f"{self.etc}/purgatory",
            "/etc/systemd": f"{self.etc}/systemd",
            "8765": f"{self.port}",
        }
        self._install(folder)
        text = (KIT / "systemd/purgatory.service").read_text(encoding="utf-8").replace("\\\n", "")
        if store is not None:
            text = re.sub(r" --store \S+", store and f" --store {store}", text)
        self.unit = self.etc / "systemd/system/purgatory.service"
        text = re.sub(r"^(ExecStart=.*)$", rf"\1 {flags}", text, flags=re.MULTILINE)
        self.unit.write_text(self.told(text).replace("%S", f"{self.state}"))
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self.terminal = Terminal(folder / "root", self.appeared, PATH=self._path(), HISTFILE="")

    def _path(self):
        return f"{self._bin}:{postgres_programs() or ''}:{PROGRAMS}"

    def _install(self, folder):
        """Put the programs and the secrets there."""
        address = f"{folder}/systemd"
        programs = {
            "systemctl": ASKED.format(python=sys.executable, address=address),
            "journalctl": JOURNAL.format(log=f"{self.log}"),
            "pip": PIP.format(bin=self._bin),
            "purgatory": f'#!/bin/bash\nexec {sys.executable} -m purgatory_async "$@"\n',
            "purgatory.earlier": EARLIER.format(python=sys.executable),
        }
        for name, text in programs.items():
            (self._bin / name).write_text(text)
            (self._bin / name).chmod(0o755)
        shutil.copy(self._bin / "purgatory", self._bin / "purgatory.newer")
        for name, text in {
            "tokens": "a-token-of-prometheus read name=prometheus\na-token-of-the-shop wait,signal name=shop\n"
            "a-token-of-the-operator admin name=ops\n",
            "link_secret": f"{'s' * 44}\n",
        }.items():
            path = self.etc / "purgatory" / name
            path.write_text(text)
            path.chmod(0o600)
        self._asked = socket.socket(socket.AF_UNIX)
        self._asked.bind(address)
        self._asked.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.terminal.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._listener.close()
        self._asked.close()

    # --- the stand-in for systemd -------------------------------------------------------------------

    def _serve(self):
        while True:
            try:
                asked, _ = self._asked.accept()
            except OSError:
                return
            with asked:
                verb, *rest = b"".join(iter(lambda asked=asked: asked.recv(65536), b"")).decode().split("\0")
                code, output = getattr(self, f"_{verb.replace('-', '_')}")(*rest)
                asked.sendall(f"{code}\n{output}".encode())

    def _daemon_reload(self):
        return 0, ""

    def _show(self, *asked):
        """``-p NAME -p NAME purgatory``."""
        running = self._process is not None and self._process.poll() is None
        if self._process is not None and not running:
            self._code = self._process.returncode
        state = "active" if running else "failed" if self._code else "inactive"
        known = {
            "ActiveState": state,
            "ExecMainStatus": abs(self._code),
            "MainPID": self._process.pid if running else 0,
        }
        names = [name for flag, name in pairwise(asked) if flag == "-p"]
        return 0, "".join(
            f"{known[name]}\n" if "--value" in asked else f"{name}={known[name]}\n" for name in names
        )

    def _restart(self, name):
        self._stop(name)
        return self._start(name)

    def _reload(self, name):
        assert "ExecReload" in self._settings(), f"the unit of {name} has none"
        read = re.compile(r'"message": "tokens (read again|kept as they were)"')
        before = len(read.findall(self.log.read_text()))
        self._process.send_signal(signal.SIGHUP)
        until(lambda: len(read.findall(self.log.read_text())) > before, "the tokens")
        return 0, ""

    def _stop(self, name):
        if name in self._servers:
            self._servers[name].stop(signal.SIGINT if "postgres" in name else signal.SIGTERM)
        elif self._process is not None:
            self._process.terminate()
            self._code = self._process.wait(PATIENCE_S)
            self._process = None
        return 0, ""

    def _start(self, name):
        if name in self._servers:
            self._servers[name].start()
            return 0, ""
        if self._process is not None and self._process.poll() is None:
            return 0, ""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            path = self._bin / "notified"
            path.unlink(missing_ok=True)
            notified.bind(f"{path}")
            notified.settimeout(0.05)
            self._process = self._begun(f"{path}")
            while self._process.poll() is None:
                try:
                    if b"READY=1" in notified.recv(4096):
                        self._code = 0
                        return 0, ""
                except TimeoutError:
                    continue
        self._code = self._process.returncode
        return 1, "Job for purgatory.service failed\n"

    def _begun(self, notified):
        """Start what the unit says."""
        settings = self._settings()
        credentials = self.etc / "credentials"
        credentials.mkdir(exist_ok=True)
        for credential in settings["LoadCredential"]:
            name, _, file = credential.partition(":")
            copy = credentials / name
            copy.unlink(missing_ok=True)
            copy.write_bytes(Path(file).read_bytes())
            copy.chmod(0o400)
        command = settings["ExecStart"][-1].replace("%d", f"{credentials}").replace("%S", f"{self.state}")
        environment = dict(os.environ, PYTHONPATH=f"{ROOT}", NOTIFY_SOCKET=notified, LISTEN_FDS="1")
        for file in settings.get("EnvironmentFile", ()):
            lines = Path(file).read_text(encoding="utf-8").splitlines()
            environment.update(line.split("=", 1) for line in lines)
        environment.update(each.split("=", 1) for each in settings.get("Environment", ()))
        listener = self._listener.fileno()
        started = f'exec 3<&{listener}; LISTEN_PID=$$ exec "$@"'
        with self.log.open("ab") as log:
            return subprocess.Popen(
                ["bash", "-c", started, "-", *shlex.split(command)],
                env=environment,
                pass_fds=[listener],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _settings(self):
        """The settings of the unit and its drop-ins; an empty one forgets what came before."""
        found = {}
        drop_ins = sorted(self.unit.with_suffix(".service.d").glob("*.conf"))
        for text in (file.read_text(encoding="utf-8") for file in (self.unit, *drop_ins)):
            for name, value in re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE):
                found[name] = [*found.get(name, []), value] if value else []
        return found

    # --- a person at the terminal -------------------------------------------------------------------

    def told(self, text):
        """A text of a page as it is on this machine."""
        for printed, ours in self.here.items():
            text = text.replace(printed, ours)
        return text

    def sh(self, commands):
        """Run commands that are on no page; returns what they print."""
        return self._pasted(self.told(commands))

    def _pasted(self, commands):
        return JOB.sub("", self.terminal.run(commands).removesuffix(f"\n{OVER}\n"))

    def follow(self, text, *, first=0, last=None):
        """Paste the blocks of a text one after the other, and compare what they print with what it shows."""
        text = re.sub(
            r"^```console\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL
        )  # for other machines
        pasted = [step for step in steps(self.told(text)) if isinstance(step, Pasted)]
        for step in pasted[first:last]:
            printed = self._pasted(step.text)
            told = f"line {step.line} printed:\n{printed}\nnot:\n{step.printed or ''}"
            assert prints(step.printed or "", printed), told
