package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
)

// serveProvider reads a simprovider.Config, writes the URL where that provider is,
// and serves until its input ends.
func serveProvider(in io.Reader, out io.Writer) error {
	dec := json.NewDecoder(in)
	var cfg simprovider.Config
	if err := dec.Decode(&cfg); err != nil {
		return fmt.Errorf("loadtest: provider: %w", err)
	}
	server, err := simprovider.New(cfg)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("loadtest: provider: %w", err)
	}
	if err := json.NewEncoder(out).Encode("http://" + l.Addr().String()); err != nil {
		l.Close()
		return fmt.Errorf("loadtest: provider: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		io.Copy(io.Discard, io.MultiReader(dec.Buffered(), in))
		stop()
	}()
	return server.Serve(ctx, l)
}

// judge is the running provider.
type judge struct {
	url   string
	child *child
}

// startProvider starts the provider in a process of its own.
func startProvider(cfg simprovider.Config) (*judge, error) {
	c, err := spawn("provider")
	if err != nil {
		return nil, err
	}
	j := &judge{child: c}
	if err = json.NewEncoder(c.in).Encode(cfg); err == nil {
		err = json.NewDecoder(c.out).Decode(&j.url)
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("loadtest: provider: %w", err)
	}
	return j, nil
}

// stats asks what the provider counted, with the utilisation between two times.
func (j *judge) stats(ctx context.Context, from, to time.Time) (simprovider.Stats, error) {
	var s simprovider.Stats
	q := url.Values{"from": {from.Format(time.RFC3339Nano)}, "to": {to.Format(time.RFC3339Nano)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, j.url+"/sim/stats?"+q.Encode(), nil)
	if err != nil {
		return s, fmt.Errorf("loadtest: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, fmt.Errorf("loadtest: %w", err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("loadtest: stats: %w", err)
	}
	if len(s.Pools) != 1 {
		return s, fmt.Errorf("loadtest: stats: %d pools, not 1", len(s.Pools))
	}
	return s, nil
}
