package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

type round struct {
	Value      string `json:"value"`
	Partitions int32  `json:"partitions"`
	Commit     bool   `json:"commit"`
}

// Transactions one after the other: a record in each of some partitions. Positions of groups
// are the business of its GroupTransactSession, which reads as well.
func (d *driver) transact(ctx context.Context, r request) error {
	client, err := kgo.NewClient(d.options(
		kgo.TransactionalID(r.Identity), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, one := range r.Rounds {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		for partition := range one.Partitions {
			client.Produce(ctx, &kgo.Record{Topic: r.Topic, Partition: partition, Value: []byte(one.Value)}, nil)
		}
		if err := client.Flush(ctx); err != nil {
			return err
		}
		end := kgo.TryAbort
		if one.Commit {
			end = kgo.TryCommit
		}
		if err := client.EndTransaction(ctx, end); err != nil {
			return err
		}
	}
	return nil
}
