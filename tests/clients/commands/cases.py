"""What is typed: the cases of every command, in their order, and the commands that ask no broker.

`{address}` is the broker's, `{port}` its port, `{dir}` its log directory, `{tmp}` a directory of files, the same for both.
"""

import shlex
from dataclasses import dataclass

# Times of records, so that both brokers have the same.
AT = 1_700_000_000_000


@dataclass(frozen=True)
class Case:
    """One line that is typed after `forebay`."""

    line: str
    stdin: str | None = None
    # Also typed with --format json; or with it alone.
    json: bool = False
    # Whether the brokers go along as --brokers.
    brokers: bool = True
    # Of the output only what this expression finds is compared: the rest is each broker's own.
    only: str | None = None

    def words(self):
        return shlex.split(self.line)


def both(line, **options):
    """A question that is asked twice, as text and as JSON."""
    return Case(line, json=True, **options)


def records(partition, count):
    lines = [f'{{"partition": {partition}, "timestamp": {AT + number * 1000}, "key": "k{number % 3}", "value": "{number}"}}\n'
             for number in range(count)]
    return "".join(lines)


# Makes what the others look at. Names of topics, groups and so on are shared by all cases.
MAKE = [
    Case("topic create cars -p 3 -s retention.ms=-1 --dry-run"),
    Case("topic create cars -p 3 -s retention.ms=-1"),
    Case("topic create cars -p 3"),
    Case("topic create cars --if-not-exists"),
    Case("topic create trucks bikes -p 2 -s retention.ms=-1 -s segment.bytes=1048576"),
    Case("topic create many -r 3"),
    Case("topic create 'no name'"),
    Case("topic create wrong -s retention.ms=soon"),
    Case("topic create wrong -s no.such.setting=1"),
    Case("topic produce cars --input json", stdin=records(0, 10) + records(1, 4)),
    Case(f"topic produce trucks one two three -k key -t {AT} -p 0 -H a=1 -z lz4 --format json"),
    Case(f"topic produce trucks -K : -t {AT} --acks 1", stdin="a:1\nb:2\nc:3\n"),
    Case("topic produce cars x -p 9"),
    Case("topic produce none x --timeout 2"),
    Case("topic produce cars x -X no.such=1"),
    Case("topic consume cars -g readers -n 6 -f '%t-%p\\n'", only="cars"),
    Case("topic consume cars -g others --group-protocol consumer -n 14 -f '%t\\n'"),
    Case("quota alter --user ada --client-id app -s producer_byte_rate=1048576 --dry-run"),
    Case("quota alter --user ada --client-id app -s producer_byte_rate=1048576"),
    Case("quota alter --default user -s request_percentage=50"),
    Case("quota alter --ip 10.0.0.7 -s connection_creation_rate=5"),
    Case("quota alter --user ada -s beans=1"),
    Case("quota alter --ip 10.0.0.7 -s producer_byte_rate=1"),
    Case("user set ada", stdin="secret\n"),
    Case("user set bob --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512 --iterations 8192", stdin="secret\n"),
    Case("acl add --allow-principal User:ada --topic orders --group readers --producer --consumer --dry-run"),
    Case("acl add --allow-principal User:ada --topic orders --group readers --producer --consumer"),
    Case("acl add --deny-principal User:bob --topic ord --prefixed --operation write --host 10.0.0.7"),
    Case("acl add --allow-principal User:eve --cluster --operation alter"),
    Case("client-metrics alter slow -s interval.ms=60000 -s metrics=org.apache.kafka.producer. -s match=client_id=app.* --dry-run"),
    Case("client-metrics alter slow -s interval.ms=60000 -s metrics=org.apache.kafka.producer. -s match=client_id=app.*"),
    Case("client-metrics alter slow -s interval.ms=soon"),
    Case("cluster config --set log.cleaner.threads=2 --dry-run"),
    Case("cluster config --set log.cleaner.threads=2"),
    Case("cluster config --set log.retention.ms=soon"),
    Case("cluster config --set no.such.setting=1 --broker 1"),
]

# Changes nothing. A transaction of `writer` is open in bikes-0 then (test_cli_differential.py).
LOOK = [
    both("topic list"),
    both("topic ls 'c*' --internal"),
    both("topics list '/tr.*/'"),
    Case("topic list none"),
    both("topic describe cars"),
    both("topic describe 'b*' '/t.+/'"),
    Case("topic describe cars none"),
    Case("topic describe 'x*'"),
    both("topic describe cars --all-settings", only=r'^retention\S* .*|^cleanup\S* .*|^segment\S* .*'),
    Case("topic consume cars -e -p 0,1 --format json"),
    Case("topic consume cars -e -o -2 -p 0"),
    Case("topic consume cars -e -o newest -p 0"),
    Case("topic consume cars -e -o oldest -p 0 -n 2"),
    Case("topic consume cars -e -o beginning -p 1 -f '%k=%s %T\\n'"),
    Case(f"topic consume cars -e -p 0 -o @{AT + 7500}"),
    Case("topic consume '/cars|trucks/' -e -p 0 --format json"),
    Case("topic consume 'x*' -e"),
    Case("topic consume none -e"),
    Case("topic consume bikes -e -p 0"),
    Case("topic consume bikes -e -p 0 --read-uncommitted"),
    both("topic trim cars -o 4"),
    Case("topic trim cars -o 99 -p 0"),
    Case("topic add-partitions cars -n 1 --dry-run"),
    Case("topic alter cars -s retention.ms=86400000 --dry-run"),
    Case("topic alter cars -s retention.ms=soon --dry-run"),
    Case("topic alter cars -p 1 --dry-run"),
    both("topic alter '*s' -s retention.ms=86400000"),
    both("topic delete '*s'"),
    both("group list"),
    both("groups ls 'read*' --type classic --state empty"),
    both("group describe readers"),
    both("group describe others"),
    Case("group describe none"),
    both("group lag"),
    both("group lag 'r*' none -t 'car*' --partitions"),
    Case("group lag readers --watch --every 1 --times 2"),
    both("group reset readers --to start"),
    both("group reset readers --shift-by -1 -t cars:0"),
    Case("group reset readers --to @2001-01-01 -t cars"),
    Case("group reset none --to start"),
    Case("group reset readers --to start -t cars:7"),
    Case("group delete 'read*'"),
    both("quota describe"),
    both("quota list --user ada"),
    both("quotas describe --any user --strict"),
    both("quota describe --default user"),
    both("user list"),
    both("users ls 'b*'"),
    Case("user list none"),
    both("acl list"),
    both("acls list --topic orders --pattern match"),
    both("acl list --principal User:ada --permission allow"),
    Case("acl delete --topic orders"),
    both("auth whoami"),
    both("auth explain User:ada read topic:orders"),
    both("auth explain User:bob write topic:orders --host 10.0.0.7"),
    both("auth explain User:nobody read topic:cars"),
    Case("auth explain User:ada fly topic:cars"),
    Case("tls check {address} --timeout 5"),
    Case("tls check --files {tmp}/none.pem", brokers=False),
    both("client-metrics list"),
    both("client-metrics describe"),
    Case("client-metrics describe none"),
    Case("client-metrics delete 's*'"),
    both("cluster info"),
    both("cluster health"),
    both("cluster quorum"),
    both("cluster config log.cleaner.threads log.retention.ms message.max.bytes num.partitions"),
    Case("cluster config no.such.setting"),
    Case("cluster config --all", only=r"^log.cleaner.threads .*"),
    Case("cluster config --broker 77"),
    both("logdir describe cars"),
    both("logdirs list '/cars|trucks/' --partitions"),
    Case("logdir describe --broker 77,1 none"),
    both("feature describe"),
    Case("feature upgrade metadata.version=32000 --dry-run"),
    Case("feature upgrade no.such.feature=1 --dry-run"),
    Case("feature downgrade group.version=0 --dry-run"),
    Case("feature downgrade metadata.version=1 --unsafe --dry-run"),
    both("txn list"),
    both("transactions ls --state Ongoing"),
    Case("txn list --running-longer-than 3600000"),
    Case("txn list --state Bogus"),
    both("txn describe writer"),
    Case("txn describe none"),
    both("txn producers bikes -p 0"),
    Case("txn producers bikes -p 9"),
    Case("txn abort --topic bikes --partition 0 --start-offset 7"),
    Case("backup {dir} {home}/copy", brokers=False, only=r"checked.*; the broker was stopped for"),
    Case("backup {dir} {home}/copy", brokers=False),
    # Of a tier there is something to ask where tiers are; the endpoint is ours.
    *(Case(f"tier {words} --admin {{admin}}", brokers=False)
      for words in ("status", "segments", "why cars-0", "move cars bulk", "drain /none", "verify cars")),
]

# Changes and removes what was made, and what a load leaves.
END = [
    Case("txn abort --topic bikes --partition 0 --start-offset 0", only="aborted"),
    Case("topic consume bikes -e -p 0"),
    both("txn producers bikes -p 0"),
    Case("topic alter cars -s max.message.bytes=1000 -s segment.ms=86400000"),
    Case("topic alter cars --unset segment.ms"),
    Case("topic alter cars --append cleanup.policy=compact"),
    Case("topic alter cars -p 4"),
    Case("topic alter cars -p 2"),
    Case("topic alter cars -s segment.bytes=none"),
    Case("topic produce cars {large} -p 2"),
    Case("topic add-partitions cars -n 1"),
    Case("topic add-partitions none -n 1"),
    both("topic describe cars"),
    Case("topic trim cars -o 4 -p 0 --execute"),
    Case("topic trim cars -o end -p 1 --execute"),
    Case("topic consume cars -e -p 0 -n 1"),
    Case("group reset readers --to 2 -t cars:0 --execute"),
    Case("group offset-delete readers -t cars:1"),
    Case("group offset-delete readers -t cars:9"),
    Case("group offset-delete none -t cars"),
    both("group describe readers"),
    Case("group delete readers"),
    Case("group delete readers none"),
    Case("group delete 'oth*' --execute"),
    both("group list"),
    Case("quota alter --user ada --client-id app --unset producer_byte_rate"),
    Case("quota alter --default user --unset request_percentage"),
    both("quota describe"),
    Case("user delete bob --mechanism SCRAM-SHA-256"),
    Case("user delete bob ada"),
    Case("user delete bob"),
    both("user list"),
    Case("acl delete --principal User:ada --execute"),
    Case("acl delete --topic none --execute"),
    both("acl list"),
    Case("client-metrics delete slow"),
    Case("client-metrics delete slow"),
    both("client-metrics list"),
    Case("topic delete trucks"),
    Case("topic delete trucks"),
    Case("topic delete trucks --if-exists"),
    Case("topic delete 'bik*' --execute"),
    both("topic list"),
    # What a load says of itself is the machine's: its ledger has to hold.
    Case("bench load --bootstrap {address} --seconds 30 --bytes 200KB --record 1KB --producers 1 --partitions 2 --ledger {home}/ledger",
         brokers=False, only="lost|NOT"),
    Case("bench check --bootstrap {address} {home}/ledger", brokers=False, only=r"\d+ lost|NOT"),
    Case("bench handshakes --bootstrap {address} --connections 2 --seconds 0.3", brokers=False, only=r"handshakes in|failed.*"),
    Case("profile set test brokers={address} format=json", brokers=False),
    Case("profile use test", brokers=False),
    Case("profile list", brokers=False),
    Case("topic list", brokers=False),
    Case("profile delete test", brokers=False),
    Case("profile delete test", brokers=False),
]

# Of a stopped broker's directory.
FILES = [
    Case("check {dir}", brokers=False, only=r"(?m)\d+ damaged, \d+ hints damaged|^damage.*"),
    Case("journal show {dir}", brokers=False, only="no journal"),
    Case("recover {dir}", brokers=False, only="no journal counts: its logs have everything"),
    Case("check {home}/copy", brokers=False, only=r"(?m)\d+ damaged|^damage.*"),
    Case("metadata check {dir}", brokers=False, only="sound"),
    Case("metadata show {dir}", brokers=False, only="log.cleaner.threads"),
    Case("metadata repair {dir}", brokers=False),
    Case("config reset log.cleaner.threads --data-dir {dir}", brokers=False),
    Case("config reset log.cleaner.threads --data-dir {dir}", brokers=False),
    Case("config check {home}/data.properties --data", brokers=False, only=r"(?m)^.*: sound.*|refuses.*"),
]

STAGES = {"make": MAKE, "look": LOOK, "end": END, "files": FILES}


def commands(tree):
    """The commands that have a case."""
    return {tree.command(case.words()) for stage in STAGES.values() for case in stage}


# Commands that ask no broker, or are one: there is nothing to compare. By the beginning of their words.
ALONE = {
    "format": "writes directories; a Kafka starts on ours, and ours on a Kafka's: test_first_user.py",
    "serve": "runs our broker; on directories of Kafka: test_oracle.py",
    "config show": "settings of ours, from files",
    "config reference": "the table of our settings",
    "acl suggest": "reads logs of ours; the lines that it prints: test_acls.py",
    "completion": "a script for shells",
    "tune": "settings of this host",
    "plan": "computes, or reads files; against brokers: bench/test_plan.py",
    "bench run": "starts brokers of its own; bench/test_run.py has Kafka",
    "bench list": "the experiments that there are",
    "bench report": "draws files",
    "bench sink": "is a broker that keeps nothing",
    "bench device": "disks of this machine",
    "bench hold": "starts a program",
    "bench agent": "waits for loads of another host",
}
