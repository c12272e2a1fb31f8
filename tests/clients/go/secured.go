package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login is DRIVER_SECURITY (see ../drivers/protocol.py).
type login struct {
	CA        string `json:"ca"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Mechanism string `json:"mechanism"`
}

// options are those of every client, with these.
func (d *driver) options(more ...kgo.Opt) []kgo.Opt {
	all := []kgo.Opt{kgo.SeedBrokers(d.address)}
	if text := os.Getenv("DRIVER_SECURITY"); text != "" {
		var wanted login
		if err := json.Unmarshal([]byte(text), &wanted); err != nil {
			panic(err)
		}
		all = append(all, kgo.DialTLSConfig(wanted.trust()), kgo.SASL(wanted.mechanism()))
	}
	return append(all, more...)
}

func (l login) trust() *tls.Config {
	pem, err := os.ReadFile(l.CA)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		panic("no certificate in " + l.CA)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func (l login) mechanism() sasl.Mechanism {
	secret := scram.Auth{User: l.User, Pass: l.Password}
	switch l.Mechanism {
	case "SCRAM-SHA-256":
		return secret.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return secret.AsSha512Mechanism()
	case "PLAIN":
		return plain.Auth{User: l.User, Pass: l.Password}.AsMechanism()
	}
	panic("no such mechanism: " + l.Mechanism)
}
