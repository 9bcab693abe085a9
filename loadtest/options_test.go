package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		args               []string
		procs, dispatchers int
		duration           time.Duration
	}{
		{nil, 4, 1, 30 * time.Second},
		{[]string{"-scenario", "fleet"}, 4, 25, 30 * time.Second},
		{[]string{"-scenario", "fleet", "-procs", "2", "-dispatchers", "3"}, 2, 3, 30 * time.Second},
		{[]string{"-scenario", "starve"}, 4, 1, 2 * time.Minute},
		{[]string{"-scenario", "aged", "-duration", "1m"}, 4, 1, time.Minute},
	} {
		o := parse(t, append(tt.args, "-minute", "6s")...)
		if o.Procs != tt.procs || o.Dispatchers != tt.dispatchers || o.Duration != tt.duration || o.TPM != 200_000 || o.RPM != 500 {
			t.Errorf("%q: %+v", tt.args, o)
		}
	}
}

// TestRuns checks which runs the flags ask for.
func TestRuns(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"steady paceline"}},
		{[]string{"-strategy", "poll"}, []string{"steady poll"}},
		{[]string{"-scenario", "aged,fresh"}, []string{"aged paceline", "fresh paceline"}},
		{[]string{"-scenario", "flood", "-compare"}, []string{"flood paceline", "flood retry", "flood local", "flood poll"}},
	} {
		runs, err := parseOptions(tt.args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range runs {
			got = append(got, o.Scenario+" "+o.Strategy)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got, tt.want)
		}
	}
}

// TestBadOptions checks that each complaint names its flag.
func TestBadOptions(t *testing.T) {
	for _, tt := range []struct {
		flag string
		args []string
	}{
		{"-scenario", []string{"-scenario", "none"}},
		{"-scenario", []string{"-scenario", "aged,"}},
		{"-strategy", []string{"-strategy", "none"}},
		{"-strategy", []string{"-strategy", "poll", "-compare"}},
		{"-html", []string{"-html", "page.html"}},
		{"-svg", []string{"-svg", "plot.svg"}},
		{"-provider", []string{"-provider", "none"}},
		{"-provider", []string{"-provider", "azure", "-settle", "final"}},
		{"-provider", []string{"-configured", "2"}},
		{"-provider", []string{"-others", "30"}},
		{"-configured", []string{"-provider", "azure", "-configured", "-1"}},
		{"-others", []string{"-provider", "azure", "-others", "91"}},
		{"-outputs", []string{"-outputs", "none"}},
		{"-outputs", []string{"-outputs", "chat", "-output-mean", "100"}},
		{"-expect", []string{"-expect", "none"}},
		{"-lower-caps", []string{"-lower-caps", "0.5"}},
		{"-expect", []string{"-strategy", "oracle", "-expect", "cap"}},
		{"-jitter", []string{"-jitter", "11s"}},
		{"-procs", []string{"-procs", "-1"}},
		{"-dispatchers", []string{"-dispatchers", "-1"}},
		{"-dispatchers", []string{"-dispatchers", "70000"}},
		{"-enforcer", []string{"-enforcer", "none"}},
		{"-settle", []string{"-settle", "none"}},
		{"-minute", []string{"-minute", "1ms"}},
		{"-minute", []string{"-minute", "2m"}},
		{"-minute", []string{"-minute", "soon"}},
		{"-duration", []string{"-minute", "6s", "-duration", "12s"}},
		{"-duration", []string{"-minute", "6s", "-duration", "24s", "-scenario", "aged"}},
		{"-kill-at", []string{"-kill-at", "1h"}},
		{"-kill-at", []string{"-kill-at", "-1s"}},
		{"-kill-at", []string{"-kill-at", "1s", "-procs", "1"}},
		{"-tpm", []string{"-tpm", "20000"}},
		{"-tpm", []string{"-tpm", "1000000000"}},
		{"-inflight", []string{"-inflight", "-1"}},
		{"-cap", []string{"-cap", "-1"}},
		{"-output-mean", []string{"-output-mean", "-1"}},
		{"-output-mean", []string{"-output-mean", "NaN"}},
		{"-rpm", []string{"-rpm", "0"}},
		{"-weights", []string{"-weights", "1:1:1"}},
		{"-weights", []string{"-scenario", "tenants", "-weights", "1:1"}},
		{"surge", []string{"surge"}},
	} {
		_, err := parseOptions(tt.args, io.Discard)
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), tt.flag) {
			t.Errorf("%q: %v, want a complaint about %s", tt.args, err, tt.flag)
		}
	}
	if _, err := parseOptions([]string{"-help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: %v", err)
	}
}

func TestParseWeights(t *testing.T) {
	for text, want := range map[string][]int64{
		"1:1:1": {1, 1, 1}, "4:2:1": {4, 2, 1}, "1:2:1000": {1, 2, 1000},
		"": nil, "1": nil, "1:2": nil, "1:2:3:4": nil, "0:1:1": nil, "-1:1:1": nil, "1:1:1001": nil, "1:1:x": nil, "1: 1:1": nil,
	} {
		got, err := parseWeights(text)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}
