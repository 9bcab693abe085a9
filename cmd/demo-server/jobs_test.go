package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/transport"
)

// jobAnswer is what /v1/jobs says.
type jobAnswer struct {
	ID, Object, Status string
	CreatedAt          int64 `json:"created_at"`
	Response           struct {
		Choices []struct{ Message struct{ Content string } }
	}
	Failure struct{ Code string }
}

func jobOf(t *testing.T, a answer, status int) (j jobAnswer) {
	t.Helper()
	if a.err != nil || a.StatusCode != status || json.Unmarshal([]byte(a.body), &j) != nil || j.Object != "job" {
		t.Fatalf("%v %v %s", a.err, a.Response, a.body)
	}
	return j
}

func TestJobs(t *testing.T) {
	s := start(t)
	body := `{"model":"gpt-4o-mini","max_tokens":50,"tier":"background","messages":[{"role":"user","content":"echo: later"}]}`
	a := s.send("POST", "/v1/jobs", body, "X-Tenant", "acme")
	j := jobOf(t, a, 202)
	if a.Header.Get("Location") != "/v1/jobs/"+j.ID || len(j.ID) < len("job_")+26 || j.CreatedAt == 0 {
		t.Errorf("%v %s", a.Header, a.body)
	}
	if b := jobOf(t, s.send("POST", "/v1/jobs", body, "X-Tenant", "acme"), 202); b.ID == j.ID {
		t.Error("two jobs have one id")
	}
	// Another tenant does not learn that it exists, nor can it cancel it.
	for _, method := range []string{"GET", "DELETE"} {
		if a := s.send(method, "/v1/jobs/"+j.ID, "", "X-Tenant", "globex"); a.StatusCode != 404 || errorOf(t, a).Code != "job_not_found" {
			t.Errorf("another tenant's %s: %d %s", method, a.StatusCode, a.body)
		}
	}
	eventually(t, "the job is done", func() bool {
		j = jobOf(t, s.send("GET", "/v1/jobs/"+j.ID, "", "X-Tenant", "acme"), 200)
		return j.Status == "done"
	})
	if len(j.Response.Choices) != 1 || j.Response.Choices[0].Message.Content != "later" {
		t.Errorf("%+v", j)
	}
	if j := jobOf(t, s.send("DELETE", "/v1/jobs/"+j.ID, "", "X-Tenant", "acme"), 200); j.Status != "done" {
		t.Errorf("a job that was done is %s after a cancel", j.Status)
	}
	if a := s.send("POST", "/v1/jobs", strings.Replace(body, "{", `{"temperature":99,`, 1)); a.StatusCode != 202 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	} else {
		id := jobOf(t, a, 202).ID
		eventually(t, "the job has failed", func() bool {
			j = jobOf(t, s.send("GET", "/v1/jobs/"+id, ""), 200)
			return j.Status == "failed"
		})
		if j.Failure.Code != "invalid_value" {
			t.Errorf("%+v", j)
		}
	}
}

// A job is cancelled while it waits, at no cost, and while it runs.
func TestJobsAreCancelled(t *testing.T) {
	p := newSlowProvider(false)
	s := startOver(t, p.ServeHTTP, func(*app) {}, "-workers", "1")
	submit := func() string {
		return jobOf(t, s.send("POST", "/v1/jobs", hello, "Authorization", paidKey), 202).ID
	}
	first := submit()
	await(t, "the first one runs", p.came)
	second := submit()
	get := func(method, id string) string {
		return jobOf(t, s.send(method, "/v1/jobs/"+id, "", "Authorization", paidKey), 200).Status
	}
	if a, b := get("GET", first), get("GET", second); a != "running" || b != "queued" {
		t.Errorf("%s and %s", a, b)
	}
	used := s.used("acme")
	if got := get("DELETE", second); got != "cancelled" {
		t.Errorf("cancelled while it waits, it is %s", got)
	}
	if got := get("DELETE", first); got != "cancelled" {
		t.Errorf("cancelled while it runs, it is %s", got)
	}
	await(t, "the first call ends", p.went)
	s.idle()
	if a, b := get("GET", first), get("DELETE", second); a != "cancelled" || b != "cancelled" {
		t.Errorf("%s and %s", a, b)
	}
	if n := s.used("acme"); n != used {
		t.Errorf("%d tokens are used, and %d when one call ran", n, used)
	}
}

// A job that the dispatcher refuses leaves nothing behind.
func TestJobsThatAreRefused(t *testing.T) {
	s := start(t)
	a := s.send("POST", "/v1/jobs", strings.Replace(hello, `20}`, `6000}`, 1))
	if e := errorOf(t, a); a.StatusCode != 413 || e.Code != "request_too_large" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	store := s.app.server.jobs
	store.mu.Lock()
	defer store.mu.Unlock()
	if len(store.jobs)+len(store.tenants)+int(store.bytes) != 0 {
		t.Errorf("%d jobs of %d tenants with %d bytes are kept", len(store.jobs), len(store.tenants), store.bytes)
	}
}

// added makes a job, and end ends it with an answer of so many bytes.
func added(t *testing.T, s *jobStore, tenant string) *storedJob {
	t.Helper()
	j, err := s.add(tenant, 10)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func end(s *jobStore, j *storedJob, answer int) {
	s.end(j, func(job.Result) ([]byte, *transport.Error) { return make([]byte, answer), nil }, job.Result{})
}

// The store is bounded in time, number, bytes, and per tenant.
func TestJobStoreIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newJobStore()
		refused := func(tenant string, bytes int64, status int) {
			t.Helper()
			_, err := s.add(tenant, bytes)
			if e, ok := errors.AsType[*transport.Error](err); !ok || e.Status != status || e.Wait < time.Second {
				t.Errorf("%v, want a refusal with %d", err, status)
			}
		}
		for range maxJobs / tenantShare {
			end(s, added(t, s, "acme"), 20)
		}
		refused("acme", 1, 429) // its own share; others have room
		old := added(t, s, "globex")
		end(s, old, 20)
		time.Sleep(keepJobs - 1)
		if s.find(old.id, "globex") == nil {
			t.Error("a job is gone too early")
		}
		time.Sleep(time.Nanosecond)
		if s.find(old.id, "globex") != nil {
			t.Error("a job is kept for too long")
		}
		if len(s.jobs)+len(s.tenants)+len(s.ended)+int(s.bytes) != 0 {
			t.Errorf("%d jobs of %d tenants with %d bytes are kept", len(s.jobs), len(s.tenants), s.bytes)
		}

		for i := range maxJobs {
			if _, err := s.add(fmt.Sprint(i%10), 1); err != nil {
				t.Fatal(i, err)
			}
		}
		refused("new", 1, 503)

		s = newJobStore()
		first, second, third := added(t, s, "a"), added(t, s, "b"), added(t, s, "c")
		end(s, first, maxJobBytes/2)
		refused("b", maxJobBytes, 503)
		end(s, second, maxJobBytes/3)
		end(s, third, maxJobBytes/3) // pushes out the oldest answer
		if s.find(first.id, "a") != nil || s.find(second.id, "b") == nil || s.find(third.id, "c") == nil || s.bytes > maxJobBytes {
			t.Errorf("%d jobs with %d bytes are kept", len(s.jobs), s.bytes)
		}
	})
}

// Keys make tenants: one can not see the other's jobs, whatever header it sends.
func TestJobsBelongToKeys(t *testing.T) {
	s := startOver(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		writeJSON(w, 200, []byte(`{"choices":[]}`))
	}, func(*app) {})
	id := jobOf(t, s.send("POST", "/v1/jobs", hello, "Authorization", paidKey), 202).ID
	if a := s.send("GET", "/v1/jobs/"+id, "", "Authorization", freeKey, "X-Tenant", "acme"); a.StatusCode != 404 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.send("GET", "/v1/jobs/"+id, "", "Authorization", paidKey); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
