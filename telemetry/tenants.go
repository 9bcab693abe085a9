package telemetry

import (
	"strings"
	"sync"
)

// other is the label of all tenants that have none of their own.
const other = "other"

// tenants gives the first tenants that come a label each.
type tenants struct {
	most int

	mu     sync.RWMutex
	labels map[string]string // by tenant; at most most
}

func newTenants(most int) *tenants {
	return &tenants{most: most, labels: make(map[string]string)}
}

// label returns the tenant's label, and whether it is its own.
func (t *tenants) label(tenant string) (label string, own bool) {
	t.mu.RLock()
	label, own = t.labels[tenant]
	full := len(t.labels) >= t.most
	t.mu.RUnlock()
	if own {
		return label, true
	}
	if full {
		return other, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if label, own = t.labels[tenant]; own {
		return label, true
	}
	if len(t.labels) >= t.most {
		return other, false
	}
	label = valid(strings.Clone(tenant))
	t.labels[strings.Clone(tenant)] = label
	return label, true
}

// valid makes a label of any bytes: Prometheus takes UTF-8 only, and panics.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
