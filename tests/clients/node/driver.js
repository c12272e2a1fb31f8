// The driver for kafkajs (see drivers/protocol.py for what a driver is). Usage: node driver.js ADDRESS
// Codecs other than gzip are plugged into kafkajs by codecs.js.
'use strict';

const { createHash } = require('crypto');
const { readFileSync } = require('fs');
const { once } = require('events');
const readline = require('readline');
const kafkajs = require('kafkajs');
const codecs = require('./codecs');

const UNIT_BLOCKS = 4096;
const WAIT_MS = 30000;
const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 };

function payload(seed, size) {
  if (size === null) return null;
  const blocks = Math.min(UNIT_BLOCKS, Math.ceil(size / 64));
  const parts = [];
  for (let i = 0; i < blocks; i++) parts.push(createHash('sha256').update(`${seed}:${i}`).digest('hex'));
  return Buffer.alloc(size, parts.join(''), 'latin1');
}

function described(partition, message) {
  const headers = [];
  for (const [name, values] of Object.entries(message.headers || {})) {
    for (const value of [].concat(values)) headers.push([name, value === null ? null : value.toString()]);
  }
  return {
    partition,
    offset: Number(message.offset),
    key: message.key === null ? null : message.key.toString(),
    size: message.value === null ? null : message.value.length,
    sha256: message.value === null ? null : createHash('sha256').update(message.value).digest('hex'),
    headers,
    timestamp: Number(message.timestamp),
  };
}

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

// Settings of a listener of SASL_SSL, if the driver is to go there (DRIVER_SECURITY in drivers/protocol.py).
function secured() {
  if (!process.env.DRIVER_SECURITY) return {};
  const { ca, user, password, mechanism } = JSON.parse(process.env.DRIVER_SECURITY);
  return {
    ssl: { ca: [readFileSync(ca)], servername: 'localhost' },
    sasl: { mechanism: mechanism.toLowerCase(), username: user, password },
  };
}

class Driver {
  constructor(address) {
    this.kafka = new kafkajs.Kafka({
      brokers: [address],
      ...secured(),
      logLevel: kafkajs.logLevel.NOTHING,
      requestTimeout: WAIT_MS,
      retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 20 },
    });
    this.current = null;
  }

  // A new one for every op: kafkajs fails on metadata for any topic it ever asked for that is gone meanwhile.
  async admin() {
    if (this.current) await this.current.disconnect();
    this.current = this.kafka.admin();
    await this.current.connect();
    return this.current;
  }

  async create_topic({ topic, partitions, configs }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1, configEntries }];
    await (await this.admin()).createTopics({ topics, waitForLeaders: true });
  }

  async delete_topic({ topic }) {
    await (await this.admin()).deleteTopics({ topics: [topic] });
  }

  async topics() {
    return (await (await this.admin()).listTopics()).sort();
  }

  async describe_topic({ topic }) {
    const found = await (await this.admin()).fetchTopicMetadata({ topics: [topic] });
    return { partitions: found.topics[0].partitions.length };
  }

  async add_partitions({ topic, total }) {
    await (await this.admin()).createPartitions({ topicPartitions: [{ topic, count: total }] });
  }

  async configs({ topic }) {
    const resources = [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic }];
    const found = await (await this.admin()).describeConfigs({ resources, includeSynonyms: false });
    return Object.fromEntries(found.resources[0].configEntries.map((e) => [e.configName, e.configValue]));
  }

  // The whole-sale AlterConfigs request (the other drivers send the incremental one).
  async alter_config({ topic, name, value }) {
    const resources = [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }];
    await (await this.admin()).alterConfigs({ validateOnly: false, resources });
  }

  async delete_records({ topic, partition, offset }) {
    const admin = await this.admin();
    // kafkajs looks for the leader before it has asked for the topic's metadata.
    await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] });
    return Number((await this.ends(topic, partition)).low);
  }

  async produce({ topic, records, codec = 'none', idempotent = false, acks = 'all' }) {
    const producer = this.kafka.producer({
      idempotent,
      maxInFlightRequests: 1,
      createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
    });
    await producer.connect();
    const offsets = [];
    // One request per record: kafkajs reports only the first offset of a batch.
    for (const record of records) {
      const headers = {};
      for (const [name, value] of record.headers || []) headers[name] = value;
      const message = { key: record.key ?? null, value: payload(record.seed, record.size), partition: record.partition, headers };
      if (record.timestamp) message.timestamp = String(record.timestamp);
      const request = { topic, messages: [message], compression: CODECS[codec], acks: acks === 'all' ? -1 : Number(acks) };
      const [answer] = await producer.send(request);
      // With acks=0 the broker says nothing, so no offset is known.
      offsets.push(answer ? Number(answer.baseOffset) : -1);
    }
    await producer.disconnect();
    return offsets;
  }

  async transact({ topic, identity, group, rounds }) {
    const producer = this.kafka.producer({ transactionalId: identity, maxInFlightRequests: 1, idempotent: true });
    await producer.connect();
    for (const one of rounds) {
      const transaction = await producer.transaction();
      for (let partition = 0; partition < one.partitions; partition += 1) {
        await transaction.send({ topic, messages: [{ value: one.value, partition }] });
      }
      const partitions = [{ partition: 0, offset: String(one.position) }];
      await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions }] });
      await (one.commit ? transaction.commit() : transaction.abort());
    }
    await producer.disconnect();
  }

  // kafkajs reads only as a group member, so each call is a group of its own, deleted afterwards.
  async consume({ topic, partition, offset, count }) {
    const groupId = `reader-${process.pid}-${topic}-${partition}-${offset}-${Date.now()}`;
    const consumer = this.kafka.consumer({ groupId, maxWaitTimeInMs: 100, maxBytesPerPartition: 4 << 20 });
    const records = [];
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('no record came')), WAIT_MS);
      consumer.on(consumer.events.CRASH, ({ payload: { error } }) => reject(error));
      const eachMessage = async ({ partition: from, message }) => {
        if (from !== partition || records.length >= count || Number(message.offset) < offset) return;
        records.push(described(from, message));
        timer.refresh();
        if (records.length === count) {
          clearTimeout(timer);
          resolve();
        }
      };
      consumer.run({ autoCommit: false, eachMessage }).catch(reject);
      consumer.seek({ topic, partition, offset: String(offset) });
    });
    await consumer.disconnect();
    await (await this.admin()).deleteGroups([groupId]);
    return records;
  }

  async ends(topic, partition) {
    const found = await (await this.admin()).fetchTopicOffsets(topic);
    return found.find((entry) => entry.partition === partition);
  }

  async watermarks({ topic, partition }) {
    const { low, high } = await this.ends(topic, partition);
    return [Number(low), Number(high)];
  }

  async offset_for_time({ topic, partition, timestamp }) {
    const found = await (await this.admin()).fetchTopicOffsetsByTimestamp(topic, timestamp);
    const offset = Number(found.find((entry) => entry.partition === partition).offset);
    // kafkajs answers the end of the log where the broker says that there is no such record.
    const { high } = await this.ends(topic, partition);
    return offset >= Number(high) ? null : offset;
  }

  async groups() {
    return (await (await this.admin()).listGroups()).groups.map((group) => group.groupId).sort();
  }

  async describe_group({ group }) {
    const { groups } = await (await this.admin()).describeGroups([group]);
    return { state: groups[0].state, members: groups[0].members.length };
  }

  async group_offsets({ group, topic }) {
    const found = await (await this.admin()).fetchOffsets({ groupId: group, topics: [topic] });
    const committed = found[0].partitions.filter((entry) => Number(entry.offset) >= 0);
    return Object.fromEntries(committed.map((entry) => [String(entry.partition), Number(entry.offset)]));
  }

  async reset_group({ group, topic, offsets }) {
    const partitions = Object.entries(offsets).map(([partition, offset]) => ({ partition: Number(partition), offset: String(offset) }));
    await (await this.admin()).setOffsets({ groupId: group, topic, partitions });
  }

  async delete_group({ group }) {
    await (await this.admin()).deleteGroups([group]);
  }

  async member({ group, topic, session_ms: sessionTimeout }, ended) {
    const consumer = this.kafka.consumer({
      groupId: group, sessionTimeout, heartbeatInterval: Math.floor(sessionTimeout / 4), rebalanceTimeout: 10000, maxWaitTimeInMs: 100,
    });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload: { memberAssignment } }) => {
      say({ event: 'assigned', partitions: [...(memberAssignment[topic] || [])].sort((a, b) => a - b) });
    });
    consumer.on(consumer.events.CRASH, ({ payload: { error } }) => say({ event: 'error', text: String(error) }));
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        say({ event: 'record', ...described(partition, message) });
        const next = Number(message.offset) + 1;
        await consumer.commitOffsets([{ topic, partition, offset: String(next) }]);
        say({ event: 'committed', partition, offset: next });
      },
    });
    await ended;
    await consumer.disconnect();
    say({ event: 'left' });
  }
}

async function main() {
  await codecs.install(kafkajs);
  const driver = new Driver(process.argv[2]);
  const lines = readline.createInterface({ input: process.stdin });
  const ended = once(lines, 'close');
  let turn = Promise.resolve();
  lines.on('line', (line) => {
    const { op, ...request } = JSON.parse(line);
    turn = turn.then(async () => {
      try {
        const result = await driver[op](request, ended);
        if (op !== 'member') say({ ok: result ?? null });
      } catch (error) {
        say({ error: `${error?.name}: ${error?.message ?? error}` });
      }
    });
  });
  await ended;
  await turn;
  process.exit(0);
}

main();
