package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const unitBlocks = 4096

type produced struct {
	Partition int32        `json:"partition"`
	Key       *string      `json:"key"`
	Seed      string       `json:"seed"`
	Size      *int         `json:"size"`
	Headers   [][2]*string `json:"headers"`
	Timestamp *int64       `json:"timestamp"`
}

func payload(seed string, size *int) []byte {
	if size == nil {
		return nil
	}
	var unit []byte
	for i := 0; i < min(unitBlocks, (*size+63)/64); i++ {
		digest := sha256.Sum256(fmt.Appendf(nil, "%s:%d", seed, i))
		unit = hex.AppendEncode(unit, digest[:])
	}
	if *size == 0 {
		return []byte{}
	}
	return bytes.Repeat(unit, *size/len(unit)+1)[:*size]
}

func optional(raw []byte) any {
	if raw == nil {
		return nil
	}
	return string(raw)
}

func described(r *kgo.Record) map[string]any {
	headers := [][2]any{}
	for _, h := range r.Headers {
		headers = append(headers, [2]any{h.Key, optional(h.Value)})
	}
	line := map[string]any{
		"partition": r.Partition, "offset": r.Offset, "key": optional(r.Key), "size": nil, "sha256": nil,
		"headers": headers, "timestamp": r.Timestamp.UnixMilli(),
	}
	if r.Value != nil {
		digest := sha256.Sum256(r.Value)
		line["size"], line["sha256"] = len(r.Value), hex.EncodeToString(digest[:])
	}
	return line
}

func (p produced) record(topic string) *kgo.Record {
	record := &kgo.Record{Topic: topic, Partition: p.Partition, Value: payload(p.Seed, p.Size)}
	if p.Key != nil {
		record.Key = []byte(*p.Key)
	}
	for _, pair := range p.Headers {
		header := kgo.RecordHeader{Key: *pair[0]}
		if pair[1] != nil {
			header.Value = []byte(*pair[1])
		}
		record.Headers = append(record.Headers, header)
	}
	if p.Timestamp != nil {
		record.Timestamp = time.UnixMilli(*p.Timestamp)
	}
	return record
}

var codecs = map[string]kgo.CompressionCodec{
	"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (d *driver) produce(ctx context.Context, r request) (any, error) {
	options := d.options(
		kgo.ProducerBatchCompression(codecs[r.Codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(32<<20),
	)
	if !r.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	switch r.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()))
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var records []*kgo.Record
	for _, one := range r.Records {
		records = append(records, one.record(r.Topic))
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(records))
	for i, record := range records {
		offsets[i] = record.Offset
	}
	return offsets, nil
}

func (d *driver) consume(ctx context.Context, r request) (any, error) {
	client, err := kgo.NewClient(d.options(
		kgo.FetchMaxWait(100*time.Millisecond), kgo.FetchMaxBytes(64<<20),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			r.Topic: {r.Partition: kgo.NewOffset().At(r.Offset)},
		}),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []map[string]any{}
	for len(records) < r.Count {
		fetches := client.PollRecords(ctx, r.Count-len(records))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { records = append(records, described(record)) })
	}
	return records, nil
}

// owned is the assignment of a member, which the client changes from its own goroutine.
type owned struct {
	sync.Mutex
	partitions map[int32]bool
}

func (o *owned) change(partitions []int32, have bool) {
	o.Lock()
	defer o.Unlock()
	for _, partition := range partitions {
		if have {
			o.partitions[partition] = true
		} else {
			delete(o.partitions, partition)
		}
	}
	list := []int32{}
	for partition := range o.partitions {
		list = append(list, partition)
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	say(map[string]any{"event": "assigned", "partitions": list})
}

func (d *driver) member(ctx context.Context, r request) {
	o := &owned{partitions: map[int32]bool{}}
	change := func(have bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) { o.change(changed[r.Topic], have) }
	}
	session := time.Duration(r.SessionMs) * time.Millisecond
	client, err := kgo.NewClient(d.options(
		kgo.ConsumerGroup(r.Group), kgo.ConsumeTopics(r.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/4), kgo.RebalanceTimeout(10*time.Second),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)),
	)...)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		fetches := client.PollRecords(ctx, 1)
		fetches.EachRecord(func(record *kgo.Record) {
			line := described(record)
			line["event"] = "record"
			say(line)
			if err := client.CommitRecords(context.Background(), record); err != nil {
				say(map[string]any{"event": "error", "text": err.Error()})
				return
			}
			say(map[string]any{"event": "committed", "partition": record.Partition, "offset": record.Offset + 1})
		})
		client.AllowRebalance()
	}
	client.CloseAllowingRebalance()
	say(map[string]any{"event": "left"})
}
