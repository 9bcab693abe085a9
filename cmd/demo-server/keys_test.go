package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/paceline-go/paceline/job"
)

func TestReadKeys(t *testing.T) {
	keys, err := readKeys(keyFile(t, testKeys))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]caller{
		"sk-test-paid-000000": {"acme", job.Paid, false}, "sk-test-free-000000": {"globex", job.Free, false},
		"sk-test-batch-00000": {"initech", job.Background, false}, "sk-test-zero-000000": {"zero", job.P0, false},
	} {
		for _, header := range [][2]string{{"Authorization", "Bearer " + key}, {"Authorization", "bearer  " + key}, {"X-Api-Key", key}} {
			r, _ := http.NewRequest("GET", "/", nil)
			r.Header.Set(header[0], header[1])
			r.Header.Set("X-Tenant", "somebody-else") // is not believed
			if got, err := keys.identify(r); err != nil || got != want {
				t.Errorf("%v is %+v %v, want %+v", header, got, err, want)
			}
		}
	}
	for _, file := range []string{
		"", "# nothing\n", "sk-secret-0000000000\n", "sk-secret-0000000000 acme paid more\n", "sk-secret acme\n",
		"sk-secret-0000000000 acme gold\n", "sk-secret-0000000000 acme 10\n", "sk-secret-0000000000 a=b\n",
		"sk-secret-0000000000 acme\nsk-secret-0000000000 globex\n",
	} {
		if _, err := readKeys(keyFile(t, file)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", file, err)
		}
	}
	if _, err := readKeys("/does/not/exist"); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestKeysAreAsked(t *testing.T) {
	s := startOver(t, func(w http.ResponseWriter, r *http.Request) { writeJSON(w, 200, []byte(`{"choices":[]}`)) }, func(*app) {})
	for _, path := range []string{"POST /v1/chat/completions", "POST /v1/embeddings", "POST /v1/responses", "POST /v1/messages", "POST /chat", "GET /v1/models", "GET /v1/models/x", "POST /v1/jobs", "GET /v1/jobs/x", "DELETE /v1/jobs/x"} {
		method, path, _ := strings.Cut(path, " ")
		for _, auth := range []string{"", "Bearer ", "Basic abc", "Bearer sk-wrong-000000000000"} {
			a := s.send(method, path, hello, "Authorization", auth, "X-Tenant", "acme")
			if a.StatusCode != 401 {
				t.Errorf("%s %s with %q: %d", method, path, auth, a.StatusCode)
			}
			if strings.Contains(a.body, "sk-wrong") {
				t.Errorf("the answer has the key: %s", a.body)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/"} {
		if a := s.send("GET", path, ""); a.StatusCode != 200 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

// What a caller claims is capped by its key. A request that claims nothing is free
// and does not outrank one that does (BerriAI/litellm#14832).
func TestClaims(t *testing.T) {
	anybody := caller{tenant: anonymous, best: job.P0, trusted: true}
	paid := caller{tenant: "acme", best: job.Paid}
	free := caller{tenant: "globex", best: job.Free}
	batch := caller{tenant: "initech", best: job.Background}
	for _, tt := range []struct {
		name    string
		who     caller
		body    string
		headers []string
		tenant  string
		class   int
	}{
		{"nothing", anybody, `{}`, nil, anonymous, 5},
		{"null", anybody, `{"priority":null,"tier":null,"tenant":null}`, nil, anonymous, 5},
		{"priority", anybody, `{"priority":0}`, nil, anonymous, 0},
		{"the last priority counts", anybody, `{"priority":0,"priority":9}`, nil, anonymous, 9},
		{"tier", anybody, `{"tier":"paid"}`, nil, anonymous, 1},
		{"priority before tier", anybody, `{"tier":"paid","priority":7}`, nil, anonymous, 7},
		{"body before header", anybody, `{"tier":"background"}`, []string{"X-Priority", "0"}, anonymous, 8},
		{"X-Priority", anybody, `{}`, []string{"X-Priority", "3"}, anonymous, 3},
		{"X-Tier", anybody, `{"service_tier":"priority"}`, []string{"X-Tier", "free"}, anonymous, 5},
		{"flex", anybody, `{"service_tier":"flex"}`, nil, anonymous, 8},
		{"priority tier", anybody, `{"service_tier":"priority"}`, nil, anonymous, 1},
		{"fast", anybody, `{"service_tier":"fast"}`, nil, anonymous, 1},
		{"default tier", anybody, `{"service_tier":"default"}`, nil, anonymous, 5},
		{"tenant of the body", anybody, `{"tenant":"acme"}`, nil, "acme", 5},
		{"the header's tenant counts before the body's", anybody, `{"tenant":"acme"}`, []string{"X-Tenant", anonymous}, anonymous, 5},
		{"a key's tenant is not changed", paid, `{"tenant":"globex"}`, []string{"X-Tenant", "globex"}, "acme", 5},
		{"a paid key claims nothing", paid, `{}`, nil, "acme", 5},
		{"a paid key claims paid", paid, `{"tier":"paid"}`, nil, "acme", 1},
		{"a paid key claims more", paid, `{"priority":0}`, nil, "acme", 1},
		{"a free key claims paid", free, `{"tier":"paid"}`, nil, "globex", 5},
		{"a free key by service_tier", free, `{"service_tier":"fast"}`, nil, "globex", 5},
		{"a free key claims less", free, `{"priority":9}`, nil, "globex", 9},
		{"a background key claims nothing", batch, `{}`, nil, "initech", 8},
		{"a background key by header", batch, `{}`, []string{"X-Priority", "0"}, "initech", 8},
	} {
		h := make(http.Header)
		for i := 0; i < len(tt.headers); i += 2 {
			h.Set(tt.headers[i], tt.headers[i+1])
		}
		var c claims
		for f := range fields([]byte(tt.body)) {
			c.read(string(f.key), []byte(tt.body)[f.value:f.end])
		}
		tenant, class, err := c.apply(tt.who, h)
		if err != nil || tenant != tt.tenant || class.Class() != tt.class {
			t.Errorf("%s: tenant %q, class %d, %v; want %q, %d", tt.name, tenant, class.Class(), err, tt.tenant, tt.class)
		}
	}
}
