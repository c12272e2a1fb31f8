// The driver for franz-go (see ../drivers/protocol.py for what a driver is). Usage: clients ADDRESS
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

const wait = 30 * time.Second

// request holds the arguments of every op; each op uses those it needs.
type request struct {
	Op         string            `json:"op"`
	Topic      string            `json:"topic"`
	Partitions int32             `json:"partitions"`
	Total      int               `json:"total"`
	Configs    map[string]string `json:"configs"`
	Name       string            `json:"name"`
	Value      string            `json:"value"`
	Partition  int32             `json:"partition"`
	Offset     int64             `json:"offset"`
	Count      int               `json:"count"`
	Timestamp  int64             `json:"timestamp"`
	Records    []produced        `json:"records"`
	Codec      string            `json:"codec"`
	Idempotent bool              `json:"idempotent"`
	Acks       string            `json:"acks"`
	Group      string            `json:"group"`
	Offsets    map[string]int64  `json:"offsets"`
	SessionMs  int64             `json:"session_ms"`
	Identity   string            `json:"identity"`
	Rounds     []round           `json:"rounds"`
}

var out sync.Mutex

func say(line map[string]any) {
	raw, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(raw))
}

func main() {
	d := &driver{address: os.Args[1]}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			say(map[string]any{"error": err.Error()})
			continue
		}
		if r.Op == "member" {
			ctx, leave := context.WithCancel(context.Background())
			go func() {
				for lines.Scan() {
				}
				leave()
			}()
			d.member(ctx, r)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		if result, err := d.answer(ctx, r); err != nil {
			say(map[string]any{"error": err.Error()})
		} else {
			say(map[string]any{"ok": result})
		}
		cancel()
		d.forget()
	}
}

func (d *driver) answer(ctx context.Context, r request) (any, error) {
	switch r.Op {
	case "create_topic":
		return nil, d.createTopic(ctx, r)
	case "delete_topic":
		return nil, d.deleteTopic(ctx, r)
	case "topics":
		return d.topics(ctx)
	case "describe_topic":
		return d.describeTopic(ctx, r)
	case "add_partitions":
		return nil, d.addPartitions(ctx, r)
	case "configs":
		return d.configs(ctx, r)
	case "alter_config":
		return nil, d.alterConfig(ctx, r)
	case "delete_records":
		return d.deleteRecords(ctx, r)
	case "produce":
		return d.produce(ctx, r)
	case "transact":
		return nil, d.transact(ctx, r)
	case "consume":
		return d.consume(ctx, r)
	case "watermarks":
		return d.watermarks(ctx, r)
	case "offset_for_time":
		return d.offsetForTime(ctx, r)
	case "groups":
		return d.groups(ctx)
	case "describe_group":
		return d.describeGroup(ctx, r)
	case "group_offsets":
		return d.groupOffsets(ctx, r)
	case "reset_group":
		return nil, d.resetGroup(ctx, r)
	case "delete_group":
		return nil, d.deleteGroup(ctx, r)
	}
	return nil, fmt.Errorf("no such op: %s", r.Op)
}
