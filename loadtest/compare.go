package main

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"strings"
)

// comparison is what the strategies made of one scenario.
type comparison struct {
	Scenario, About string
	Fleet           string
	Header          []string
	Rows            [][]string
	Plots           []plot
}

// comparisons groups the reports by scenario, in the order of the runs.
func comparisons(reports []*report) []comparison {
	var all []comparison
	for len(reports) > 0 {
		n := slices.IndexFunc(reports, func(r *report) bool { return r.Scenario != reports[0].Scenario })
		if n < 0 {
			n = len(reports)
		}
		all = append(all, compare(reports[:n]))
		reports = reports[n:]
	}
	return all
}

func compare(reports []*report) comparison {
	first := reports[0]
	c := comparison{
		Scenario: first.Scenario, About: first.about,
		Fleet: fmt.Sprintf("%d × %d dispatchers, %d tokens and %d requests per minute of %gs, %g minutes, seed %d; the provider counts by the %s rule.",
			first.Procs, first.Dispatchers, first.Limit.TPM, first.Limit.RPM, first.MinuteS, first.DurationS/first.MinuteS, first.Seed, first.Enforcer),
		Header: []string{"strategy", "refused", "budget used"},
	}
	for _, g := range first.compared {
		c.Header = append(c.Header, g.Name+" served", "waits p50", "p95")
	}
	c.Header = append(c.Header, "shed", "failed")
	if first.Aged != nil {
		c.Header = append(c.Header, "free over its bound")
	}
	c.Header = append(c.Header, "Jain")
	for _, r := range reports {
		c.Rows = append(c.Rows, r.row())
	}
	draw := func(title string, log bool, points func(overTime) []point) {
		c.Plots = append(c.Plots, plot{Title: title, log: log, minutes: first.DurationS / first.MinuteS, lines: linesOf(reports, points)})
	}
	for _, g := range first.compared {
		draw("Waits, "+g.Name+": p95 in minutes", true, func(t overTime) []point { return t.waits[g.Name] })
	}
	draw("Use of the budget, by the minute before", false, func(t overTime) []point { return t.use })
	draw("Refusals per minute", false, func(t overTime) []point { return t.refusals })
	return c
}

// row is a run's line of the table.
func (r *report) row() []string {
	row := []string{r.Strategy, fmt.Sprint(r.Provider.Refused), fmt.Sprintf("%.1f %%", 100*r.Provider.Utilisation)}
	var shed, failed int64
	for _, g := range r.compared {
		shed += g.Shed
		failed += g.Failed
		served := share(g.Done, g.Done+g.Shed+g.Failed)
		row = append(row, fmt.Sprintf("%.0f %%", 100*served), fmt.Sprintf("%.3f", g.WaitMinutes.P50), fmt.Sprintf("%.3f", g.WaitMinutes.P95))
	}
	row = append(row, fmt.Sprint(shed), fmt.Sprint(failed))
	if r.Aged != nil {
		row = append(row, fmt.Sprint(r.Aged.Violations))
	}
	return append(row, fmt.Sprintf("%.3f", r.Jain))
}

func linesOf(reports []*report, points func(overTime) []point) []plotLine {
	var lines []plotLine
	for i, r := range reports {
		lines = append(lines, plotLine{name: r.Strategy, style: i, points: points(r.overTime)})
	}
	return lines
}

// markdown writes a table of each scenario, for a README.
func markdown(w io.Writer, reports []*report) {
	for _, c := range comparisons(reports) {
		fmt.Fprintf(w, "%s: %s. %s Waits are in minutes of the provider.\n\n", c.Scenario, c.About, c.Fleet)
		fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(c.Header, " | "), strings.Repeat("---|", len(c.Header)))
		for _, row := range c.Rows {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		}
		fmt.Fprintln(w)
	}
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// page writes the comparisons as a page that needs nothing from elsewhere.
func page(w io.Writer, reports []*report) error {
	var names []string
	for _, s := range strategies {
		names = append(names, s.name+": "+s.about)
	}
	return pageTemplate.Execute(w, struct {
		Strategies  []string
		Comparisons []comparison
	}{names, comparisons(reports)})
}

// writeComparison writes what a comparison was asked for.
func writeComparison(o options, reports []*report) error {
	return errors.Join(
		writeFile(o.HTML, func(w io.Writer) error { return page(w, reports) }),
		writeFile(o.SVG, func(w io.Writer) error {
			_, err := io.WriteString(w, comparisons(reports)[0].Plots[0].alone())
			return err
		}),
	)
}

func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("loadtest: %w", err)
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("loadtest: %w", err)
	}
	return nil
}
