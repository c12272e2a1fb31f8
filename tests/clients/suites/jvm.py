"""Kafka's Java programs with the class path that fetch.jars brings."""

from clients.suites import fetch
from peers import kafka
from peers.process import Process, wait_until


def command(program, *arguments, heap="-Xmx512m"):
    config = f"-Dlog4j2.configurationFile={kafka.HERE / 'log4j2.xml'}"
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", heap, *options, config, "-cp", f"{fetch.jars()}/*", program, *map(str, arguments)]


def spawn(program, *arguments, log):
    return Process(command(program, *arguments), log)


def properties(path, **settings):
    """A properties file; `__` in a name stands for a dot."""
    path.write_text("".join(f"{key.replace('__', '.')}={value}\n" for key, value in settings.items()))
    return path


def wait_for(process, text, seconds):
    """Until the program has printed this; it must not have ended before."""

    def printed():
        found = text in process.log.read_text(errors="replace")
        assert found or process.alive(), f"ended with {process.child.returncode} before {text!r}:\n{process.tail()}"
        return found

    wait_until(printed, f"{text!r} in {process.log}", seconds, every=0.2)
