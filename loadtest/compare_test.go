package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/job"
)

// reportsOf are reports of made-up runs of every strategy.
func reportsOf(t *testing.T, args ...string) []*report {
	runs, err := parseOptions(append(args, "-compare", "-minute", "6s"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var reports []*report
	for i, o := range runs {
		sc := scenarioOf(t, o)
		var records []record
		for n := range 100 {
			at := o.Duration / 100 * time.Duration(n)
			rec := record{
				Seq: int64(n), Class: job.Free, Tenant: sc.tenants[0].name, Charge: 500,
				Submitted: at, Granted: at + time.Duration(i+1)*time.Second,
				Counted: 1, Outcome: done, Ended: o.Duration,
			}
			if n%3 == 0 {
				rec.Class, rec.Tenant, rec.Refused = job.Paid, sc.tenants[1].name, []time.Duration{rec.Submitted}
			}
			records = append(records, rec)
		}
		reports = append(reports, o.report(sc, observed{
			histories: []history{{records: records}},
			stats:     simprovider.Stats{Pools: make([]simprovider.PoolStats, 1)},
		}))
	}
	return reports
}

// TestPage reads the page as XML, and looks for anything from elsewhere.
func TestPage(t *testing.T) {
	t.Parallel()
	for name, plots := range map[string]int{"tenants": 5, "flood,surge": 8} {
		var text strings.Builder
		if err := page(&text, reportsOf(t, "-scenario", name)); err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`(?i)(https?:)?//|\bsrc=|\bhref=|@import|url\(|<script`).FindString(text.String()); m != "" {
			t.Errorf("%s: the page needs %q", name, m)
		}
		counts := make(map[string]int)
		dec := xml.NewDecoder(strings.NewReader(text.String()))
		for {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			el, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			counts[el.Name.Local]++
			for _, a := range el.Attr {
				if a.Name.Local == "d" && regexp.MustCompile(`NaN|Inf`).MatchString(a.Value) {
					t.Errorf("%s: a path has %s", name, a.Value)
				}
			}
		}
		if counts["figure"] != plots || counts["path"] != (plots+1)*len(strategies) || counts["html"] != 1 || counts["table"] == 0 {
			t.Errorf("%s: the page has %v, want %d figures", name, counts, plots)
		}
		if strings.Contains(text.String(), "ZgotmplZ") {
			t.Errorf("%s: the template refuses a value", name)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var text strings.Builder
	markdown(&text, reportsOf(t, "-scenario", "starve"))
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 4+len(strategies) {
		t.Fatalf("%d lines:\n%s", len(lines), &text)
	}
	for i, line := range lines[2:] {
		if got, want := strings.Count(line, "|"), strings.Count(lines[2], "|"); got != want {
			t.Errorf("line %d has %d bars, want %d:\n%s", i, got, want, &text)
		}
	}
	for i, s := range strategies {
		if !strings.HasPrefix(lines[4+i], "| "+s.name+" | 0 | 0.0 % | ") {
			t.Errorf("line of %s: %s", s.name, lines[4+i])
		}
	}
	// Waits of 1 s and 2 s are a sixth and a third of a minute.
	for i, want := range []string{"0.167", "0.333"} {
		if !strings.Contains(lines[4+i], "| "+want+" | "+want+" |") {
			t.Errorf("no wait of %s: %s", want, lines[4+i])
		}
	}
}

func TestAxes(t *testing.T) {
	for _, tt := range []struct {
		most float64
		want []float64
	}{
		{0, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{0.98, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{1.01, []float64{0, 0.5, 1, 1.5}},
		{5, []float64{0, 1, 2, 3, 4, 5}},
		{20, []float64{0, 5, 10, 15, 20}},
		{4321, []float64{0, 1000, 2000, 3000, 4000, 5000}},
	} {
		a := linear(tt.most, 100, 0)
		if len(a.ticks) != len(tt.want) {
			t.Errorf("up to %g: ticks %v, want %v", tt.most, a.ticks, tt.want)
			continue
		}
		for i := range a.ticks {
			if math.Abs(a.ticks[i]-tt.want[i]) > 1e-9 {
				t.Errorf("up to %g: ticks %v, want %v", tt.most, a.ticks, tt.want)
			}
		}
		if a.place(0) != 100 || a.place(a.to) != 0 || a.place(a.to/2) != 50 {
			t.Errorf("up to %g: 0 at %g, half at %g", tt.most, a.place(0), a.place(a.to/2))
		}
	}
	if a := decades(math.Inf(1), 0, 100, 0); len(a.ticks) != 2 {
		t.Errorf("without values: ticks %v", a.ticks)
	}
	a := decades(0, 2, 100, 0)
	if a.from != leastLog || a.to != 10 || len(a.ticks) != 5 || a.place(0) != 100 || a.place(0.1) != 50 {
		t.Errorf("decades %+v, 0 at %g, 0.1 at %g", a, a.place(0), a.place(0.1))
	}
}

// TestPath checks that a line has a gap where there is no value.
func TestPath(t *testing.T) {
	x, y := linear(10, 0, 100), linear(1, 100, 0)
	l := plotLine{points: []point{{0, 0}, {5, 1}, {6, math.NaN()}, {10, 0.5}}}
	if got, want := l.path(x, y), "M0.0 100.0L50.0 0.0M98.0 50.0h4"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

// TestPlotAlone reads the file of a plot as XML: it has a line and a name for each
// strategy.
func TestPlotAlone(t *testing.T) {
	t.Parallel()
	text := comparisons(reportsOf(t, "-scenario", "flood"))[0].Plots[0].alone()
	var svg struct {
		XMLName xml.Name   `xml:"http://www.w3.org/2000/svg svg"`
		Legend  []struct{} `xml:"path"`
		Plot    struct {
			Lines []struct{} `xml:"path"`
		} `xml:"svg>svg"`
	}
	if err := xml.Unmarshal([]byte(text), &svg); err != nil {
		t.Fatal(err)
	}
	if len(svg.Legend) != len(strategies) || len(svg.Plot.Lines) != len(strategies) {
		t.Errorf("%d lines and %d names for %d strategies", len(svg.Plot.Lines), len(svg.Legend), len(strategies))
	}
	for _, s := range strategies {
		if !strings.Contains(text, ">"+s.name+"<") {
			t.Errorf("%s is not named", s.name)
		}
	}
}
