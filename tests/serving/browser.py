"""Headless Chromium, driven over a pipe with the DevTools protocol; it needs no driver and no port."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [f"--{flag}" for flag in ("headless=new", "remote-debugging-pipe", "no-sandbox", "no-first-run")]
FLAGS += [f"--disable-{feature}" for feature in ("gpu", "dev-shm-usage", "background-networking", "extensions")]
# Chromium reads commands from 3 and writes to 4; the ends of the pipes are above these.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
SECONDS = 60


class Browser:
    """A tab. What goes wrong in it is in ``errors``, what it loads in ``loaded``."""

    def __init__(self, profile):
        commands, self._out = os.pipe()
        self._in, events = os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (commands, events)]
        command = [sys.executable, "-c", LAUNCH, *map(str, ends), PATH, *FLAGS, f"--user-data-dir={profile}"]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self._process = subprocess.Popen([*command, "about:blank"], pass_fds=ends, **streams)
        for fd in (commands, events, *ends):
            os.close(fd)
        self._waiting = b""
        self._last_id = 0
        self._session = None
        self.errors = []
        self.loaded = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Give a command, and wait for its result."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _read(self):
        ends = time.monotonic() + SECONDS
        while b"\0" not in self._waiting:
            if not select.select([self._in], [], [], max(ends - time.monotonic(), 0))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._in, 2**16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._waiting += part
        message, _, self._waiting = self._waiting.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        name, params = event.get("method"), event.get("params", {})
        if name == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"])
        elif name == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(params["args"])
        elif name == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"])
        elif name == "Network.requestWillBeSent":
            self.loaded.append(params["request"]["url"])

    def evaluate(self, expression):
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, expression):
        """Wait until an expression is true."""
        ends = time.monotonic() + SECONDS
        while not self.evaluate(expression):
            if time.monotonic() > ends:
                raise TimeoutError(f"{expression} is still not true")
            time.sleep(0.05)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({url!r}) && document.readyState === 'complete'")

    def type(self, selector, text):
        """Type over what a field holds."""
        self.evaluate(f"document.querySelector({selector!r}).select()")
        self.call("Input.insertText", text=text)

    def look(self, width):
        """Set the width of the window, in pixels."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def close(self):
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
