"""Stands in for the module that kafka-python's source package leaves out; copied there as test/service.py."""


class ExternalService:
    """A broker that somebody else started."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        """It runs already."""

    def stop(self):
        """Whoever started it stops it."""

    def dump_logs(self):
        """Whoever started it keeps its log."""


class SpawnedService:
    """A broker that the tests would start: they are given one."""

    def __init__(self, *_):
        raise RuntimeError("no broker is started from here")
