// Snappy, LZ4 and Zstandard for kafkajs, from packages that need no compiler at install time.
'use strict';

const snappy = require('snappyjs');
const lz4 = require('lz4-napi');
const zstd = require('@bokuweb/zstd-wasm');

const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);
const XERIAL_HEADER = 16;
// For frames that do not say their decompressed size.
const ZSTD_SIZE_MAX = { defaultHeapSize: 64 << 20 };

// Brokers and Java clients frame snappy in blocks; librdkafka and this driver send one raw block.
function unsnappy(input) {
  if (!input.subarray(0, 8).equals(XERIAL_MAGIC)) return Buffer.from(snappy.uncompress(input));
  const parts = [];
  for (let at = XERIAL_HEADER; at < input.length; ) {
    const size = input.readUInt32BE(at);
    parts.push(Buffer.from(snappy.uncompress(input.subarray(at + 4, at + 4 + size))));
    at += 4 + size;
  }
  return Buffer.concat(parts);
}

const codec = (compress, decompress) => () => ({
  compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(decompress(buffer)),
});

async function install({ CompressionTypes, CompressionCodecs }) {
  await zstd.init();
  CompressionCodecs[CompressionTypes.Snappy] = codec((raw) => snappy.compress(raw), unsnappy);
  CompressionCodecs[CompressionTypes.LZ4] = codec((raw) => lz4.compressFrameSync(raw), (raw) => lz4.decompressFrameSync(raw));
  CompressionCodecs[CompressionTypes.ZSTD] = codec((raw) => zstd.compress(raw), (raw) => zstd.decompress(raw, ZSTD_SIZE_MAX));
}

module.exports = { install };
