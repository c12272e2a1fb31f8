"""A plugin of pytest that runs beside kafka-python's tests: all clients that their fixtures make log in over TLS. Against a broker
that somebody else has started, the fixtures themselves speak plain text only.
"""

import json
import os


def pytest_configure():
    from test.integration.fixtures import KafkaFixture

    login, own = json.loads(os.environ["SUITE_LOGIN"]), KafkaFixture._enrich_client_params

    def enriched(self, params, **defaults):
        return own(self, {**login, **params}, **defaults)

    KafkaFixture._enrich_client_params = enriched
