// The cases of ../sarama.py: prints a line of JSON for each.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"hash"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

const (
	count = 300
	wait  = 60 * time.Second
)

type given struct {
	Login    string `json:"login"`
	CA       string `json:"ca"`
	User     string `json:"user"`
	Password string `json:"password"`
}

// exchange is the client's side of SCRAM, which sarama leaves to its user.
type exchange struct {
	hash func() hash.Hash
	conv *scram.ClientConversation
}

func (e *exchange) Begin(user, password, identity string) error {
	client, err := scram.HashGeneratorFcn(e.hash).NewClient(user, password, identity)
	if err != nil {
		return err
	}
	e.conv = client.NewConversation()
	return nil
}

func (e *exchange) Step(challenge string) (string, error) { return e.conv.Step(challenge) }
func (e *exchange) Done() bool                            { return e.conv.Done() }

func (g given) config(mechanism sarama.SASLMechanism, password string) *sarama.Config {
	pem, err := os.ReadFile(g.CA)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	c := sarama.NewConfig()
	c.Version = sarama.V3_6_0_0
	c.Net.TLS.Enable = true
	c.Net.TLS.Config = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	c.Net.SASL.Enable = true
	c.Net.SASL.Mechanism = mechanism
	c.Net.SASL.User, c.Net.SASL.Password = g.User, password
	switch mechanism {
	case sarama.SASLTypeSCRAMSHA256:
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: sha256.New} }
	case sarama.SASLTypeSCRAMSHA512:
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &exchange{hash: sha512.New} }
	}
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	return c
}

func (g given) topic(c *sarama.Config, name string) error {
	admin, err := sarama.NewClusterAdmin([]string{g.Login}, c)
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false)
}

func (g given) send(c *sarama.Config, name string) error {
	producer, err := sarama.NewSyncProducer([]string{g.Login}, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	for number := range count {
		value := sarama.StringEncoder(fmt.Sprint(number))
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: name, Value: value}); err != nil {
			return err
		}
	}
	return nil
}

// reader passes on what it reads.
type reader struct{}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		messages <- string(message.Value)
		session.MarkMessage(message, "")
	}
	return nil
}

var messages = make(chan string)

func (g given) read(c *sarama.Config, name string, want int) (map[string]int, error) {
	group, err := sarama.NewConsumerGroup([]string{g.Login}, name+"-readers", c)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{name}, &reader{}); err != nil {
				return
			}
		}
	}()
	seen := map[string]int{}
	for len(seen) < want {
		select {
		case value := <-messages:
			seen[value]++
		case <-ctx.Done():
			return seen, fmt.Errorf("read %d of %d", len(seen), want)
		}
	}
	return seen, nil
}

func (g given) records(mechanism sarama.SASLMechanism) error {
	name := "sarama-records-" + strings.ToLower(string(mechanism))
	c := g.config(mechanism, g.Password)
	if err := g.topic(c, name); err != nil {
		return err
	}
	if err := g.send(c, name); err != nil {
		return err
	}
	_, err := g.read(c, name, count)
	return err
}

func (g given) transactions(mechanism sarama.SASLMechanism) error {
	name := "sarama-transactions-" + strings.ToLower(string(mechanism))
	c := g.config(mechanism, g.Password)
	if err := g.topic(c, name); err != nil {
		return err
	}
	c.Producer.Transaction.ID = name + "-id"
	producer, err := sarama.NewSyncProducer([]string{g.Login}, c)
	if err != nil {
		return err
	}
	defer producer.Close()
	for number := range 10 {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		value := sarama.StringEncoder(fmt.Sprint(number))
		if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: name, Value: value}); err != nil {
			return err
		}
		end := producer.AbortTxn
		if number%2 == 1 {
			end = producer.CommitTxn
		}
		if err := end(); err != nil {
			return err
		}
	}
	reading := g.config(mechanism, g.Password)
	reading.Consumer.IsolationLevel = sarama.ReadCommitted
	seen, err := g.read(reading, name, 5)
	if err != nil {
		return err
	}
	for value := range seen {
		if !strings.Contains("1 3 5 7 9", value) {
			return fmt.Errorf("%s was aborted", value)
		}
	}
	return nil
}

func (g given) wrong(mechanism sarama.SASLMechanism) error {
	c := g.config(mechanism, "wrong")
	c.Metadata.Retry.Max = 0
	client, err := sarama.NewClient([]string{g.Login}, c)
	if err == nil {
		client.Close()
		return fmt.Errorf("let in")
	}
	return nil
}

func say(what string, err error) {
	saw := ""
	if err != nil {
		saw = err.Error()
	}
	line, _ := json.Marshal(struct {
		Case   string `json:"case"`
		Passed bool   `json:"passed"`
		Saw    string `json:"saw"`
	}{what, err == nil, saw})
	fmt.Println(string(line))
}

func main() {
	var g given
	if err := json.Unmarshal([]byte(os.Args[1]), &g); err != nil {
		panic(err)
	}
	for _, mechanism := range []sarama.SASLMechanism{sarama.SASLTypePlaintext, sarama.SASLTypeSCRAMSHA256, sarama.SASLTypeSCRAMSHA512} {
		say(string(mechanism)+": records and a group", g.records(mechanism))
		say(string(mechanism)+": transactions", g.transactions(mechanism))
		say(string(mechanism)+": a wrong password", g.wrong(mechanism))
	}
	fmt.Println(`{"ended": true}`)
}
