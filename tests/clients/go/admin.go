package main

import (
	"context"
	"sort"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type driver struct {
	address string
	client  *kadm.Client
}

func (d *driver) admin() *kadm.Client {
	if d.client == nil {
		client, err := kgo.NewClient(d.options()...)
		if err != nil {
			panic(err)
		}
		d.client = kadm.NewClient(client)
	}
	return d.client
}

// forget drops the client and what it has cached about topics: tests delete them and create them again.
func (d *driver) forget() {
	if d.client != nil {
		d.client.Close()
		d.client = nil
	}
}

func (d *driver) createTopic(ctx context.Context, r request) error {
	configs := map[string]*string{}
	for name, value := range r.Configs {
		configs[name] = kadm.StringPtr(value)
	}
	_, err := d.admin().CreateTopic(ctx, r.Partitions, 1, configs, r.Topic)
	return err
}

func (d *driver) deleteTopic(ctx context.Context, r request) error {
	_, err := d.admin().DeleteTopic(ctx, r.Topic)
	return err
}

func (d *driver) topics(ctx context.Context) (any, error) {
	found, err := d.admin().ListTopicsWithInternal(ctx)
	names := found.Names()
	sort.Strings(names)
	return names, err
}

func (d *driver) describeTopic(ctx context.Context, r request) (any, error) {
	found, err := d.admin().ListTopics(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	return map[string]any{"partitions": len(found[r.Topic].Partitions)}, found[r.Topic].Err
}

func (d *driver) addPartitions(ctx context.Context, r request) error {
	found, err := d.admin().UpdatePartitions(ctx, r.Total, r.Topic)
	if err != nil {
		return err
	}
	return found.Error()
}

func (d *driver) configs(ctx context.Context, r request) (any, error) {
	found, err := d.admin().DescribeTopicConfigs(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	one, err := found.On(r.Topic, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]*string{}
	for _, config := range one.Configs {
		values[config.Key] = config.Value
	}
	return values, one.Err
}

func (d *driver) alterConfig(ctx context.Context, r request) error {
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: r.Name, Value: &r.Value}}
	found, err := d.admin().AlterTopicConfigs(ctx, change, r.Topic)
	if err != nil {
		return err
	}
	_, err = found.On(r.Topic, func(one *kadm.AlterConfigsResponse) error { return one.Err })
	return err
}

func (d *driver) deleteRecords(ctx context.Context, r request) (any, error) {
	var offsets kadm.Offsets
	offsets.AddOffset(r.Topic, r.Partition, r.Offset, -1)
	found, err := d.admin().DeleteRecords(ctx, offsets)
	if err != nil {
		return nil, err
	}
	one, err := found.On(r.Topic, r.Partition, nil)
	if err != nil {
		return nil, err
	}
	return one.LowWatermark, one.Err
}

func (d *driver) watermarks(ctx context.Context, r request) (any, error) {
	start, err := d.admin().ListStartOffsets(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	end, err := d.admin().ListEndOffsets(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	low, _ := start.Lookup(r.Topic, r.Partition)
	high, _ := end.Lookup(r.Topic, r.Partition)
	if low.Err != nil {
		return nil, low.Err
	}
	return []int64{low.Offset, high.Offset}, high.Err
}

func (d *driver) offsetForTime(ctx context.Context, r request) (any, error) {
	found, err := d.admin().ListOffsetsAfterMilli(ctx, r.Timestamp, r.Topic)
	if err != nil {
		return nil, err
	}
	one, _ := found.Lookup(r.Topic, r.Partition)
	// franz-go answers the end of the log, without a timestamp, where there is no such record.
	if one.Err != nil || one.Timestamp < 0 {
		return nil, one.Err
	}
	return one.Offset, nil
}

func (d *driver) groups(ctx context.Context) (any, error) {
	found, err := d.admin().ListGroups(ctx)
	names := found.Groups()
	sort.Strings(names)
	return names, err
}

func (d *driver) describeGroup(ctx context.Context, r request) (any, error) {
	found, err := d.admin().DescribeGroups(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	one := found[r.Group]
	return map[string]any{"state": one.State, "members": len(one.Members)}, one.Err
}

func (d *driver) groupOffsets(ctx context.Context, r request) (any, error) {
	found, err := d.admin().FetchOffsets(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	offsets := map[string]int64{}
	found.Each(func(one kadm.OffsetResponse) {
		if one.Topic == r.Topic && one.At >= 0 {
			offsets[strconv.Itoa(int(one.Partition))] = one.At
		}
	})
	return offsets, found.Error()
}

func (d *driver) resetGroup(ctx context.Context, r request) error {
	var offsets kadm.Offsets
	for partition, offset := range r.Offsets {
		index, err := strconv.Atoi(partition)
		if err != nil {
			return err
		}
		offsets.AddOffset(r.Topic, int32(index), offset, -1)
	}
	return d.admin().CommitAllOffsets(ctx, r.Group, offsets)
}

func (d *driver) deleteGroup(ctx context.Context, r request) error {
	_, err := d.admin().DeleteGroup(ctx, r.Group)
	return err
}
