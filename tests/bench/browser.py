"""A headless Chromium, steered over its debugging pipe: no driver, no package, nothing to keep in step with it.

The pipe speaks the Chrome DevTools Protocol: JSON, each message ended by a zero byte; file descriptor 3 of the browser
reads, 4 writes.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"]
MISSING = (
    "no Chromium to look at reports with: install one (Debian: apt install chromium-headless-shell fonts-inter;"
    " Ubuntu: snap install chromium; macOS: brew install --cask chromium), or name one in CHROMIUM"
)
ANSWER_WITHIN = 60


class BrowserError(Exception):
    """The browser, or a script in it, failed."""


def find():
    """The path of a Chromium, or an error that says what to install."""
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise BrowserError(MISSING)
    return found


class Browser:
    def __init__(self):
        program = find()
        self.profile = tempfile.TemporaryDirectory(prefix="forebay-chromium-", ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.inward, from_browser = os.pipe()
        # Out of the way of 3 and 4, where the browser looks for them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--force-color-profile=srgb", "--font-render-hinting=none", f"--user-data-dir={self.profile.name}",
             "--remote-debugging-pipe", "about:blank"],
            preexec_fn=lambda: (os.dup2(ends[0], 3), os.dup2(ends[1], 4)), pass_fds=(3, 4),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self.last = 0
        self.received = b""
        self.heard = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.out)
        os.close(self.inward)
        self.process.terminate()
        self.process.wait()
        self.profile.cleanup()

    def ask(self, method, session=None, **parameters):
        """Sends a command and returns its result; what comes in between is kept in `heard`."""
        self.last += 1
        number = self.last
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        try:
            os.write(self.out, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as error:
            raise BrowserError(f"the browser ended (status {self.process.poll()})") from error
        while True:
            answer = self.next()
            if answer.get("id") != number:
                self.heard.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def next(self):
        """The next message."""
        deadline = time.monotonic() + ANSWER_WITHIN
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.inward], [], [], max(0, deadline - time.monotonic()))
            read = os.read(self.inward, 1 << 20) if ready else b""
            if not read:
                raise BrowserError(f"the browser {'said nothing' if not ready else 'ended'} (status {self.process.poll()})")
            self.received += read
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def open(self, path, width, height, dark=False, scripts=True, media="screen", scale=1):
        """A page of a file, in a window of this size."""
        return Page(self, path, width, height, dark, scripts, media, scale)


class Page:
    def __init__(self, browser, path, width, height, dark, scripts, media, scale):
        self.browser = browser
        self.target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        self.ask("Emulation.setEmulatedMedia", media=media,
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        browser.heard.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while not any(message.get("method") == "Page.loadEventFired" for message in browser.heard):
            browser.heard.append(browser.next())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.ask("Target.closeTarget", targetId=self.target)

    def ask(self, method, **parameters):
        return self.browser.ask(method, session=self.session, **parameters)

    def complaints(self):
        """Errors and warnings of the console, exceptions, and every address that was asked for besides the page."""
        self.run("0")
        said = []
        for message in self.browser.heard:
            parameters = message.get("params", {})
            match message.get("method"):
                case "Runtime.exceptionThrown":
                    said.append(parameters["exceptionDetails"]["text"])
                case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                    said.append(str(parameters["args"]))
                case "Log.entryAdded":
                    said.append(parameters["entry"]["text"])
                case "Network.requestWillBeSent" if not parameters["documentURL"] == parameters["request"]["url"]:
                    if not parameters["request"]["url"].startswith("data:"):
                        said.append(f"asks for {parameters['request']['url']}")
        return said

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, path, height=None):
        """A picture of the whole page, or of as much from its top, in a PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(height or size["height"], size["height"]), "scale": 1}
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))
