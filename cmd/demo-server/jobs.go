package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/transport"
)

// serveSubmit answers POST /v1/jobs: a chat completion that nobody waits for.
func (s *server) serveSubmit(w http.ResponseWriter, r *http.Request) error {
	who, err := s.keys.identify(r)
	if err != nil {
		return err
	}
	body, release, err := s.readBody(w, r)
	defer release()
	if err != nil {
		return err
	}
	c, err := s.chatCall(r, who, body)
	if err != nil {
		return err
	}
	if c.stream {
		return invalid("stream", "a job is not streamed; its answer is at the id that is returned")
	}
	c.spec.Deadline = time.Time{} // it is not this client's patience that counts
	if err := s.faults.strike(r, c); err != nil {
		return err
	}
	maps.Copy(w.Header(), s.budgets.header(&c.spec))
	j, err := s.jobs.add(c.spec.Tenant, int64(len(c.body)))
	if err != nil {
		return err
	}
	// The request's context ends with this answer, and the job goes on.
	ticket, err := s.dispatcher.Submit(context.Background(), c.spec, func(ctx context.Context) (any, job.Usage, error) {
		s.jobs.started(j)
		answer, usage, err := c.upstream.whole(ctx, c)
		return answer, usage, err
	})
	if err != nil {
		s.jobs.remove(j)
		return err
	}
	s.jobs.submitted(j, ticket, func(r job.Result) (answer []byte, failure *transport.Error) {
		if r.Err != nil {
			return nil, s.answerTo(r.Err)
		}
		return r.Value.([]byte), nil
	})
	w.Header()["Location"] = []string{"/v1/jobs/" + j.id}
	return s.writeJob(w, http.StatusAccepted, j)
}

// serveJob answers GET /v1/jobs/ID.
func (s *server) serveJob(w http.ResponseWriter, r *http.Request) error {
	j, err := s.findJob(r)
	if err != nil {
		return err
	}
	return s.writeJob(w, http.StatusOK, j)
}

// serveCancel answers DELETE /v1/jobs/ID: a job that is not done is cancelled.
func (s *server) serveCancel(w http.ResponseWriter, r *http.Request) error {
	j, err := s.findJob(r)
	if err != nil {
		return err
	}
	s.jobs.cancel(j)
	return s.writeJob(w, http.StatusOK, j)
}

// findJob returns the job of the path. Another tenant's is as unknown as one that
// does not exist.
func (s *server) findJob(r *http.Request) (*storedJob, error) {
	who, err := s.keys.identify(r)
	if err != nil {
		return nil, err
	}
	if j := s.jobs.find(r.PathValue("id"), who.tenant); j != nil {
		return j, nil
	}
	e := notFound("There is no job with this id; jobs are kept for 10 minutes.")
	e.Code, e.Param = "job_not_found", "id"
	return nil, e
}

func (s *server) writeJob(w http.ResponseWriter, status int, j *storedJob) error {
	v := s.jobs.view(j)
	body, err := json.Marshal(struct {
		ID        string          `json:"id"`
		Object    string          `json:"object"`
		Status    jobStatus       `json:"status"`
		CreatedAt int64           `json:"created_at"`
		Response  json.RawMessage `json:"response,omitempty"`
		Failure   json.RawMessage `json:"failure,omitempty"`
	}{j.id, "job", v.status, j.created.Unix(), v.answer, v.failure})
	if err != nil {
		return err
	}
	w.Header()["Cache-Control"] = []string{"no-store"}
	writeJSON(w, status, body)
	return nil
}
