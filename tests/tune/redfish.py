"""A double of the controllers of many machines: redfish.py PORT HOST..; each host is a system of its name.

Its login is `root:secret`. What is staged comes into effect when the host is restarted (`POST /restart/HOST`), except for hosts
that are named in `POST /stubborn/HOST`: theirs is dropped, with a message.
"""

import base64
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOGIN = "Basic " + base64.b64encode(b"root:secret").decode()
REGISTRY = {
    "RegistryEntries": {
        "Attributes": [
            {"AttributeName": "SnoopMode", "Type": "Enumeration", "ReadOnly": False,
             "Value": [{"ValueName": name} for name in ("EarlySnoop", "HomeSnoop", "ClusterOnDie")]},
        ],
        "Dependencies": [],
    }
}


class System:
    def __init__(self):
        self.now, self.next, self.etag, self.messages, self.stubborn = {"SnoopMode": "EarlySnoop"}, {}, 1, [], False

    def restart(self):
        if self.stubborn and self.next:
            self.messages = [{"Message": "SnoopMode cannot be applied", "Severity": "Critical"}]
        else:
            self.now.update(self.next)
        self.next = {}


class Handler(BaseHTTPRequestHandler):
    systems, lock = {}, threading.Lock()

    def log_message(self, *_):
        pass

    def answer(self, status, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        _, what, host = self.path.split("/")
        with self.lock:
            system = self.systems[host]
            if what == "restart":
                system.restart()
            else:
                system.stubborn = True
        self.answer(204)

    def do_GET(self):
        if self.path == "/systems":
            with self.lock:
                return self.answer(200, {host: [system.now["SnoopMode"], system.next.get("SnoopMode")] for host, system in self.systems.items()})
        if self.headers["Authorization"] != LOGIN:
            return self.answer(401)
        with self.lock:
            self.read()

    def read(self):
        if self.path == "/redfish/v1/Registries/Bios.1":
            return self.answer(200, {"Location": [{"Uri": "/registry"}]})
        if self.path == "/registry":
            return self.answer(200, REGISTRY)
        *_, host = self.path.removesuffix("/Settings").removesuffix("/Bios").split("/")
        system, place = self.systems[host], f"/redfish/v1/Systems/{host}"
        if self.path == place:
            return self.answer(200, {"Bios": {"@odata.id": f"{place}/Bios"}})
        if self.path == f"{place}/Bios":
            return self.answer(200, {
                "Attributes": system.now, "AttributeRegistry": "Bios.1",
                "@Redfish.Settings": {
                    "SettingsObject": {"@odata.id": f"{place}/Bios/Settings"}, "SupportedApplyTimes": ["OnReset"],
                    "Messages": system.messages}})
        return self.answer(200, {"Attributes": system.next, "@odata.etag": str(system.etag)})

    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != LOGIN:
            return self.answer(401)
        with self.lock:
            system = self.systems[self.path.split("/")[4]]
            if self.headers["If-Match"] != str(system.etag):
                return self.answer(412)
            assert body["@Redfish.SettingsApplyTime"]["ApplyTime"] == "OnReset", body
            system.next.update(body["Attributes"])
            system.etag += 1
        self.answer(202)


if __name__ == "__main__":
    port, *hosts = sys.argv[1:]
    Handler.systems = {host: System() for host in hosts}
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
