"""A listener where users log in, beside the one of every test; and rights for these users, while all the others may do everything."""

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from peers.process import free_port

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
MODULE = "org.apache.kafka.common.security.{}LoginModule required"


def listener(broker, mechanism, module, port=None):
    """The port of a second listener of a broker that was not started yet, and the settings for it."""
    port = port or free_port()
    listeners = f"PLAINTEXT://{broker.address},LOGIN://127.0.0.1:{port}"
    controller = f",CONTROLLER://127.0.0.1:{broker.controller_port}" if broker.name == "kafka" else ""
    return port, {
        "listeners": listeners + controller,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": mechanism,
        f"listener.name.login.{mechanism.lower()}.sasl.jaas.config": f"{module};",
    }


def guard(broker, users, **settings):
    """Lets these users log in by PLAIN, the name being the password, and gives them no rights. Returns the port for it."""
    known = " ".join(f'user_{user}="{user}"' for user in users)
    port, there = listener(broker, "PLAIN", f"{MODULE.format('plain.Plain')} {known}")
    broker.properties |= {**there, "authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS", **settings}
    return port


def login(user):
    """Who a client is, in its settings."""
    return f'{MODULE.format("plain.Plain")} username="{user}" password="{user}";'


def add_scram(broker, mechanism, user, password, rounds=4096):
    """Makes a user of a broker that runs."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    credentials = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], rounds)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, credentials, password.encode())])[user].result(30)
