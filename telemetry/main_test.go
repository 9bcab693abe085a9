package telemetry_test

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"github.com/paceline-go/paceline/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape returns every sample by name and labels, as Prometheus reads them.
func scrape(t *testing.T, m *telemetry.Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	samples := make(map[string]float64)
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		samples[line[:i]] = v
	}
	return samples
}

func check(t *testing.T, samples map[string]float64, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if got, ok := samples[name]; !ok || got != v {
			t.Errorf("%s = %v (there: %v), want %v", name, got, ok, v)
		}
	}
}
