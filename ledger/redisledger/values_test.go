package redisledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/estimator/learn"
	"github.com/paceline-go/paceline/internal/redistest"
	"github.com/paceline-go/paceline/ledger/redisledger"
)

var _ learn.Store = (*redisledger.Ledger)(nil)

func TestValues(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"one server": redistest.Start(t).URL(), "cluster": redistest.ClusterURL(t)} {
		t.Run(name, func(t *testing.T) {
			client := open(t, url)
			l := newLedger(t, client, "values-"+strings.ReplaceAll(name, " ", "-"))
			swap := func(name, old, value string, want bool) {
				t.Helper()
				if got, err := l.SwapValue(t.Context(), name, []byte(old), []byte(value)); err != nil || got != want {
					t.Errorf("%q from %q to %q: %v, %v", name, old, value, got, err)
				}
			}
			swap("a", "x", "1", false)
			swap("a", "", "1\x00\xff", true)
			swap("a", "", "2", false)
			swap("a", "1\x00\xff", "2", true)
			swap("b", "", "3", true)
			all, err := l.Values(t.Context())
			if err != nil || len(all) != 2 || string(all["a"]) != "2" || string(all["b"]) != "3" {
				t.Errorf("%q, %v", all, err)
			}
			for _, bad := range [][2]string{{"", "v"}, {"n", ""}, {strings.Repeat("n", 1025), "v"}, {"n", strings.Repeat("v", 1025)}} {
				if _, err := l.SwapValue(t.Context(), bad[0], nil, []byte(bad[1])); err == nil {
					t.Errorf("no error for %d and %d bytes", len(bad[0]), len(bad[1]))
				}
			}
			key := client.Keys(t.Context(), "{values-*}:values").Val()
			if name != "cluster" && len(key) != 1 {
				t.Fatalf("keys %q", key)
			}
			for _, k := range key {
				if ttl := client.PTTL(t.Context(), k).Val(); ttl <= 6*24*time.Hour || ttl > 7*24*time.Hour {
					t.Errorf("it stays %v", ttl)
				}
			}
		})
	}
}

// Names that are made up take the places of others.
func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	l := newLedger(t, open(t, redistest.Start(t).URL()), "bounded")
	for i := range 4200 {
		if _, err := l.SwapValue(t.Context(), fmt.Sprint(i), nil, []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	all, err := l.Values(t.Context())
	if err != nil || len(all) != 4096 || all["4199"] == nil {
		t.Errorf("%d values, %v", len(all), err)
	}
}

// What one process learns another one knows.
func TestFactorsInRedis(t *testing.T) {
	t.Parallel()
	l := newLedger(t, open(t, redistest.Start(t).URL()), "factors")
	a, b := learn.NewFactors(0), learn.NewFactors(0)
	k := learn.Key{Provider: "p", Model: "m", Route: "r"}
	for range 30 {
		a.Observe(k, 1000, 1600)
	}
	for _, f := range []*learn.Factors{a, b} {
		if err := f.Sync(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Scale(k); got != a.Scale(k) || got.Mean < 1.59 || got.Mean > 1.61 {
		t.Errorf("%+v and %+v", a.Scale(k), got)
	}
}
